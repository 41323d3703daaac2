"""Advance runs and experiments: `domain.scheduling` decides what the states of their jobs mean, this module writes it.

Each transaction advances one run or one experiment and appends its events.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from sqlalchemy import Row, text
from sqlalchemy.ext.asyncio import AsyncSession

from vlmhyperbench.db import claim_phases, claims, events, jobs
from vlmhyperbench.db.owners import Mark, Owner, lock_experiment, lock_run
from vlmhyperbench.domain.advancing import (
    Action,
    CancelWaiting,
    CloseStep,
    End,
    Expand,
    JobNow,
    RunNow,
    StopWaiting,
    advance,
)
from vlmhyperbench.domain.planning import PlannedJob, expand_run, index_digest
from vlmhyperbench.domain.specs import RunSpec
from vlmhyperbench.domain.states import (
    ExperimentState,
    JobState,
    PhaseState,
    RunEvent,
    RunState,
    experiment_state,
    next_run_state,
)
from vlmhyperbench.domain.steps import STEPS, StepKind
from vlmhyperbench.errors import Conflict
from vlmhyperbench.events import EventType
from vlmhyperbench_sdk.types import JsonObject


async def runs_to_advance(session: AsyncSession, *, limit: int) -> list[UUID]:
    """Read the ids of runs that are dirty or being cancelled, oldest first; an experiment's baseline comes first."""
    rows = await session.execute(text(_TO_ADVANCE), {"limit": limit})
    return [row.id for row in rows]


async def experiments_to_advance(session: AsyncSession, *, limit: int) -> list[UUID]:
    """Read the ids of open experiments that were cancelled, or that have no open run any more."""
    rows = await session.execute(text(_EXPERIMENTS), {"limit": limit})
    return [row.id for row in rows]


async def advance_run(session: AsyncSession, run_id: UUID) -> Mark | None:
    """Advance a run as far as its jobs allow; None if it has no new event, or if another transaction holds its lock."""
    owner = await lock_run(session, run_id, skip_locked=True)
    if owner is None or owner.is_ended:
        return None
    run = (await session.execute(text(_RUN), {"run": run_id})).one()
    spec = RunSpec.model_validate(run.spec)
    rows = (await session.execute(text(_JOBS), {"run": run_id, "digest": index_digest(spec)})).all()
    now = RunNow(
        state=RunState(run.state),
        is_cancelled=owner.is_cancelled,
        reason=owner.reason,
        is_stopping=owner.stop is not None,
        reuses_errors=await _reuses_errors(session, run_id, rows),
    )
    actions = advance(now, [_job_now(row) for row in rows])
    for action in actions:
        await _apply(session, owner, spec, rows, action)
    is_dirty = StopWaiting() in actions  # the jobs that it ended are seen when the run is advanced the next time
    await session.execute(text("UPDATE run SET is_dirty = :dirty WHERE id = :run"), {"run": run_id, "dirty": is_dirty})
    return await _mark(session, owner)


async def advance_experiment(session: AsyncSession, experiment_id: UUID) -> Mark | None:
    """Cancel an experiment's runs if it was cancelled, add its report once they have ended, then end it."""
    owner = await lock_experiment(session, experiment_id, skip_locked=True)
    if owner is None or owner.is_ended:
        return None
    if owner.is_cancelled:
        await jobs.cancel_waiting(session, owner)
        await session.execute(text(_CANCEL_RUNS), {"experiment": experiment_id})
    runs = (await session.execute(text(_RUNS), {"experiment": experiment_id})).all()
    state = experiment_state([RunState(run.state) for run in runs])
    if not state.is_terminal:
        return await _mark(session, owner)
    own = await jobs.of_experiment(session, experiment_id)
    reports = [job for job in own if job.kind is StepKind.REPORT]
    has_results = any(RunState(run.state) in {RunState.SUCCEEDED, RunState.PARTIAL} for run in runs)
    if not reports and has_results and not owner.is_cancelled:
        await _add_report(session, owner, runs[0].project_id)
    elif not has_results or owner.is_cancelled:
        await jobs.cancel_waiting(session, owner)
    if all(job.state.is_terminal for job in await jobs.of_experiment(session, experiment_id)):
        failed = any(job.state is not JobState.DONE for job in reports)
        state = ExperimentState.PARTIAL if failed and state is ExperimentState.DONE else state
        await session.execute(text(_END_EXPERIMENT), {"experiment": experiment_id, "state": state.value})
        await events.append(session, stream_id=owner.id, type=EventType(f"experiment.{state.lower()}"))
    return await _mark(session, owner)


