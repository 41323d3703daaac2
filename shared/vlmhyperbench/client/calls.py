"""The requests of both clients, and how each response is parsed; this module does no I/O."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal
from urllib.parse import quote

from pydantic import JsonValue, TypeAdapter

from vlmhyperbench.client.call import Call, Id, get_call, id_text, named, page_call, post_call
from vlmhyperbench.client.refusals import checked
from vlmhyperbench.registry.schemas import ExperimentEntry, RunEntry
from vlmhyperbench.wire.answers import Answers, RunImport
from vlmhyperbench.wire.artifacts import Artifact, Report
from vlmhyperbench.wire.base import Page
from vlmhyperbench.wire.evaluations import Evaluation
from vlmhyperbench.wire.health import Health, Ready
from vlmhyperbench.wire.ids import Identified
from vlmhyperbench.wire.joining import JoinToken, JoinTokenCreate, JoinTokenCreated
from vlmhyperbench.wire.manifests import RunManifest
from vlmhyperbench.wire.placement import Drain, DrainRequest, Plan, PlanRequest, ResumeRequest, Scope
from vlmhyperbench.wire.plans import RunPlan
from vlmhyperbench.wire.registry import ParsedEntry, ParseRequest, RegistryEntry, RegistrySummary
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
    RunRetune,
)
from vlmhyperbench.wire.storage import MoveRequest, PinRequest, StorageStatus, StoredRun, TierName
from vlmhyperbench.wire.tickets import BrowserTicket
from vlmhyperbench.wire.workers import DeviceRelease, Quarantine, Worker


def identify(given: Id) -> Call[Identified]:
    """Look up the run, experiment or artifact that a full id, or its first digits, stands for."""
    return get_call(f"/ids/{id_text(given)}", Identified)


def health() -> Call[Health]:
    """Check that the API process responds."""
    return get_call("/health", Health)


def ready() -> Call[Ready]:
    """Check whether the API accepts runs."""
    return Call(method="GET", path="/ready", read=Ready.model_validate_json, good=(200, 503))


def create_run(
    run: str | RunEntry | Mapping[str, JsonValue],
    *,
    name: str | None = None,
    priority: int = 0,
    origins: Mapping[str, str] | None = None,
    idempotency_key: str | None = None,
) -> Call[RunDetail]:
    """Submit a run, given by the name of a registry entry, an entry, or a dictionary with an entry's fields.

    `origins` says where values of the entry were read, by their paths, for the manifest.

    Raises:
        RefusedInput: the dictionary is not a valid run entry; lists every error with its field.
    """
    return post_call("/runs", RunDetail, _run_create(run, name, priority, origins), idempotency_key)


def plan_run(
    run: str | RunEntry | Mapping[str, JsonValue],
    *,
    name: str | None = None,
    priority: int = 0,
    origins: Mapping[str, str] | None = None,
) -> Call[RunPlan]:
    """Say what a run would be, ask, need and take, without creating it; the arguments are those of `create_run`.

    Raises:
        RefusedInput: the dictionary is not a valid run entry; lists every error with its field.
    """
    return post_call("/runs/plan", RunPlan, _run_create(run, name, priority, origins))


def _run_create(
    run: str | RunEntry | Mapping[str, JsonValue], name: str | None, priority: int, origins: Mapping[str, str] | None
) -> RunCreate:
    located = {"origins": dict(origins)} if origins else {}
    return checked(RunCreate, {"run": run, "name": name, "priority": priority, **located})


def rescore_run(
    run_id: Id, choices: RunRescore | None = None, *, idempotency_key: str | None = None
) -> Call[RunDetail]:
    """Re-score a finished run: a new run evaluates its stored answers and sends no requests to a model."""
    return post_call(f"/runs/{id_text(run_id)}/rescore", RunDetail, choices or RunRescore(), idempotency_key)


def rerun_run(run_id: Id, choices: RunRerun | None = None, *, idempotency_key: str | None = None) -> Call[RunDetail]:
    """Repeat a run in a new run that reuses what has not changed."""
    return post_call(f"/runs/{id_text(run_id)}/rerun", RunDetail, choices or RunRerun(), idempotency_key)


def upload_answers(content: bytes) -> Call[Answers]:
    """Upload a file of answers in the neutral format."""
    headers = {"Content-Type": "application/x-ndjson"}
    return Call(method="POST", path="/answers", read=Answers.model_validate_json, body=content, headers=headers)


def import_run(choices: RunImport, *, idempotency_key: str | None = None) -> Call[RunDetail]:
    """Submit a run that evaluates the answers of an uploaded file."""
    return post_call("/runs/import", RunDetail, choices, idempotency_key)


def get_run(run_id: Id) -> Call[RunDetail]:
    """Return one run with its spec, phases and jobs."""
    return get_call(f"/runs/{id_text(run_id)}", RunDetail)


def get_manifest(run_id: Id) -> Call[RunManifest]:
    """Return what a run really used, and where each value of its configuration was written."""
    return get_call(f"/runs/{id_text(run_id)}/manifest", RunManifest)


def list_runs(
    *,
    state: str | None = None,
    experiment_id: Id | None = None,
    kind: Literal["run", "session"] | None = None,
    limit: int = 50,
    cursor: str | None = None,
) -> Call[Page[Run]]:
    """List runs, newest first; with the kind `run` without sessions, which are questions to pipelines."""
    experiment = id_text(experiment_id) if experiment_id is not None else None
    return page_call("/runs", Page[Run], state=state, experiment_id=experiment, kind=kind, limit=limit, cursor=cursor)


def cancel_run(run_id: Id) -> Call[RunDetail]:
    """Request the cancellation of a run; its stored rows are kept."""
    return post_call(f"/runs/{id_text(run_id)}/cancel", RunDetail)


def pause_run(run_id: Id) -> Call[RunDetail]:
    """Pause a run: no more of its jobs are assigned, and running jobs drain."""
    return post_call(f"/runs/{id_text(run_id)}/pause", RunDetail)


def resume_run(run_id: Id) -> Call[RunDetail]:
    """Resume a paused run."""
    return post_call(f"/runs/{id_text(run_id)}/resume", RunDetail)


def retune_run(run_id: Id, *, in_flight: int) -> Call[RunDetail]:
    """Change how many requests a run keeps in flight while it runs.

    Raises:
        RefusedInput: the number is not one that a run may have.
    """
    return post_call(f"/runs/{id_text(run_id)}/retune", RunDetail, checked(RunRetune, {"in_flight": in_flight}))


def create_experiment(
    experiment: str | ExperimentEntry | Mapping[str, JsonValue],
    *,
    name: str | None = None,
    priority: int = 0,
    origins: Mapping[str, str] | None = None,
    idempotency_key: str | None = None,
) -> Call[ExperimentDetail]:
    """Submit an experiment, given by the name of a registry entry, an entry, or a dictionary with an entry's fields.

    `origins` says where values of the entry were read, by their paths, for the manifest.

    Raises:
        RefusedInput: the dictionary is not a valid experiment entry; lists every error with its field.
    """
    located = {"origins": dict(origins)} if origins else {}
    given = {"experiment": experiment, "name": name, "priority": priority, **located}
    body = checked(ExperimentCreate, given)
    return post_call("/experiments", ExperimentDetail, body, idempotency_key)


def get_experiment(experiment_id: Id) -> Call[ExperimentDetail]:
    """Return one experiment with its runs."""
    return get_call(f"/experiments/{id_text(experiment_id)}", ExperimentDetail)


def list_experiments(*, state: str | None = None, limit: int = 50, cursor: str | None = None) -> Call[Page[Experiment]]:
    """List experiments, newest first."""
    return page_call("/experiments", Page[Experiment], state=state, limit=limit, cursor=cursor)


def cancel_experiment(experiment_id: Id) -> Call[ExperimentDetail]:
    """Request the cancellation of an experiment and its open runs."""
    return post_call(f"/experiments/{id_text(experiment_id)}/cancel", ExperimentDetail)


def pause_experiment(experiment_id: Id) -> Call[ExperimentDetail]:
    """Pause the open runs of an experiment: no more of their jobs are assigned, and running jobs drain."""
    return post_call(f"/experiments/{id_text(experiment_id)}/pause", ExperimentDetail)


def resume_experiment(experiment_id: Id) -> Call[ExperimentDetail]:
    """Resume the paused runs of an experiment."""
    return post_call(f"/experiments/{id_text(experiment_id)}/resume", ExperimentDetail)


def list_results(
    run_id: Id,
    *,
    status: str | None = None,
    outcome: str | None = None,
    doc_class: str | None = None,
    question_type: str | None = None,
    prompts: bool | None = None,
    limit: int = 50,
    cursor: str | None = None,
) -> Call[Page[Result]]:
    """List the results of a run (request records with answers and scores), in their order; `prompts`: as sent."""
    return page_call(
        "/results",
        Page[Result],
        run_id=id_text(run_id),
        status=status,
        outcome=outcome,
        doc_class=doc_class,
        question_type=question_type,
        prompts=prompts,
        limit=limit,
        cursor=cursor,
    )


def get_evaluation(evaluation_id: str) -> Call[Evaluation]:
    """Return an evaluation identity (everything that determines a quality number) by its short id."""
    return get_call(f"/evaluations/{evaluation_id}", Evaluation)


def create_join_token(**choices: JsonValue) -> Call[JoinTokenCreated]:
    """Make a token by which workers of other machines join; it is shown only in this response."""
    return post_call("/join-tokens", JoinTokenCreated, checked(JoinTokenCreate, choices))


def list_join_tokens() -> Call[Page[JoinToken]]:
    """List the join tokens, newest first."""
    return page_call("/join-tokens", Page[JoinToken])


def revoke_join_token(prefix: str) -> Call[JoinToken]:
    """Revoke a join token by its prefix."""
    return post_call(f"/join-tokens/{named(prefix, 'join token')}/revoke", JoinToken)


def list_workers(*, include_gone: bool = False) -> Call[Page[Worker]]:
    """List workers."""
    return page_call("/workers", Page[Worker], include_gone="true" if include_gone else None)


def release_device(uuid: str) -> Call[DeviceRelease]:
    """Let a device that is in quarantine get jobs again."""
    return post_call(f"/workers/devices/{named(uuid, 'device')}/release", DeviceRelease)


def list_drains(*, include_resumed: bool = False) -> Call[Page[Drain]]:
    """List what is drained."""
    return page_call("/workers/drains", Page[Drain], include_resumed="true" if include_resumed else None)


def list_quarantines(*, include_released: bool = False) -> Call[Page[Quarantine]]:
    """List the devices in quarantine."""
    return page_call("/workers/quarantines", Page[Quarantine], include_released="true" if include_released else None)


def drain(scope: Scope, name: str, *, reason: str) -> Call[Drain]:
    """Drain a worker, a device or a machine: it finishes what runs and gets nothing new."""
    return post_call("/workers/drains", Drain, checked(DrainRequest, {"scope": scope, "name": name, "reason": reason}))


def undrain(scope: Scope, name: str) -> Call[Drain]:
    """Resume a drained worker, device or machine."""
    return post_call("/workers/drains/resume", Drain, checked(ResumeRequest, {"scope": scope, "name": name}))


def plan(
    experiment: str | ExperimentEntry | Mapping[str, JsonValue], *, workers: Sequence[Mapping[str, JsonValue]] = ()
) -> Call[Plan]:
    """Say on paper where an experiment would run, on the live workers or on declared ones; nothing is created."""
    return post_call("/workers/plan", Plan, checked(PlanRequest, {"experiment": experiment, "workers": list(workers)}))


def storage() -> Call[StorageStatus]:
    """Count the finished runs of each tier."""
    return get_call("/storage", StorageStatus)


def list_stored_runs(run_ids: Sequence[Id] | None = None) -> Call[Page[StoredRun]]:
    """List where runs are."""
    return page_call("/storage/runs", Page[StoredRun], run_ids=",".join(map(id_text, run_ids)) if run_ids else None)


def move_runs(run_ids: Sequence[Id], *, tier: TierName, dry_run: bool = False) -> Call[Page[StoredRun]]:
    """Ask for finished runs to be in a tier."""
    body = {"run_ids": [str(run_id) for run_id in run_ids], "tier": tier, "dry_run": dry_run}
    return post_call("/storage/move", Page[StoredRun], checked(MoveRequest, body))


def pin_runs(run_ids: Sequence[Id], *, is_pinned: bool = True) -> Call[Page[StoredRun]]:
    """Pin runs, so that they are never deleted, or unpin them."""
    body = {"run_ids": [str(run_id) for run_id in run_ids], "is_pinned": is_pinned}
    return post_call("/storage/pin", Page[StoredRun], checked(PinRequest, body))


def list_registry(kind: str | None = None) -> Call[Page[RegistrySummary]]:
    """List the registry entries of one kind, or of all kinds."""
    return page_call("/registry", Page[RegistrySummary], kind=kind)


def get_registry_entry(kind: str, name: str) -> Call[RegistryEntry]:
    """Return one registry entry."""
    return get_call(f"/registry/{kind}/{name}", RegistryEntry)


def get_entry(run_id: Id) -> Call[ParsedEntry]:
    """Return the shortest entry that submits such a run again, to change it."""
    return get_call(f"/runs/{id_text(run_id)}/entry", ParsedEntry)


def get_schema(kind: str) -> Call[dict[str, JsonValue]]:
    """Return the JSON Schema of the entries of a kind."""
    read = TypeAdapter(dict[str, JsonValue]).validate_json
    return Call(method="GET", path=f"/registry/schemas/{quote(kind, safe='')}", read=read)


def parse_entry(kind: str, yaml: str) -> Call[ParsedEntry]:
    """Read the YAML of an entry and check its form; nothing is kept."""
    return post_call(f"/registry/{quote(kind, safe='')}/parse", ParsedEntry, checked(ParseRequest, {"yaml": yaml}))


def list_artifacts(
    *, run_id: Id | None = None, experiment_id: Id | None = None, limit: int = 50, cursor: str | None = None
) -> Call[Page[Artifact]]:
    """List the files of a run or experiment in one page, or those of the project in several pages."""
    return page_call(
        "/artifacts", Page[Artifact], run_id=run_id, experiment_id=experiment_id, limit=limit, cursor=cursor
    )


def artifact_content(artifact_id: Id) -> Call[bytes]:
    """Download one file."""
    return Call(method="GET", path=f"/artifacts/{id_text(artifact_id)}/content", read=bytes)


def get_image(run_id: Id, sha256: str) -> Call[bytes]:
    """Download an image of a run's samples."""
    return Call(method="GET", path=f"/runs/{id_text(run_id)}/images/{sha256}", read=bytes)


def get_report(scope_id: Id) -> Call[Report]:
    """Return the newest report of a run or experiment."""
    return get_call(f"/reports/{id_text(scope_id)}", Report)


def metrics() -> Call[str]:
    """Read the numbers of the whole platform, as the text that Prometheus reads."""
    return Call(method="GET", path="/metrics", prefix="", read=bytes.decode)


def create_ticket() -> Call[BrowserTicket]:
    """Create a one-time URL that opens the stack's web page in one browser."""
    return post_call("/tickets", BrowserTicket)
