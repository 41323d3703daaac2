"""What the scheduler reads and writes about jobs: the window of a decision, assignments, requeued jobs, expired leases.

Every write is a compare-and-set under the lock of the job's owner, so that two leaders do no harm.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID, uuid4

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncSession

from vlmhyperbench.db import jobs
from vlmhyperbench.db.owners import Mark, Owner, job_event, lock_idle_of_jobs, lock_of_job, mark_dirty
from vlmhyperbench.domain.placement import Placement
from vlmhyperbench.domain.scheduling import AssignedJob, WaitingJob
from vlmhyperbench.domain.steps import STEPS, StepKind
from vlmhyperbench.errors import Conflict

WINDOW_JOBS = 500
"""Maximum number of waiting jobs that ask a target in one window."""

DOES_NOT_FIT = "does_not_fit"
"""Code of a job that needs more memory or devices than any known worker has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Expired:
    """A running job whose lease has expired."""

    job_id: UUID
    owner_id: UUID
    is_of_experiment: bool


async def now(session: AsyncSession) -> datetime:
    """Read the database's clock."""
    return datetime.fromisoformat(str((await session.execute(text("SELECT now()"))).scalar_one()))


async def assigned(session: AsyncSession, *, limit: int) -> tuple[AssignedJob, ...]:
    """Read the jobs that are assigned but not claimed, oldest first."""
    rows = await session.execute(text(_ASSIGNED), {"limit": limit})
    return tuple(
        AssignedJob(
            id=row.id,
            attempt_id=row.attempt_id,
            worker_id=row.worker_id,
            queue=row.queue,
            assigned_at=row.assigned_at,
        )
        for row in rows
    )


async def waiting(session: AsyncSession, worker_kinds: frozenset[str], *, limit: int) -> tuple[WaitingJob, ...]:
    """Read jobs that could run now, by priority, fair share and age.

    There are at most `limit` of each kind and project; of the kinds that ask a target, at most `limit` of each target,
    so that jobs that have no room hide none that have. Of too many targets the first jobs of each are read.
    """
    kinds = [kind for kind, step in STEPS.items() if step.worker in worker_kinds]
    if not kinds:
        return ()
    values = {
        "kinds": [kind.value for kind in kinds if kind not in _ASKING],
        "asking": [kind.value for kind in kinds if kind in _ASKING],
        "early": _EARLY,
        "limit": limit,
        "window": max(limit, WINDOW_JOBS),
    }
    return tuple(
        WaitingJob(
            id=row.id,
            kind=StepKind(row.kind),
            target_digest=row.target_digest,
            is_timed=row.is_timed,
            devices=row.devices,
            is_simulated=row.is_simulated,
            server=row.server,
            experiment_id=row.experiment_id,
            waited_s=row.waited_s,
            answers=row.answers,
        )
        for row in await session.execute(text(_WAITING), values)
    )


async def assign(session: AsyncSession, job_id: UUID, placement: Placement, *, attempt_id: UUID) -> Mark | None:
    """Assign a READY job to a worker and reserve devices; None if the job is not READY, or its run closed or paused.

    Raises:
        Conflict: a device is reserved already; the transaction must be rolled back.
    """
    owner = await lock_of_job(session, job_id)
    return None if owner is None else await _assign(session, owner, job_id, placement, attempt_id)


async def assign_together(session: AsyncSession, placements: Mapping[UUID, Placement]) -> dict[UUID, Mark | None]:
    """Assign many jobs as `assign` does, each by its id; those whose owner is locked now are left out.

    Raises:
        Conflict: a device is reserved already; the transaction must be rolled back.
    """
    owners = await lock_idle_of_jobs(session, list(placements))
    # Devices are locked in one order, so that two schedulers that both believe to lead do not wait for each other.
    ordered = sorted(owners, key=lambda job_id: _devices_of(placements[job_id]))
    return {job_id: await _assign(session, owners[job_id], job_id, placements[job_id], uuid4()) for job_id in ordered}


def _devices_of(placement: Placement) -> tuple[UUID, list[int]]:
    return placement.worker_id, [reservation.device for reservation in placement.reservations]


async def _assign(
    session: AsyncSession, owner: Owner, job_id: UUID, placement: Placement, attempt_id: UUID
) -> Mark | None:
    if owner.is_closing or owner.is_paused:
        return None
    values = {"job": job_id, "attempt": attempt_id, "worker": placement.worker_id}
    row = (await session.execute(text(_ASSIGN), values)).one_or_none()
    if row is None:
        return None
    for reservation in placement.reservations:
        device = {"device": reservation.device, "bytes": reservation.bytes, "exclusive": reservation.is_exclusive}
        await session.execute(text(_LOCK_DEVICE), values | device)
        if (await session.execute(text(_RESERVE), values | device)).one_or_none() is None:
            raise Conflict(f"The device {reservation.device} of the worker {placement.worker_id} is reserved already.")
    data = {"attempt_id": str(attempt_id), "attempt": row.attempts, "worker_id": str(placement.worker_id)}
    return await job_event(session, owner, job_id, row.kind, "assigned", data)