async def _apply(session: AsyncSession, owner: Owner, spec: RunSpec, rows: Sequence[Row[Any]], action: Action) -> None:
    match action:
        case Expand():
            index = next(row for row in rows if STEPS[StepKind(row.kind)].expands and row.state == JobState.DONE)
            try:
                await _expand(session, owner, spec, index.outcome["data"])
            except Conflict as error:
                await _end(session, owner, RunEvent.FAIL, f"index: {error}")
        case StopWaiting():
            await jobs.stop_waiting(session, owner)
        case CloseStep(no=no, state=state):
            await claim_phases.close_of_run(session, owner.id, state, step=no)
        case CancelWaiting(reason=reason):
            if reason is not None:
                await session.execute(text(_FAILING), {"run": owner.id, "reason": reason})
            await jobs.cancel_waiting(session, owner)
        case End(event=event, reason=reason):
            await _end(session, owner, event, reason)


async def _expand(session: AsyncSession, owner: Owner, spec: RunSpec, indexed: JsonObject) -> None:
    manifest_id, samples = indexed.get("manifest_id"), indexed.get("samples")
    if not isinstance(manifest_id, str) or not isinstance(samples, int):
        raise Conflict("The outcome of the index job lacks the manifest's id or its number of samples.")
    expansion = expand_run(spec, samples=samples)
    if expansion.total == 0:
        raise Conflict("The dataset has no samples for this run.")
    examples = indexed.get("examples")
    examples_id = examples.get("manifest_id") if isinstance(examples, Mapping) else None
    if spec.prompt.few_shot is not None and examples_id is None:
        raise Conflict("The outcome of the index job lacks the examples of the prompt.")
    values = {
        "run": owner.id,
        "manifest": manifest_id,
        "examples": examples_id,
        "total": expansion.total,
        "state": RunState.INDEXED.value,
    }
    run = (await session.execute(text(_INDEXED), values)).one()
    for phase in expansion.phases:
        await claim_phases.open_of_run(session, owner.id, phase)
    await jobs.add(
        session,
        expansion.jobs,
        project_id=run.project_id,
        run_id=owner.id,
        experiment_id=run.experiment_id,
        priority=run.priority,
        target_digest=spec.target_digest,
    )
    drawn: JsonObject = {} if examples is None else {"examples": examples}
    data: JsonObject = {"manifest_id": manifest_id, "samples": samples, "total": expansion.total, **drawn}
    await events.append(session, stream_id=owner.id, type=EventType.RUN_INDEXED, data=data)


async def _end(session: AsyncSession, owner: Owner, event: RunEvent, reason: str | None) -> None:
    """End a run; phases that the scheduler opened and that are still open become VOID."""
    current = await session.execute(text("SELECT state FROM run WHERE id = :run"), {"run": owner.id})
    state = next_run_state(RunState(current.scalar_one()), event)
    if state is None:
        return
    await claim_phases.close_of_run(session, owner.id, PhaseState.VOID)
    await session.execute(text(_END_RUN), {"run": owner.id, "state": state.value, "reason": reason})
    await events.append(session, stream_id=owner.id, type=EventType(f"run.{state.lower()}"), data={"reason": reason})


