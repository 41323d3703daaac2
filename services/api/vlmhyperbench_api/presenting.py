"""Convert values from repositories into response bodies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from uuid import UUID

from pydantic import JsonValue, TypeAdapter

from vlmhyperbench.bus import Progress as BusProgress
from vlmhyperbench.db.failures import FailureCounts
from vlmhyperbench.db.tallies import Tally
from vlmhyperbench.db.views import ArtifactView, ExperimentView, JobView, PhaseView, RunView
from vlmhyperbench.domain.failure_groups import group_failures
from vlmhyperbench.domain.refusals import SHORTAGE
from vlmhyperbench.domain.retuning import why_not_retunable
from vlmhyperbench.domain.states import JobState
from vlmhyperbench.domain.waiting import Wait
from vlmhyperbench.wire.artifacts import Artifact
from vlmhyperbench.wire.live import Progress
from vlmhyperbench.wire.runs import Experiment, ExperimentDetail, Job, Phase, RequestError, Run, RunDetail, WaitsFor
from vlmhyperbench.wire.shortages import MemoryShortage
from vlmhyperbench_sdk.types import JsonObject

_JSON: TypeAdapter[dict[str, JsonValue]] = TypeAdapter(dict[str, JsonValue])


def json_of(value: JsonObject) -> dict[str, JsonValue]:
    """Copy a JSON column into the JSON type of response bodies."""
    return _JSON.validate_python(value)


def run_of(view: RunView, tally: Tally, wait: Wait | None = None) -> Run:
    """Convert a run, as shown in lists."""
    return Run.model_validate(_run_fields(view, tally, wait))


def run_detail_of(
    view: RunView,
    *,
    phases: Sequence[PhaseView],
    jobs: Sequence[JobView],
    tally: Tally,
    failures: FailureCounts | None,
    progress: BusProgress | None,
    wait: Wait | None = None,
) -> RunDetail:
    """Convert a run with its spec, phases and jobs."""
    spec = view.pinned_spec()
    asking = [job.state for job in jobs if job.counts]
    return RunDetail.model_validate(
        {
            **_run_fields(view, tally, wait),
            "spec": spec,
            "in_flight": view.in_flight or spec.scenario.streams,
            "can_retune": why_not_retunable(spec, view.state, asking) is None,
            "retunes": list(view.retunes or ()),
            "phases": [Phase.model_validate(phase, from_attributes=True) for phase in phases],
            "jobs": [Job.model_validate(job, from_attributes=True) for job in jobs],
            "errors": [*_job_errors(jobs), *(errors_of(failures) if failures else [])],
            "shortages": _shortages(jobs),
            "progress": progress_of(progress) if progress is not None else None,
        }
    )


def errors_of(counts: FailureCounts) -> list[RequestError]:
    """Convert the errors of requests, most frequent first."""
    groups = group_failures([(group.failed, group.failure, group.count) for group in counts.failures], ok=counts.ok)
    return [RequestError.model_validate(group, from_attributes=True) for group in groups]


def _job_errors(jobs: Sequence[JobView]) -> list[RequestError]:
    """Convert the error that ended a job before it wrote a row."""
    errors = [job.outcome.get("error") for job in jobs if job.outcome and job.state is JobState.FAILED]
    return [RequestError.model_validate(error) for error in errors if error]


def _shortages(jobs: Sequence[JobView]) -> list[MemoryShortage]:
    """Convert why models were not loaded; of several jobs of one model, the last one counts."""
    facts = [job.outcome.get(SHORTAGE) for job in jobs if job.outcome and job.state is JobState.FAILED]
    shortages = [MemoryShortage.model_validate(each) for each in facts if each]
    return list({shortage.model: shortage for shortage in shortages}.values())


def experiment_of(view: ExperimentView, run_states: Mapping[str, int], *, is_paused: bool) -> Experiment:
    """Convert an experiment, as shown in lists."""
    return Experiment.model_validate(_experiment_fields(view, run_states, is_paused))


def experiment_detail_of(
    view: ExperimentView,
    run_states: Mapping[str, int],
    runs: Sequence[RunView],
    tallies: Mapping[UUID, Tally],
    waits: Mapping[UUID, Wait],
) -> ExperimentDetail:
    """Convert an experiment with its runs, baseline first."""
    shown = [run_of(run, tallies.get(run.id, Tally()), waits.get(run.id)) for run in runs]
    open_runs = [run for run in runs if not run.state.is_terminal]
    is_paused = bool(open_runs) and all(run.is_paused for run in open_runs)
    return ExperimentDetail.model_validate({**_experiment_fields(view, run_states, is_paused), "runs": shown})


def progress_of(progress: BusProgress) -> Progress:
    """Convert a progress."""
    return Progress.model_validate(progress.model_dump())


def artifact_of(view: ArtifactView) -> Artifact:
    """Convert a file's metadata."""
    return Artifact.model_validate(view, from_attributes=True)


def _run_fields(view: RunView, tally: Tally, wait: Wait | None) -> dict[str, object]:
    spec = view.spec
    target, scenario = _object(spec.get("target")), _object(spec.get("scenario"))
    return {
        "id": view.id,
        "experiment_id": view.experiment_id,
        "parent_run_id": view.parent_run_id,
        "name": view.name,
        "state": view.state,
        "reason": view.reason,
        "target": target.get("model") or target.get("model_name") or target.get("pipeline") or "",
        "task": spec.get("task", ""),
        "scenario": scenario.get("name", ""),
        "spec_digest": view.spec_digest,
        "priority": view.priority,
        "is_paused": view.is_paused,
        "is_cancelling": view.cancel_requested_at is not None and not view.state.is_terminal,
        "stopping": view.stop_decision,
        "total": view.total,
        "done": tally.done,
        "failed": tally.failed,
        "headline": view.headline,
        "waits_for": WaitsFor.model_validate(wait, from_attributes=True) if wait is not None else None,
        "event_seq": view.event_seq,
        "created_by": view.created_by,
        "created_at": view.created_at,
        "started_at": view.started_at,
        "finished_at": view.finished_at,
    }


def _experiment_fields(view: ExperimentView, run_states: Mapping[str, int], is_paused: bool) -> dict[str, object]:
    return {
        "id": view.id,
        "name": view.name,
        "state": view.state,
        "is_paused": is_paused,
        "is_cancelling": view.cancel_requested_at is not None and not view.state.is_terminal,
        "run_states": dict(run_states),
        "event_seq": view.event_seq,
        "created_by": view.created_by,
        "created_at": view.created_at,
        "finished_at": view.finished_at,
    }


def _object(value: object) -> Mapping[str, object]:
    return value if isinstance(value, Mapping) else {}
