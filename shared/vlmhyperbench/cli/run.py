"""`run`: submit a run or an experiment, then watch it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from pydantic import JsonValue

from vlmhyperbench.cli.shown import HUMAN, Shown
from vlmhyperbench.cli.watch import see_through
from vlmhyperbench.client import Client
from vlmhyperbench.errors import InvalidInput, NotFound
from vlmhyperbench.registry.documents import read_document
from vlmhyperbench.registry.errors import RegistryError, RegistryErrors, did_you_mean, field_of
from vlmhyperbench.registry.schemas import ExperimentEntry, RunEntry
from vlmhyperbench.registry.validation import validate
from vlmhyperbench.wire.runs import ExperimentDetail, RunDetail


def run(
    subject: str | None = None,
    /,
    *,
    model: str | None = None,
    backend: str | None = None,
    endpoint: str | None = None,
    model_name: str | None = None,
    task: str | None = None,
    prompt: str | None = None,
    scenario: str | None = None,
    dataset: str | None = None,
    limit: int | None = None,
    secret: tuple[str, ...] = (),
    name: str | None = None,
    priority: int = 0,
    detach: Annotated[bool, Parameter(negative=())] = False,
    shown: Shown = HUMAN,
) -> int:
    """Submit a run or an experiment and watch it; Ctrl-C detaches.

    Args:
        subject: Name of a registered experiment or run, or a YAML file with one; or leave it out and say --model or
            --endpoint, and --task.
        model: Registered model.
        backend: One of the model's backends.
        endpoint: OpenAI-compatible URL to measure instead of a model.
        model_name: The model's name at the endpoint.
        task: Registered task.
        prompt: Registered prompt instead of the task's.
        scenario: Registered scenario.
        dataset: Registered data set instead of the task's.
        limit: At most so many samples of --dataset.
        secret: Name of a secret that the target needs; may be given several times.
        name: Name of what is submitted.
        priority: Higher goes first, -100 to 100.
        detach: Submit, print the id and return.
        shown: How the answer is shown.
    """
    flags = {"model": model, "backend": backend, "endpoint": endpoint, "model_name": model_name, "task": task}
    entry = _entry(subject, flags, prompt=prompt, scenario=scenario, dataset=dataset, limit=limit, secrets=secret)
    with Client() as client:
        created = _submit(client, entry, name=name, priority=priority)
        return see_through(client, created, detach=detach, shown=shown)


def _submit(
    client: Client, entry: str | RunEntry | ExperimentEntry, *, name: str | None, priority: int
) -> RunDetail | ExperimentDetail:
    if isinstance(entry, ExperimentEntry):
        return client.experiments.create(entry, name=name, priority=priority)
    if isinstance(entry, RunEntry):
        return client.runs.create(entry, name=name, priority=priority)
    known = {kind: [one.name for one in client.registry(kind).items] for kind in ("experiments", "runs")}
    if entry in known["experiments"]:
        return client.experiments.create(entry, name=name, priority=priority)
    if entry in known["runs"]:
        return client.runs.create(entry, name=name, priority=priority)
    cure = did_you_mean(entry, [*known["experiments"], *known["runs"]])
    raise NotFound(f"There is no experiment or run called {entry!r}.", cure=cure, code="unknown_name")


def _entry(
    subject: str | None,
    flags: dict[str, str | None],
    *,
    prompt: str | None,
    scenario: str | None,
    dataset: str | None,
    limit: int | None,
    secrets: tuple[str, ...],
) -> str | RunEntry | ExperimentEntry:
    """Turn the arguments into what is submitted.

    Raises:
        InvalidInput: both a subject and flags, neither, or flags that do not go together.
    """
    given = {key: value for key, value in flags.items() if value is not None}
    others = {"prompt": prompt, "scenario": scenario, "dataset": dataset, "limit": limit, "secrets": secrets}
    if subject is not None:
        if given or any(value not in (None, ()) for value in others.values()):
            raise InvalidInput(
                "A registered name or a file says everything itself.",
                cure="Leave out the flags, or the name.",
                code="usage",
            )
        return read_entry(Path(subject)) if subject.endswith((".yaml", ".yml")) else subject
    target: JsonValue = {**_target(given)}
    if "task" not in given:
        raise InvalidInput("A run needs a task.", cure="Say --task, for instance document-qa.", code="usage")
    if limit is not None and dataset is None:
        raise InvalidInput("--limit bounds --dataset.", cure="Say --dataset too.", code="usage")
    chosen: dict[str, JsonValue] = {
        "prompt": prompt,
        "scenario": scenario,
        "dataset": {"name": dataset, "limit": limit} if dataset is not None else None,
        "secrets": list(secrets) or None,
    }
    entry, problems = validate(
        RunEntry,
        {"target": target, "task": given["task"], **{key: value for key, value in chosen.items() if value is not None}},
    )
    if entry is None:
        raise RegistryErrors(
            RegistryError(field=field_of(problem.path), message=problem.message, cure=problem.cure)
            for problem in problems
        )
    return entry.model_copy(update={"name": f"{given.get('model') or given.get('model_name')}-{given['task']}"})


def _target(given: dict[str, str]) -> dict[str, str | None]:
    match given:
        case {"model": model} if "endpoint" not in given:
            return {"model": model, "backend": given.get("backend")}
        case {"endpoint": url, "model_name": name} if "model" not in given:
            return {"endpoint": url, "model_name": name}
    raise InvalidInput(
        "Say what to run: a registered name, a YAML file, --model, or --endpoint with --model-name.",
        cure="See vlmhyperbench run --help; `vlmhyperbench registry ls` lists names.",
        code="usage",
    )


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
        places = [(problem, document.place_of(problem.path)) for problem in problems]
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
