"""The core of both clients: every request and how its answer is read, without doing any of it."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar
from uuid import UUID

from pydantic import BaseModel, JsonValue, TypeAdapter

from vlmhyperbench.client.refusals import checked, refusal_of
from vlmhyperbench.domain.short_ids import ids_from
from vlmhyperbench.registry.schemas import ExperimentEntry, RunEntry
from vlmhyperbench.wire.answers import Answers, RunImport
from vlmhyperbench.wire.artifacts import Artifact, Report
from vlmhyperbench.wire.base import Page
from vlmhyperbench.wire.evaluations import Evaluation
from vlmhyperbench.wire.health import Health, Ready
from vlmhyperbench.wire.ids import Identified
from vlmhyperbench.wire.registry import RegistryEntry, RegistrySummary
from vlmhyperbench.wire.results import Result
from vlmhyperbench.wire.runs import (
    Experiment,
    ExperimentCreate,
    ExperimentDetail,
    Run,
    RunCreate,
    RunDetail,
    RunRerun,
    RunRescore,
)
from vlmhyperbench.wire.tickets import BrowserTicket
from vlmhyperbench.wire.workers import Worker

T = TypeVar("T")
Model = TypeVar("Model", bound=BaseModel)
Id = UUID | str


@dataclass(frozen=True, slots=True, kw_only=True)
class Call(Generic[T]):
    """One request; `read` turns the body of a good answer into a value."""

    method: str
    path: str
    read: Callable[[bytes], T]
    params: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    good: tuple[int, ...] = (200, 201)

    def answer(self, status: int, body: bytes) -> T:
        """Read an answer.

        Raises:
            VlmHyperBenchError: the API refused; the class says what can be done about it.
        """
        if status not in self.good:
            raise refusal_of(status, body)
        return self.read(body)


def _id(value: Id) -> str:
    """Check an id, or the first digits of one, before anything is sent."""
    text = str(value).strip()
    ids_from(text)
    return text


def identify(given: Id) -> Call[Identified]:
    """Say which run, experiment or artifact an id stands for, whole or by its first digits."""
    return _get(f"/ids/{_id(given)}", Identified)


def health() -> Call[Health]:
    """Ask whether the process answers."""
    return _get("/health", Health)


def ready() -> Call[Ready]:
    """Ask whether runs are accepted."""
    return Call(method="GET", path="/ready", read=Ready.model_validate_json, good=(200, 503))


def create_run(
    run: str | RunEntry | Mapping[str, JsonValue],
    *,
    name: str | None = None,
    priority: int = 0,
    idempotency_key: str | None = None,
) -> Call[RunDetail]:
    """Submit a run: the name of a registry entry, or an entry, which may be written as a dictionary.

    Raises:
        RefusedInput: the dictionary is no entry of a run; every error, with its field.
    """
    body = checked(RunCreate, {"run": run, "name": name, "priority": priority})
    return _post("/runs", RunDetail, body, idempotency_key)


def rescore_run(
    run_id: Id, choices: RunRescore | None = None, *, idempotency_key: str | None = None
) -> Call[RunDetail]:
    """Evaluate the answers of a run that has ended anew: a new run, which asks no model."""
    return _post(f"/runs/{_id(run_id)}/rescore", RunDetail, choices or RunRescore(), idempotency_key)


def rerun_run(run_id: Id, choices: RunRerun | None = None, *, idempotency_key: str | None = None) -> Call[RunDetail]:
    """Run again, and keep what has not changed."""
    return _post(f"/runs/{_id(run_id)}/rerun", RunDetail, choices or RunRerun(), idempotency_key)


def upload_answers(content: bytes) -> Call[Answers]:
    """Send a file of answers in the neutral form."""
    headers = {"Content-Type": "application/x-ndjson"}
    return Call(method="POST", path="/answers", read=Answers.model_validate_json, body=content, headers=headers)


def import_run(choices: RunImport, *, idempotency_key: str | None = None) -> Call[RunDetail]:
    """Evaluate the answers of a file that was sent."""
    return _post("/runs/import", RunDetail, choices, idempotency_key)


def get_run(run_id: Id) -> Call[RunDetail]:
    """Read one run, with its spec, phases and jobs."""
    return _get(f"/runs/{_id(run_id)}", RunDetail)


def list_runs(
    *, state: str | None = None, experiment_id: Id | None = None, limit: int = 50, cursor: str | None = None
) -> Call[Page[Run]]:
    """List runs, the newest first."""
    experiment = _id(experiment_id) if experiment_id is not None else None
    return _page("/runs", Page[Run], state=state, experiment_id=experiment, limit=limit, cursor=cursor)


def cancel_run(run_id: Id) -> Call[RunDetail]:
    """Ask for a run to be cancelled; its rows stay."""
    return _post(f"/runs/{_id(run_id)}/cancel", RunDetail)


def pause_run(run_id: Id) -> Call[RunDetail]:
    """Stop assigning a run's jobs; running ones drain."""
    return _post(f"/runs/{_id(run_id)}/pause", RunDetail)


