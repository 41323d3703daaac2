"""`run`: submit a run or an experiment, then follow it until it ends."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, TypeVar

from cyclopts import Parameter
from pydantic import JsonValue

from vlmhyperbench.cli import exits
from vlmhyperbench.cli.adding import add_legacy, add_read, open_shelf
from vlmhyperbench.cli.bringing import bring_model, reference_of
from vlmhyperbench.cli.choices import check
from vlmhyperbench.cli.groups import SUBMISSION, TARGET
from vlmhyperbench.cli.origins import origins_of_file, origins_of_flags
from vlmhyperbench.cli.output import emit, note
from vlmhyperbench.cli.output_flags import TEXT, OutputFlags
from vlmhyperbench.cli.plans import print_paper, print_run_plan
from vlmhyperbench.cli.run_flags import Repeatable, TargetFlags, TaskFlags
from vlmhyperbench.cli.secret import check_stored
from vlmhyperbench.cli.watch import follow_submitted
from vlmhyperbench.client import Client
from vlmhyperbench.errors import InvalidInput, NotFound
from vlmhyperbench.registry.adding import dataset_entry, task_entry
from vlmhyperbench.registry.commands import default_name
from vlmhyperbench.registry.documents import read_document
from vlmhyperbench.registry.errors import RegistryErrors
from vlmhyperbench.registry.schemas import ExperimentEntry, RunEntry
from vlmhyperbench.registry.shelf import Added
from vlmhyperbench.registry.validation import validate
from vlmhyperbench.wire.placement import Plan
from vlmhyperbench.wire.plans import RunPlan
from vlmhyperbench_sdk.gateway import named_secrets
from vlmhyperbench_sdk.suggestions import did_you_mean

Planned = TypeVar("Planned", RunPlan, Plan)

_NO_TARGET = TargetFlags()
_NO_TASK = TaskFlags()


def run(
    subject: str | None = None,
    /,
    *,
    target: TargetFlags = _NO_TARGET,
    task: TaskFlags = _NO_TASK,
    secret: Annotated[Repeatable, Parameter(group=TARGET)] = (),
    name: Annotated[str | None, Parameter(group=SUBMISSION)] = None,
    priority: Annotated[int, Parameter(group=SUBMISSION)] = 0,
    detach: Annotated[bool, Parameter(group=SUBMISSION)] = False,
    dry_run: Annotated[bool, Parameter(group=SUBMISSION)] = False,
    output: OutputFlags = TEXT,
) -> int:
    """Submit a run or an experiment, and follow it until it ends.

    On Ctrl-C, only this command ends; the run continues in the stack. Exit code: 0 if it succeeded, 4 if a run failed,
    was cancelled, or had errors in more than 5 % of its requests.

    Examples: `vlmhyperbench run demo`; `vlmhyperbench run --model tiny-doc-vlm --task document-qa --limit 20`;
    `vlmhyperbench run --model hf:ORG/NAME --backend transformers --task document-qa --limit 20`;
    `vlmhyperbench run --endpoint http://localhost:8000 --model-name NAME --data questions.csv --metric anls`.

    Args:
        subject: Name of a registered experiment or run, or a YAML file with one, or a user_config.csv of the first
            version. Without it, give --model or --endpoint with --model-name, and --task or --data.
        target: The target that is asked, and how.
        task: What is asked, and how the answers are scored.
        secret: Name of a secret that the target needs; may be given several times.
        name: Name of the run or experiment; by default that of the entry, or of the model and the task.
        priority: Priority from -100 to 100; higher ones are started first.
        detach: Print the id and return at once, without waiting for the end.
        dry_run: Only say what would be asked, needed and taken: samples, requests, time, memory, environment, cost, and
            where each value is written. Nothing is created, registered or fetched.
        output: How the output is printed.
    """
    entry: str | RunEntry | ExperimentEntry
    if subject is not None and subject.lower().endswith(".csv"):
        _check_alone(subject, target, task, secret)
        entry, origins = _legacy(Path(subject), is_dry=dry_run, output=output)
    else:
        entry = _entry(subject, target, task, secrets=secret, is_dry=dry_run, output=output)
        origins = _origins(subject, task)
    if isinstance(entry, RunEntry) and subject is None and name is None:
        name = default_name(entry)
    with Client() as client:
        if isinstance(entry, ExperimentEntry) or (isinstance(entry, str) and _is_experiment(client, entry)):
            if dry_run:
                return _show("plan", client.plan(entry), print_paper, output)
            made = client.experiments.create(entry, name=name, priority=priority, origins=origins)
            return follow_submitted(client, made, detach=detach, output=output)
        if dry_run:
            plan = client.runs.plan(entry, name=name, priority=priority, origins=origins)
            return _show("run_plan", plan, print_run_plan, output)
        created = client.runs.create(entry, name=name, priority=priority, origins=origins)
        return follow_submitted(client, created, detach=detach, output=output)


def _show(kind: str, plan: Planned, write: Callable[[Planned, OutputFlags], None], output: OutputFlags) -> int:
    if output.json:
        emit(kind, plan)
    else:
        write(plan, output)
    return exits.OK


def _is_experiment(client: Client, name: str) -> bool:
    """Return whether an experiment is registered under a name, and not a run.

    Raises:
        NotFound: neither is.
    """
    known = {kind: [entry.name for entry in client.registry(kind).items] for kind in ("experiments", "runs")}
    if name in known["experiments"]:
        return True
    if name in known["runs"]:
        return False
    cure = did_you_mean(name, [*known["experiments"], *known["runs"]])
    raise NotFound(f"There is no registered experiment or run {name!r}.", cure=cure, code="unknown_name")


def _origins(subject: str | None, task: TaskFlags) -> dict[str, str]:
    """Return where the values of what is submitted were written; empty for a registered entry."""
    if subject is None:
        return origins_of_flags(is_data_given=task.data is not None, is_task_given=task.task is not None)
    return origins_of_file(Path(subject)) if subject.endswith((".yaml", ".yml")) else {}


def _entry(
    subject: str | None,
    target: TargetFlags,
    task: TaskFlags,
    *,
    secrets: tuple[str, ...],
    output: OutputFlags,
    is_dry: bool = False,
) -> str | RunEntry | ExperimentEntry:
    """Turn the arguments into what is submitted.

    Raises:
        InvalidInput: both a subject and flags are given, or neither, or flags that exclude each other.
    """
    if subject is not None:
        _check_alone(subject, target, task, secrets)
        return read_entry(Path(subject)) if subject.endswith((".yaml", ".yml")) else subject
    if task.task is None and task.data is None:
        cure = "Give --task, for example --task document-qa, or --data FILE with --metric."
        raise InvalidInput("A run needs a task.", cure=cure, code="usage")
    if task.data is not None and task.dataset is not None:
        raise InvalidInput("--data and --dataset exclude each other.", cure="Leave out one of them.", code="usage")
    choices: dict[str, JsonValue] = {**task.choices(), "secrets": list(secrets) or None}
    # Errors in flags are raised here, before any entry is written.
    engine_params = target.choice(target.model).get("engine_params")
    if not os.environ.get("VLMHB_API_URL"):  # a stack on another machine has its own secrets
        check_stored([*secrets, *_secrets_of(engine_params)])
    if is_dry:
        _check_named(target, task)
    model, own = (target.model, None) if is_dry else _add(target, task, output)
    choices["target"] = target.choice(model)
    choices["task"] = task.task
    if own is not None:
        choices["task"] = task.task or own.name
        choices["dataset"] = own.name if task.task is not None else None
    return check(RunEntry, choices)


def _check_alone(subject: str, target: TargetFlags, task: TaskFlags, secrets: tuple[str, ...]) -> None:
    if target.is_given or task.is_given or secrets:
        raise InvalidInput(
            f"{subject} defines the whole run, so flags of target and task exclude it.",
            cure=f"Leave out the flags, or leave out {subject} and give all of target and task by flags.",
            code="usage",
        )


def _legacy(file: Path, *, is_dry: bool, output: OutputFlags) -> tuple[ExperimentEntry, dict[str, str]]:
    """Register what a user_config.csv of the first version needs; return its experiment, and the lines of its runs.

    Raises:
        InvalidInput: it is a dry run, which registers nothing.
        VlmHyperBenchError: see `add_legacy`.
    """
    if is_dry:
        cure = f"Register it with `vlmhyperbench registry add experiment {file}`, then give the name of the experiment."
        raise InvalidInput("A dry run registers and fetches nothing, so it takes no CSV.", cure=cure, code="usage")
    added, plan = add_legacy(open_shelf(), file, None, output)
    for entry in added:
        note(f"  {entry.kind}/{entry.name}: {entry.file}", output)
    made = check(ExperimentEntry, {"name": plan.experiment.name, **plan.experiment.values})
    return made, dict(plan.origins)


def _check_named(target: TargetFlags, task: TaskFlags) -> None:
    """Refuse files in a dry run.

    Raises:
        InvalidInput: the model or the questions have no entry yet.
    """
    if task.data is not None or (target.model is not None and reference_of(target.model) is not None):
        cure = "Register them first with `vlmhyperbench registry add`, then give the names of their entries."
        raise InvalidInput("A dry run registers and fetches nothing, so it takes no files.", cure=cure, code="usage")


def _add(target: TargetFlags, task: TaskFlags, output: OutputFlags) -> tuple[str | None, Added | None]:
    """Register the named files; return the name of the model, and the dataset or task of the CSV.

    Raises:
        VlmHyperBenchError: see `bring_model`; or the stack runs on another machine.
        NotFound: a file does not exist.
        Conflict: another entry already has the name of the file.
    """
    added, model, own = list[Added](), target.model, None
    if task.data is not None:
        shelf = open_shelf()
        data = dataset_entry(task.data)
        others = [] if task.task is not None else [task_entry(shelf, data.name, task.metric, prompt=None)]
        added += add_read(shelf, data, *others, output=output)
        own = added[-1]
    if model is None and target.mmproj is not None:
        raise InvalidInput("--mmproj needs a GGUF file.", cure="Give --model FILE.gguf too.", code="usage")
    if model is not None:
        registered = bring_model(model, mmproj=target.mmproj, backend=target.backend, output=output)
        added += [registered] if registered is not None else []
        model = registered.name if registered is not None else model
    for entry in added:
        note(f"  {entry.kind}/{entry.name}: {entry.file}", output)
    return model, own


def _secrets_of(params: JsonValue) -> list[str]:
    return named_secrets(params) if isinstance(params, dict) else []


def read_entry(path: Path) -> RunEntry | ExperimentEntry:
    """Read a run or an experiment from a YAML file.

    Raises:
        RegistryErrors: the file is not valid; lists every error with its line.
    """
    document, errors = read_document(path, str(path))
    if document is None:
        raise RegistryErrors(errors)
    entry: RunEntry | ExperimentEntry | None
    if {"runs", "matrix"} & set(document.value):
        entry, problems = validate(ExperimentEntry, document.value)
    else:
        entry, problems = validate(RunEntry, document.value)
    if entry is None:
        raise RegistryErrors.of(problems, document.location_of)
    return entry if entry.name else entry.model_copy(update={"name": path.stem})
