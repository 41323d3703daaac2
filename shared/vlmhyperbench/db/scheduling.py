"""What the scheduler reads and writes about jobs: the window of a decision, assignments, requeued jobs, expired leases.

Every write is a compare-and-set in a transaction of its own, so that two leaders do no harm.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import Row, text
from sqlalchemy.ext.asyncio import AsyncSession

from vlmhyperbench.db import jobs
from vlmhyperbench.db.owners import Mark, job_event, lock_of_job
from vlmhyperbench.domain.ground import Ground
from vlmhyperbench.domain.placement import DeviceNow, Inferring, Placement, WorkerNow
from vlmhyperbench.domain.scheduling import AssignedJob, WaitingJob
from vlmhyperbench.domain.steps import STEPS, StepKind
from vlmhyperbench.errors import Conflict


@dataclass(frozen=True, slots=True, kw_only=True)
class Expired:
    """A running job whose lease has expired."""

    job_id: UUID
    owner_id: UUID
    is_of_experiment: bool


async def now(session: AsyncSession) -> datetime:
    """Read the database's clock."""
    return datetime.fromisoformat(str((await session.execute(text("SELECT now()"))).scalar_one()))


async def workers(session: AsyncSession, *, stale_s: float) -> tuple[WorkerNow, ...]:
    """Read the live workers with their free slots and devices."""
    devices: dict[UUID, list[DeviceNow]] = defaultdict(list)
    for row in await session.execute(text(_DEVICES)):
        devices[row.worker_id].append(DeviceNow(no=row.no, memory_bytes=row.memory_bytes, is_free=row.is_free))
    rows = await session.execute(text(_WORKERS), {"stale": stale_s})
    return tuple(
        WorkerNow(
            id=row.id,
            kind=row.kind,
            queue=row.queue,
            slots=row.slots,
            busy=row.busy,
            resident=frozenset(row.resident),
            devices=tuple(devices[row.id]),
            ground=_ground(row),
        )
        for row in rows
    )


async def inferring(session: AsyncSession) -> tuple[Inferring, ...]:
    """Read the workers that hold a job which sends requests, whatever state the workers are in."""
    rows = await session.execute(text(_INFERRING), {"asking": _ASKING})
    return tuple(Inferring(worker_id=row.id, ground=_ground(row)) for row in rows)


def _ground(row: Row[Any]) -> Ground:
    return Ground(machine=row.machine, gpus=frozenset(row.gpus), cores=frozenset(row.cores or ()))


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
    """Read the jobs that could run now, at most `limit` per kind and project, by priority, fair share and age."""
    kinds = [kind.value for kind, step in STEPS.items() if step.worker in worker_kinds]
    if not kinds:
        return ()
    rows = await session.execute(text(_WAITING), {"kinds": kinds, "early": _EARLY, "limit": limit})
    return tuple(WaitingJob(id=row.id, kind=StepKind(row.kind), target_digest=row.target_digest) for row in rows)


async def assign(session: AsyncSession, job_id: UUID, placement: Placement, *, attempt_id: UUID) -> Mark | None:
    """Assign a READY job to a worker and reserve devices; None if the job is not READY, or its run closed or paused.

    Raises:
        Conflict: a device is reserved already; the transaction must be rolled back.
    """
    owner = await lock_of_job(session, job_id)
    if owner is None or owner.is_closing or owner.is_paused:
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


_ASKING = [kind.value for kind, step in STEPS.items() if step.asks is not None]
_EARLY = [kind.value for kind, step in STEPS.items() if step.writes_facts or step.expands]
"""Kinds of jobs that may start while their run is dirty; all others read phases, which are closed when it advances."""

_DEVICES = """
SELECT d.worker_id, d.no, d.memory_bytes,
       d.state = 'OK' AND NOT EXISTS (
         SELECT 1 FROM reservation r WHERE r.worker_id = d.worker_id AND r.device = d.no) AS is_free
FROM device d JOIN worker w ON w.id = d.worker_id WHERE w.state = 'LIVE' ORDER BY d.no
"""

# Declared devices say nothing of this machine, whose cores all of them share: each counts as a machine of its own.
_GROUND = """CASE WHEN w.is_declared THEN 'declared ' || w.id ELSE COALESCE(w.machine_id, w.host) END AS machine,
       w.cores,
       ARRAY(SELECT d.uuid FROM device d WHERE d.worker_id = w.id AND d.kind = 'gpu') AS gpus"""

_INFERRING = f"""
SELECT DISTINCT w.id, {_GROUND} FROM job j JOIN worker w ON w.id = j.worker_id
WHERE j.kind = ANY(CAST(:asking AS text[])) AND j.state IN ('ASSIGNED', 'RUNNING')
"""  # noqa: S608 - consists of this module's own text

_WORKERS = f"""
SELECT w.id, w.kind, w.queue, w.slots, w.resident, {_GROUND},
       (SELECT count(*) FROM job j WHERE j.worker_id = w.id AND j.state IN ('ASSIGNED', 'RUNNING')) AS busy
FROM worker w
WHERE w.state = 'LIVE' AND w.last_seen_at > now() - make_interval(secs => :stale)
ORDER BY w.queue, w.id
"""  # noqa: S608 - as above

_ASSIGNED = """
SELECT j.id, j.attempt_id, j.worker_id, w.queue, j.assigned_at
FROM job j JOIN worker w ON w.id = j.worker_id
WHERE j.state = 'ASSIGNED' ORDER BY j.assigned_at, j.id LIMIT :limit
"""

_WAITING = """
WITH project AS (
  SELECT project_id FROM run WHERE finished_at IS NULL
  UNION SELECT project_id FROM experiment WHERE finished_at IS NULL
), busy AS (
  SELECT project_id, count(*) AS jobs FROM job WHERE state IN ('ASSIGNED', 'RUNNING') GROUP BY project_id
)
SELECT candidate.id, candidate.kind, candidate.target_digest
FROM project
CROSS JOIN unnest(CAST(:kinds AS varchar[])) AS wanted (kind)
CROSS JOIN LATERAL (
  SELECT first.*,
         row_number() OVER (ORDER BY first.priority DESC, first.created_at, first.position, first.range_start,
                                     first.id) AS number
  FROM (
    SELECT j.id, j.kind, j.target_digest, j.priority, j.created_at, j.range_start,
           COALESCE(r.position, 0) AS position
    FROM job j
    LEFT JOIN run r ON r.id = j.run_id AND j.scope = 'run'
    LEFT JOIN experiment e ON e.id = j.experiment_id AND j.scope = 'experiment'
    WHERE j.state = 'READY' AND j.kind = wanted.kind AND j.project_id = project.project_id
      AND (j.not_before IS NULL OR j.not_before <= now())
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
                ELSE true END))
    ORDER BY j.priority DESC, j.created_at, COALESCE(r.position, 0), j.range_start, j.id
    LIMIT :limit
  ) AS first
) AS candidate
LEFT JOIN busy ON busy.project_id = project.project_id
ORDER BY candidate.priority DESC, COALESCE(busy.jobs, 0) + candidate.number, candidate.created_at,
         candidate.position, candidate.range_start, candidate.id
"""

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

_EXPIRED = """
SELECT id, scope, run_id, experiment_id FROM job
WHERE state = 'RUNNING' AND lease_until < now() - make_interval(secs => :grace)
ORDER BY lease_until, id LIMIT :limit
"""