async def requeue(session: AsyncSession, job_id: UUID, *, attempt_id: UUID) -> Mark | None:
    """Take an unclaimed assignment back; None if it was claimed, or was replaced by another one."""
    owner = await lock_of_job(session, job_id)
    if owner is None:
        return None
    row = (await session.execute(text(_REQUEUE), {"job": job_id, "attempt": attempt_id})).one_or_none()
    if row is None:
        return None
    await jobs.release(session, job_id)
    return await job_event(session, owner, job_id, row.kind, "requeued", {"outcome": "unclaimed"})


async def refuse(session: AsyncSession, job_id: UUID, message: str) -> Mark | None:
    """Fail a READY job that fits no known device; None if it is not READY, or its run is closing."""
    owner = await lock_of_job(session, job_id)
    if owner is None or owner.is_closing:
        return None
    outcome = {"kind": "failed", "code": DOES_NOT_FIT, "message": message}
    row = (await session.execute(text(_REFUSE), {"job": job_id, "outcome": json.dumps(outcome)})).one_or_none()
    if row is None:
        return None
    await mark_dirty(session, owner)
    data = {"outcome": "fail", "code": DOES_NOT_FIT, "message": message}
    return await job_event(session, owner, job_id, row.kind, "failed", data)


async def expired(session: AsyncSession, *, grace_s: float, limit: int) -> list[Expired]:
    """Read the running jobs whose lease expired more than `grace_s` ago, without locking them."""
    rows = await session.execute(text(_EXPIRED), {"grace": grace_s, "limit": limit})
    return [
        Expired(
            job_id=row.id,
            owner_id=row.experiment_id if row.scope == "experiment" else row.run_id,
            is_of_experiment=row.scope == "experiment",
        )
        for row in rows
    ]


_ASKING = [kind for kind, step in STEPS.items() if step.asks is not None]
_EARLY = [kind.value for kind, step in STEPS.items() if step.writes_facts or step.expands]
"""Kinds of jobs that may start while their run is dirty; all others read phases, which are closed when it advances."""

_ASSIGNED = """
SELECT j.id, j.attempt_id, j.worker_id, w.queue, j.assigned_at
FROM job j JOIN worker w ON w.id = j.worker_id
WHERE j.state = 'ASSIGNED' ORDER BY j.assigned_at, j.id LIMIT :limit
"""

# Conditions of a job j that could start; r is its run, e the experiment of a job without one.
_STARTABLE = """j.state = 'READY' AND (j.not_before IS NULL OR j.not_before <= now())
      AND (j.scope = 'experiment' OR (r.finished_at IS NULL AND r.cancel_requested_at IS NULL AND r.reason IS NULL
                                      AND NOT r.is_paused
                                      AND (j.kind = ANY(CAST(:early AS text[])) OR NOT r.is_dirty)))
      AND (j.scope = 'run' OR (e.finished_at IS NULL AND e.cancel_requested_at IS NULL
                               AND (j.kind <> 'INDEX' OR EXISTS (
                                 SELECT FROM run o
                                 WHERE o.experiment_id = e.id AND o.finished_at IS NULL AND NOT o.is_paused))))
      AND (cardinality(j.needs) = 0 OR NOT EXISTS (
            SELECT 1 FROM job n WHERE n.id = ANY (j.needs)
              AND n.state <> 'DONE' AND CASE j.needs_state
                WHEN 'ENDED' THEN n.state NOT IN ('FAILED', 'CANCELLED')
                WHEN 'STARTED' THEN n.state <> 'RUNNING'
                ELSE true END))"""

_JOB = """
    SELECT j.id, j.kind, j.target_digest, j.priority, j.created_at, j.range_start, j.is_timed, j.devices,
           j.is_simulated, j.server, j.experiment_id, j.project_id, COALESCE(r.position, 0) AS position,
           GREATEST(COALESCE(j.range_end - j.range_start - j.done, 1), 1) AS answers
    FROM job j
    LEFT JOIN run r ON r.id = j.run_id AND j.scope = 'run'
    LEFT JOIN experiment e ON e.id = j.experiment_id AND j.scope = 'experiment'"""

