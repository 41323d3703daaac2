"""`run`: submit a run or an experiment, then watch it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from pydantic import JsonValue

from vlmhyperbench.cli.adding import open_shelf
from vlmhyperbench.cli.choices import check
from vlmhyperbench.cli.groups import SUBMISSION, TARGET
from vlmhyperbench.cli.output import note
from vlmhyperbench.cli.run_flags import AskedFlags, Several, TargetFlags
from vlmhyperbench.cli.secret import check_stored
from vlmhyperbench.cli.shown import HUMAN, Shown
from vlmhyperbench.cli.watch import see_through
from vlmhyperbench.client import Client, ExperimentHandle, RunHandle
from vlmhyperbench.errors import InvalidInput, NotFound
from vlmhyperbench.registry.adding import Added
from vlmhyperbench.registry.choices import ModelChoice
from vlmhyperbench.registry.documents import read_document
from vlmhyperbench.registry.errors import RegistryError, RegistryErrors, did_you_mean, field_of
from vlmhyperbench.registry.schemas import ExperimentEntry, RunEntry
from vlmhyperbench.registry.validation import validate
from vlmhyperbench_sdk.gateway import named_secrets

_NO_TARGET = TargetFlags()
_NOTHING_ASKED = AskedFlags()


def run(
    subject: str | None = None,
    /,
    *,
    target: TargetFlags = _NO_TARGET,
    asked: AskedFlags = _NOTHING_ASKED,
    secret: Annotated[Several, Parameter(group=TARGET)] = (),
    name: Annotated[str | None, Parameter(group=SUBMISSION)] = None,
    priority: Annotated[int, Parameter(group=SUBMISSION)] = 0,
    detach: Annotated[bool, Parameter(group=SUBMISSION)] = False,
    shown: Shown = HUMAN,
) -> int:
    """Submit a run or an experiment and watch it; Ctrl-C detaches.

    Args:
        subject: Name of a registered experiment or run, or a YAML file with one. Without it, give --model or
            --endpoint, and --task or --data.
        target: Which target is asked, and how.
        asked: What is asked, and how the answers are scored.
        secret: Name of a secret that the target needs; may be given several times.
        name: Name of the run or experiment.
        priority: Priority from -100 to 100; higher is first.
        detach: Submit, print the id and return.
        shown: How the answer is shown.
    """
    entry = _entry(subject, target, asked, secrets=secret, shown=shown)
    if isinstance(entry, RunEntry) and subject is None and name is None:
        asked_model = entry.target.model if isinstance(entry.target, ModelChoice) else entry.target.model_name
        name = f"{asked_model}, {entry.task}"[:200]
    with Client() as client:
        created = _submit(client, entry, name=name, priority=priority)
        return see_through(client, created, detach=detach, shown=shown)


def _submit(
    client: Client, entry: str | RunEntry | ExperimentEntry, *, name: str | None, priority: int
) -> RunHandle | ExperimentHandle:
    if isinstance(entry, ExperimentEntry):
        return client.experiments.create(entry, name=name, priority=priority)
    if isinstance(entry, RunEntry):
        return client.runs.create(entry, name=name, priority=priority)
    known = {kind: [entry.name for entry in client.registry(kind).items] for kind in ("experiments", "runs")}
    if entry in known["experiments"]:
        return client.experiments.create(entry, name=name, priority=priority)
    if entry in known["runs"]:
        return client.runs.create(entry, name=name, priority=priority)
    cure = did_you_mean(entry, [*known["experiments"], *known["runs"]])
    raise NotFound(f"There is no experiment or run called {entry!r}.", cure=cure, code="unknown_name")


def _entry(
    subject: str | None, target: TargetFlags, asked: AskedFlags, *, secrets: tuple[str, ...], shown: Shown
) -> str | RunEntry | ExperimentEntry:
    """Turn the arguments into what is submitted.

    Raises:
        InvalidInput: both a subject and flags, neither, or flags that do not go together.
    """
    if subject is not None:
        if target.is_given or asked.is_given or secrets:
            raise InvalidInput(
                "A registered name or a file says everything itself.",
                cure="Leave out the flags, or the name.",
                code="usage",
            )
        return read_entry(Path(subject)) if subject.endswith((".yaml", ".yml")) else subject
    if asked.task is None and asked.data is None:
        cure = "Say --task, for instance document-qa, or --data FILE.csv with --metric."
        raise InvalidInput("A run needs a task.", cure=cure, code="usage")
    if asked.data is not None and asked.dataset is not None:
        raise InvalidInput("--data and --dataset both say what is asked.", cure="Leave out one.", code="usage")
    choices: dict[str, JsonValue] = {**asked.choices(), "secrets": list(secrets) or None}
    # What is malformed or missing is said before anything is written.
    wanted = target.choice(target.model)
    if not os.environ.get("VLMHB_API_URL"):  # another machine's secrets are its own
        check_stored([*secrets, *_secrets_of(wanted.get("engine_params"))])
    model, own = _add(target, asked, shown)
    choices["target"] = target.choice(model)
    choices["task"] = asked.task
    if own is not None:
        choices["task"] = asked.task or own.name
        choices["dataset"] = own.name if asked.task is not None else None
    return check(RunEntry, choices)


def _add(target: TargetFlags, asked: AskedFlags, shown: Shown) -> tuple[str | None, Added | None]:
    """Register the files that are named: return the model's name, and the data set or the task of the CSV.

    Raises:
        InvalidInput: the stack is another machine's, or a file is not what it should be.
        NotFound: a file does not exist.
        Conflict: the name that would be given stands for something else.
    """
    if target.mmproj is not None and target.model_file is None:
        raise InvalidInput("--mmproj belongs to a GGUF file.", cure="Say --model FILE.gguf too.", code="usage")
    if target.model_file is None and asked.data is None:
        return target.model, None
    shelf, added, model, own = open_shelf(), list[Added](), target.model, None
    if asked.data is not None:
        own = shelf.add_dataset(asked.data)
        added.append(own)
        if asked.task is None:
            own = shelf.add_task(own.name, asked.metric, prompt=None)
            added.append(own)
    if target.model_file is not None:
        note(f"Hashing {target.model_file} …", shown)
        found = shelf.add_model(target.model_file, target.mmproj)
        added.append(found)
        model = found.name
    for entry in added:
        note(f"  {entry.kind}/{entry.name}: {entry.file}", shown)
    return model, own


def _secrets_of(params: JsonValue) -> list[str]:
    return named_secrets(params) if isinstance(params, dict) else []


def read_entry(path: Path) -> RunEntry | ExperimentEntry:
    """Read a run or an experiment from a YAML file.

    Raises:
        RegistryErrors: it is none; every error, with its line.
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
        places = [(problem, document.location_of(problem.path)) for problem in problems]
        raise RegistryErrors(
            RegistryError(
                file=place.file,
                line=place.line,
                field=field_of(problem.path),
                message=problem.message,
                cure=problem.cure,
            )
            for problem, place in places
        )
    return entry if entry.name else entry.model_copy(update={"name": path.stem})
