"""Jobs: added from a plan, read, and ended before they are claimed. `db.claims` has what a claim does."""

from __future__ import annotations

import json
from collections.abc import Sequence
from uuid import UUID, uuid4

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncSession

from vlmhyperbench.db.owners import Mark, Owner, job_event
from vlmhyperbench.db.views import CurrentJobView, JobView, view_of
from vlmhyperbench.domain.planning import PlannedJob
from vlmhyperbench.domain.steps import STEPS
from vlmhyperbench_sdk.types import JsonObject


async def add(
    session: AsyncSession,
    planned: Sequence[PlannedJob],
    *,
    project_id: str,
    run_id: UUID | None = None,
    experiment_id: UUID | None = None,
    priority: int = 0,
    target_digest: str | None = None,
    needs: Sequence[UUID] = (),
) -> list[UUID]:
    """Add the jobs of a plan, READY, and return their ids in the plan's order.

    Jobs of a run have its `run_id` (and `experiment_id` if it has one), jobs of an experiment only `experiment_id`.
    `needs` are added to the needs of every job.
    """
    ids = [uuid4() for _ in planned]
    rows = [
        {
            "id": job_id,
            "kind": job.kind.value,
            "step": job.step,
            "counts": STEPS[job.kind].counts,
            "scope": job.scope,
            "run_id": run_id if job.scope == "run" else None,
            "experiment_id": experiment_id,
            "project_id": project_id,
            "needs": [*needs, *(ids[number] for number in job.needs)],
            "needs_state": job.needs_state,
            "phase": job.phase,
            "range_start": job.range_start,
            "range_end": job.range_end,
            "target_digest": job.target_digest or target_digest,
            "params": json.dumps(job.params),
            "priority": priority,
            "is_timed": job.is_timed,
            "devices": job.devices,
            "is_simulated": job.is_simulated,
            "server": job.server,
        }
        for job_id, job in zip(ids, planned, strict=True)
    ]
    if rows:
        await session.execute(text(_ADD), rows)
    return ids


async def get(session: AsyncSession, job_id: UUID) -> JobView | None:
    """Read a job."""
    result = await session.execute(text("SELECT * FROM job WHERE id = :id"), {"id": job_id})
    row = result.one_or_none()
    return None if row is None else view_of(JobView, row)


async def of_run(session: AsyncSession, run_id: UUID) -> list[JobView]:
    """Read the jobs of a run in the order in which they were planned."""
    rows = await session.execute(text(_OF_RUN), {"id": run_id})
    return [view_of(JobView, row) for row in rows]


async def held_by(session: AsyncSession, worker_ids: Sequence[UUID], *, project_id: str) -> list[CurrentJobView]:
    """Read what these workers do now, by worker, the oldest first."""
    rows = await session.execute(text(_HELD_BY), {"workers": list(worker_ids), "project": project_id})
    return [view_of(CurrentJobView, row) for row in rows]


async def of_experiment(session: AsyncSession, experiment_id: UUID) -> list[JobView]:
    """Read the jobs of an experiment itself."""
    rows = await session.execute(text(_OF_EXPERIMENT), {"id": experiment_id})
    return [view_of(JobView, row) for row in rows]


async def cancel_waiting(session: AsyncSession, owner: Owner) -> Mark | None:
    """Cancel the READY and ASSIGNED jobs of a locked run, or of a locked experiment itself."""
    scope = "experiment" if owner.is_experiment else "run"
    cancelled = await session.execute(text(_CANCEL_WAITING), {"id": owner.id, "scope": scope})
    mark = None
    for job in cancelled.all():
        await release(session, job.id)
        mark = await job_event(session, owner, job.id, job.kind, "cancelled", {})
    return mark


async def stop_waiting(session: AsyncSession, owner: Owner) -> Mark | None:
    """End the READY and ASSIGNED shards of a locked run whose stop rule has decided."""
    if owner.stop is None:
        return None
    values = {"id": owner.id, "outcome": json.dumps(stopped(owner.stop))}
    mark = None
    for job in (await session.execute(text(_STOP_WAITING), values)).all():
        await release(session, job.id)
        mark = await job_event(session, owner, job.id, job.kind, "done", {"outcome": "stop"})
    return mark


def stopped(decision: JsonObject) -> JsonObject:
    """Return the outcome of a shard that a rule stopped: the rule, and the number of samples when it decided."""
    counts = {name: decision.get(name) for name in ("samples", "of")}
    return {"kind": "stopped", "reason": decision.get("rule"), "at": counts}


async def release(session: AsyncSession, job_id: UUID) -> None:
    """Delete the reservations of a job."""
    await session.execute(text("DELETE FROM reservation WHERE job_id = :id"), {"id": job_id})


_ADD = """
INSERT INTO job (id, kind, scope, run_id, experiment_id, project_id, state, needs, needs_state, phase, range_start,
                 range_end, target_digest, params, priority, attempts, fails, done, failed, step, counts,
                 is_timed, devices, is_simulated, server)
VALUES (:id, :kind, :scope, :run_id, :experiment_id, :project_id, 'READY', CAST(:needs AS uuid[]), :needs_state, :phase,
        :range_start, :range_end, :target_digest, CAST(:params AS jsonb), :priority, 0, 0, 0, 0, :step, :counts,
        :is_timed, :devices, :is_simulated, :server)
"""

_OF_RUN = """
SELECT * FROM job WHERE run_id = :id AND scope = 'run' ORDER BY created_at, range_start NULLS LAST, kind, id
"""

_OF_EXPERIMENT = """
SELECT * FROM job WHERE experiment_id = :id AND scope = 'experiment' ORDER BY created_at, kind, id
"""

_HELD_BY = """
SELECT j.id, j.worker_id, j.kind, j.state, r.id AS run_id, e.id AS experiment_id, COALESCE(r.name, e.name) AS name,
       j.done, j.range_end - j.range_start AS total, j.assigned_at
FROM job j
LEFT JOIN run r ON r.id = j.run_id AND j.project_id = :project
LEFT JOIN experiment e ON e.id = j.experiment_id AND j.project_id = :project
WHERE j.state IN ('ASSIGNED', 'RUNNING') AND j.worker_id = ANY(CAST(:workers AS uuid[]))
ORDER BY j.worker_id, j.assigned_at, j.id
"""

_CANCEL_WAITING = """
UPDATE job SET state = 'CANCELLED', finished_at = now(), outcome = CAST('{"kind": "cancelled"}' AS jsonb)
WHERE (run_id = :id OR experiment_id = :id) AND scope = :scope AND state IN ('READY', 'ASSIGNED')
RETURNING id, kind
"""

_STOP_WAITING = """
UPDATE job SET state = 'DONE', finished_at = now(), outcome = CAST(:outcome AS jsonb)
WHERE run_id = :id AND counts AND state IN ('READY', 'ASSIGNED')
RETURNING id, kind
"""