def resume_run(run_id: Id) -> Call[RunDetail]:
    """Let a paused run go on."""
    return _post(f"/runs/{_id(run_id)}/resume", RunDetail)


def create_experiment(
    experiment: str | ExperimentEntry | Mapping[str, JsonValue],
    *,
    name: str | None = None,
    priority: int = 0,
    idempotency_key: str | None = None,
) -> Call[ExperimentDetail]:
    """Submit an experiment: the name of a registry entry, or an entry, which may be written as a dictionary.

    Raises:
        RefusedInput: the dictionary is no entry of an experiment; every error, with its field.
    """
    body = checked(ExperimentCreate, {"experiment": experiment, "name": name, "priority": priority})
    return _post("/experiments", ExperimentDetail, body, idempotency_key)


def get_experiment(experiment_id: Id) -> Call[ExperimentDetail]:
    """Read one experiment, with its runs."""
    return _get(f"/experiments/{_id(experiment_id)}", ExperimentDetail)


def list_experiments(*, state: str | None = None, limit: int = 50, cursor: str | None = None) -> Call[Page[Experiment]]:
    """List experiments, the newest first."""
    return _page("/experiments", Page[Experiment], state=state, limit=limit, cursor=cursor)


def cancel_experiment(experiment_id: Id) -> Call[ExperimentDetail]:
    """Ask for an experiment and its open runs to be cancelled."""
    return _post(f"/experiments/{_id(experiment_id)}/cancel", ExperimentDetail)


def pause_experiment(experiment_id: Id) -> Call[ExperimentDetail]:
    """Stop assigning the jobs of an experiment's open runs; running ones drain."""
    return _post(f"/experiments/{_id(experiment_id)}/pause", ExperimentDetail)


def resume_experiment(experiment_id: Id) -> Call[ExperimentDetail]:
    """Let the paused runs of an experiment go on."""
    return _post(f"/experiments/{_id(experiment_id)}/resume", ExperimentDetail)


def list_results(
    run_id: Id,
    *,
    status: str | None = None,
    outcome: str | None = None,
    doc_class: str | None = None,
    question_type: str | None = None,
    limit: int = 50,
    cursor: str | None = None,
) -> Call[Page[Result]]:
    """List the answered samples of a run, in their order."""
    return _page(
        "/results",
        Page[Result],
        run_id=_id(run_id),
        status=status,
        outcome=outcome,
        doc_class=doc_class,
        question_type=question_type,
        limit=limit,
        cursor=cursor,
    )


def get_evaluation(evaluation_id: str) -> Call[Evaluation]:
    """Read what decides a quality number, by its short id."""
    return _get(f"/evaluations/{evaluation_id}", Evaluation)


def list_workers(*, include_gone: bool = False) -> Call[Page[Worker]]:
    """List workers."""
    return _page("/workers", Page[Worker], include_gone="true" if include_gone else None)


def list_registry(kind: str | None = None) -> Call[Page[RegistrySummary]]:
    """List registry entries, of one kind or of all."""
    return _page("/registry", Page[RegistrySummary], kind=kind)


def get_registry_entry(kind: str, name: str) -> Call[RegistryEntry]:
    """Read one registry entry."""
    return _get(f"/registry/{kind}/{name}", RegistryEntry)


def list_artifacts(
    *, run_id: Id | None = None, experiment_id: Id | None = None, limit: int = 50, cursor: str | None = None
) -> Call[Page[Artifact]]:
    """List the files of a run or experiment, all at once; or those of the project, in pages."""
    return _page("/artifacts", Page[Artifact], run_id=run_id, experiment_id=experiment_id, limit=limit, cursor=cursor)


def artifact_content(artifact_id: Id) -> Call[bytes]:
    """Download one file."""
    return Call(method="GET", path=f"/artifacts/{_id(artifact_id)}/content", read=bytes)


def get_image(run_id: Id, sha256: str) -> Call[bytes]:
    """Download an image that a run asked about."""
    return Call(method="GET", path=f"/runs/{_id(run_id)}/images/{sha256}", read=bytes)


def get_report(scope_id: Id) -> Call[Report]:
    """Read the newest report of a run or experiment."""
    return _get(f"/reports/{_id(scope_id)}", Report)


def create_ticket() -> Call[BrowserTicket]:
    """Make an address that opens the stack's page in one browser, once."""
    return _post("/tickets", BrowserTicket)


def _get(path: str, model: type[Model]) -> Call[Model]:
    return Call(method="GET", path=path, read=model.model_validate_json)


def _page(path: str, model: type[Model], **params: object) -> Call[Model]:
    given = {name: str(value) for name, value in params.items() if value is not None}
    return Call(method="GET", path=path, read=TypeAdapter(model).validate_json, params=given)


def _post(
    path: str, model: type[Model], body: BaseModel | None = None, idempotency_key: str | None = None
) -> Call[Model]:
    headers = {"Content-Type": "application/json", "Idempotency-Key": idempotency_key or str(uuid.uuid4())}
    content = body.model_dump_json(exclude_unset=True).encode() if body is not None else None
    return Call(method="POST", path=path, read=model.model_validate_json, body=content, headers=headers)