async def _add_report(session: AsyncSession, owner: Owner, project_id: str) -> None:
    needs = [row.id for row in await session.execute(text(_REPORTS), {"experiment": owner.id})]
    planned = [PlannedJob(step=1, kind=StepKind.REPORT, scope="experiment", needs_state="ENDED")]
    await jobs.add(session, planned, project_id=project_id, experiment_id=owner.id, needs=needs)


async def _mark(session: AsyncSession, owner: Owner) -> Mark | None:
    seq = await claims.event_seq(session, owner.id)
    return Mark(owner.id, seq) if seq > owner.event_seq else None


async def _reuses_errors(session: AsyncSession, run_id: UUID, rows: Sequence[Row[Any]]) -> bool:
    """Return whether any row that a run reuses is an error; False while a job of the run is still open."""
    if not all(JobState(row.state).is_terminal for row in rows):
        return False
    return bool((await session.execute(text(_REUSES_ERRORS), {"run": run_id})).scalar_one())


def _job_now(row: Row[Any]) -> JobNow:
    outcome = row.outcome or {}
    return JobNow(
        kind=StepKind(row.kind),
        step=row.step,
        state=JobState(row.state),
        is_shared=row.scope == "experiment",
        failed=row.failed,
        is_stopped=outcome.get("kind") == "stopped",
        message=outcome.get("message"),
    )


_TO_ADVANCE = """
SELECT id FROM run WHERE finished_at IS NULL AND (is_dirty OR cancel_requested_at IS NOT NULL)
ORDER BY created_at, position, id LIMIT :limit
"""

_EXPERIMENTS = """
SELECT e.id FROM experiment e
WHERE e.finished_at IS NULL
  AND (e.cancel_requested_at IS NOT NULL
       OR NOT EXISTS (SELECT 1 FROM run r WHERE r.experiment_id = e.id AND r.finished_at IS NULL))
ORDER BY e.created_at, e.id LIMIT :limit
"""

_RUN = "SELECT state, spec FROM run WHERE id = :run"

_REUSES_ERRORS = """
SELECT EXISTS (
    SELECT FROM reused_phase reused
    JOIN phase own ON own.run_id = reused.run_id AND own.no = reused.phase AND own.counts
    WHERE reused.run_id = :run AND reused.failed > 0
) OR EXISTS (
    SELECT FROM reused_fact reused
    JOIN phase own ON own.run_id = reused.run_id AND own.no = reused.phase AND own.counts
    WHERE reused.run_id = :run AND NOT reused.is_ok
)
"""

_JOBS = """
SELECT kind, step, state, scope, failed, outcome FROM job WHERE run_id = :run AND scope = 'run'
UNION ALL
SELECT j.kind, j.step, j.state, j.scope, j.failed, j.outcome
FROM job j JOIN run r ON r.experiment_id = j.experiment_id
WHERE r.id = :run AND j.scope = 'experiment' AND j.kind = 'INDEX'
  AND COALESCE(j.params ->> 'index_digest', j.params ->> 'dataset_digest') = :digest
"""

_RUNS = "SELECT id, state, project_id FROM run WHERE experiment_id = :experiment ORDER BY position, id"

_CANCEL_RUNS = """
UPDATE run SET cancel_requested_at = now()
WHERE id IN (SELECT id FROM run WHERE experiment_id = :experiment AND finished_at IS NULL
               AND cancel_requested_at IS NULL ORDER BY id FOR NO KEY UPDATE)
"""

_REPORTS = "SELECT id FROM job WHERE experiment_id = :experiment AND scope = 'run' AND kind = 'REPORT'"

_FAILING = "UPDATE run SET reason = :reason WHERE id = :run AND reason IS NULL"

_INDEXED = """
UPDATE run SET state = :state, manifest_id = :manifest, examples_id = :examples, total = :total WHERE id = :run
RETURNING project_id, experiment_id, priority
"""

_END_RUN = "UPDATE run SET state = :state, reason = :reason, finished_at = now() WHERE id = :run"

_END_EXPERIMENT = "UPDATE experiment SET state = :state, finished_at = now() WHERE id = :experiment"