# The jobs of a target are read in the order of the index, so that only those in the window are.
# `shape` walks from one target of the READY jobs to the next by the index, without reading the jobs between them.
_WAITING = f"""
WITH RECURSIVE project AS (
  SELECT project_id FROM run WHERE finished_at IS NULL
  UNION SELECT project_id FROM experiment WHERE finished_at IS NULL
), busy AS (
  SELECT project_id, count(*) AS jobs FROM job WHERE state IN ('ASSIGNED', 'RUNNING') GROUP BY project_id
), asking AS (
  SELECT project_id, kind FROM project CROSS JOIN unnest(CAST(:asking AS varchar[])) AS wanted (kind)
), shape AS (
  SELECT asking.kind, asking.project_id, first.target_digest, first.is_timed
  FROM asking CROSS JOIN LATERAL (
    SELECT j.target_digest, j.is_timed FROM job j
    WHERE j.state = 'READY' AND j.kind = asking.kind AND j.project_id = asking.project_id
    ORDER BY j.target_digest, j.is_timed LIMIT 1
  ) AS first
  UNION ALL
  SELECT shape.kind, shape.project_id, next.target_digest, next.is_timed
  FROM shape CROSS JOIN LATERAL (
    SELECT j.target_digest, j.is_timed FROM job j
    WHERE j.state = 'READY' AND j.kind = shape.kind AND j.project_id = shape.project_id
      AND (j.target_digest, j.is_timed) > (shape.target_digest, shape.is_timed)
    ORDER BY j.target_digest, j.is_timed LIMIT 1
  ) AS next
), candidate AS (
  SELECT first.* FROM project
  CROSS JOIN unnest(CAST(:kinds AS varchar[])) AS wanted (kind)
  CROSS JOIN LATERAL ({_JOB}
    WHERE j.kind = wanted.kind AND j.project_id = project.project_id AND {_STARTABLE}
    ORDER BY j.priority DESC, j.created_at, COALESCE(r.position, 0), j.range_start, j.id LIMIT :limit
  ) AS first
  UNION ALL
  (SELECT first.* FROM shape CROSS JOIN LATERAL ({_JOB}
    WHERE j.kind = shape.kind AND j.project_id = shape.project_id AND j.target_digest = shape.target_digest
      AND j.is_timed = shape.is_timed AND {_STARTABLE}
    ORDER BY j.priority DESC, j.created_at, j.range_start, j.id LIMIT :limit
  ) AS first
  ORDER BY row_number() OVER (
    PARTITION BY first.kind, first.project_id, first.target_digest, first.is_timed
    ORDER BY first.priority DESC, first.created_at, first.position, first.range_start, first.id)
  LIMIT :window)
), numbered AS (
  SELECT candidate.*, row_number() OVER (
    PARTITION BY candidate.project_id, candidate.kind
    ORDER BY candidate.priority DESC, candidate.created_at, candidate.position, candidate.range_start, candidate.id
  ) AS number FROM candidate
)
SELECT numbered.*, CAST(extract(epoch FROM now() - numbered.created_at) AS float) AS waited_s
FROM numbered LEFT JOIN busy ON busy.project_id = numbered.project_id
ORDER BY numbered.priority DESC, COALESCE(busy.jobs, 0) + numbered.number, numbered.created_at,
         numbered.position, numbered.range_start, numbered.id
"""  # noqa: S608 - consists of this module's own text

_ASSIGN = """
UPDATE job SET state = 'ASSIGNED', attempt_id = :attempt, worker_id = :worker, assigned_at = now(),
               attempts = attempts + 1, not_before = NULL, outcome = NULL
WHERE id = :job AND state = 'READY' RETURNING kind, attempts
"""

_LOCK_DEVICE = "SELECT no FROM device WHERE worker_id = :worker AND no = :device FOR NO KEY UPDATE"

_RESERVE = """
INSERT INTO reservation (attempt_id, worker_id, device, job_id, bytes, is_exclusive)
SELECT :attempt, d.worker_id, d.no, :job, :bytes, :exclusive FROM device d
WHERE d.worker_id = :worker AND d.no = :device AND d.state = 'OK'
  AND NOT EXISTS (SELECT 1 FROM reservation r WHERE r.worker_id = d.worker_id AND r.device = d.no
                    AND (r.is_exclusive OR :exclusive))
  AND d.memory_bytes >= :bytes + (SELECT COALESCE(sum(r.bytes), 0) FROM reservation r
                                  WHERE r.worker_id = d.worker_id AND r.device = d.no)
RETURNING device
"""

_REQUEUE = """
UPDATE job SET state = 'READY', attempt_id = NULL, worker_id = NULL, assigned_at = NULL
WHERE id = :job AND state = 'ASSIGNED' AND attempt_id = :attempt RETURNING kind
"""

_REFUSE = """
UPDATE job SET state = 'FAILED', finished_at = now(), outcome = CAST(:outcome AS jsonb)
WHERE id = :job AND state = 'READY' RETURNING kind
"""

_EXPIRED = """
SELECT id, scope, run_id, experiment_id FROM job
WHERE state = 'RUNNING' AND lease_until < now() - make_interval(secs => :grace)
ORDER BY lease_until, id LIMIT :limit
"""
