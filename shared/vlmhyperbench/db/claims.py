"""What a worker does with a job, by compare-and-set on its claim: take it, renew its lease, write under it.

The claim id is the fencing token: if a statement matches no row, the claim is lost and nothing may be written. Every
function that appends an event locks the run (or experiment) before the job.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Literal
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncSession

from vlmhyperbench.db import claim_phases, events
from vlmhyperbench.db.owners import Mark, job_event, lock_of_job
from vlmhyperbench.db.views import JobView, view_of
from vlmhyperbench.domain.ground import Ground
from vlmhyperbench.domain.states import RunEvent, RunState, next_run_state
from vlmhyperbench.domain.steps import STEPS
from vlmhyperbench.events import EventType
from vlmhyperbench_sdk.types import JsonObject


@dataclass(frozen=True, slots=True, kw_only=True)
class Assigned:
    """A job that the scheduler assigned to this worker."""

    job_id: UUID
    attempt_id: UUID


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """A claim that has not ended."""

    job_id: UUID
    claim_id: UUID
    worker_id: UUID


@dataclass(frozen=True, slots=True, kw_only=True)
class Claimant:
    """The worker that claims, stored with the claim because it cannot be recovered later."""

    worker_id: UUID
    boot_id: UUID
    host: str
    machine: JsonObject
    packages: Mapping[str, str]
    ground: Ground | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Renewed:
    """The state of the run when the lease was renewed."""

    is_cancelled: bool
    """The run was cancelled or is failing, so the job has to end."""
    is_paused: bool
    is_stopping: bool
    """The run's stop rule has decided, so no further request is sent."""
    in_flight: int | None = None
    """Requests in flight as a person has changed them; None: as the scenario says, or the job's rows do not count."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shards:
    """Sums over the other shards of a run."""

    done: int
    failed: int
    total: int | None
    """Number of requests of the whole run."""


async def assigned(session: AsyncSession, worker_id: UUID) -> list[Assigned]:
    """Read the jobs that wait for this worker to claim them, oldest first; none for a device in quarantine."""
    rows = await session.execute(text(_ASSIGNED), {"worker": worker_id})
    return [Assigned(job_id=row.id, attempt_id=row.attempt_id) for row in rows]


async def running(session: AsyncSession, worker_ids: Sequence[UUID]) -> list[Running]:
    """Read the running claims of workers, whatever state the workers are in."""
    rows = await session.execute(text(_RUNNING), {"workers": list(worker_ids)})
    return [Running(job_id=row.id, claim_id=row.claim_id, worker_id=row.worker_id) for row in rows]


async def claim(
    session: AsyncSession, given: Assigned, *, claim_id: UUID, claimant: Claimant, lease_s: float
) -> tuple[JobView, Mark] | None:
    """Claim an assigned job; a second call with the same claim id has no effect, so the call can be repeated safely.

    None: the assignment is stale, or the run was cancelled or has ended; the caller drops it.
    """
    owner = await lock_of_job(session, given.job_id)
    if owner is None or owner.is_closing:
        return None
    values = {
        "job": given.job_id,
        "attempt": given.attempt_id,
        "claim": claim_id,
        "worker": claimant.worker_id,
        "lease": lease_s,
    }
    taken = (await session.execute(text(_CLAIM), values)).one_or_none()
    if taken is None:
        return None
    job = view_of(JobView, taken)
    evidence = {
        "boot": claimant.boot_id,
        "host": claimant.host,
        "machine": json.dumps(claimant.machine),
        "packages": json.dumps(dict(claimant.packages)),
        "run": job.run_id,
        "machine_id": claimant.ground.machine if claimant.ground else None,
        "cores": sorted(claimant.ground.cores) if claimant.ground else None,
        "gpus": sorted(claimant.ground.gpus) if claimant.ground else None,
    }
    if (await session.execute(text(_ADD_CLAIM), values | evidence)).one_or_none() is None:
        return job, Mark(owner.id, owner.event_seq)
    if job.run_id is not None and await claim_phases.void_earlier(session, job.run_id, job.id, claim_id):
        job = view_of(JobView, (await session.execute(text(_RESTART), {"job": job.id})).one())
    mark = await job_event(
        session, owner, job.id, job.kind, "claimed", {"claim_id": str(claim_id), "worker_id": str(claimant.worker_id)}
    )
    if job.scope == "run" and not STEPS[job.kind].expands:
        started = next_run_state(RunState(owner.state), RunEvent.START)
        if started is not None:
            await session.execute(text(_START_RUN), {"run": owner.id, "state": started.value})
            mark = Mark(owner.id, await events.append(session, stream_id=owner.id, type=EventType.RUN_RUNNING))
    return job, mark


async def renew(session: AsyncSession, *, job_id: UUID, claim_id: UUID, lease_s: float) -> Renewed | None:
    """Extend the lease; None if the claim is lost."""
    renewed = await session.execute(text(_RENEW), {"job": job_id, "claim": claim_id, "lease": lease_s})
    row = renewed.one_or_none()
    if row is None:
        return None
    return Renewed(
        is_cancelled=row.is_cancelled,
        is_paused=row.is_paused,
        is_stopping=row.is_stopping,
        in_flight=row.in_flight,
    )


async def hold(session: AsyncSession, *, job_id: UUID, claim_id: UUID) -> int | None:
    """Lock the owner, then the job by its claim, and return the owner's `event_seq`; None if the claim is lost."""
    owner = await lock_of_job(session, job_id)
    if owner is None:
        return None
    locked = await session.execute(text(_HOLD), {"job": job_id, "claim": claim_id})
    return None if locked.one_or_none() is None else owner.event_seq


async def event_seq(session: AsyncSession, stream_id: UUID) -> int:
    """Read the number of the last event of a stream."""
    result = await session.execute(text(_EVENT_SEQ), {"id": stream_id})
    return int(result.scalar_one())


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimRecord:
    """Evidence of a claim that cannot be recovered later; a field that is None leaves the recorded value as it is.

    `resources` are added to those that are recorded.
    """

    engine: JsonObject | None = None
    environment: JsonObject | None = None
    machine: JsonObject | None = None
    client: JsonObject | None = None
    """The load generator's own cost, the other inferences on the machine at that time, and how many answers of the
    measured phase the claim has got in how many seconds (`answers`, `answering_s`)."""
    resources: JsonObject | None = None
    anchor_monotonic_ns: int | None = None
    anchor_wall_ns: int | None = None
    """The instant of `anchor_monotonic_ns` by the wall clock."""
    measured_at: Literal["engine", "gateway", "tunnel"] | None = None
    cores: Collection[int] | None = None
    sending_from_ns: int | None = None
    sending_until_ns: int | None = None


async def record(session: AsyncSession, claim_id: UUID, added: ClaimRecord) -> None:
    """Add to the evidence of a claim; the caller holds the job."""
    values = asdict(added) | {"claim": claim_id, "cores": None if added.cores is None else sorted(added.cores)}
    for name in ("engine", "environment", "machine", "client", "resources"):
        values[name] = None if values[name] is None else json.dumps(values[name])
    await session.execute(text(_RECORD), values)


async def set_resident(session: AsyncSession, worker_id: UUID, target_digests: Sequence[str]) -> None:
    """Record which targets a worker has loaded."""
    await session.execute(
        text("UPDATE worker SET resident = CAST(:targets AS varchar[]) WHERE id = :id"),
        {"id": worker_id, "targets": list(target_digests)},
    )


async def other_shards(session: AsyncSession, run_id: UUID, job_id: UUID) -> Shards:
    """Sum up the other jobs whose rows are answers of the run."""
    row = (await session.execute(text(_OTHER_SHARDS), {"run": run_id, "job": job_id})).one()
    return Shards(done=int(row.done), failed=int(row.failed), total=row.total)


async def missing_ordinals(session: AsyncSession, job: JobView) -> list[int]:
    """Read the ordinals of a shard that have no row, measured or reused, in order."""
    if job.range_start is None or job.range_end is None:
        return []
    values = {"run": job.run_id, "phase": job.phase, "start": job.range_start, "end": job.range_end}
    present = {row.ordinal for row in await session.execute(text(_PRESENT), values)}
    return [ordinal for ordinal in range(job.range_start, job.range_end) if ordinal not in present]


_ASSIGNED = """
SELECT j.id, j.attempt_id FROM job j WHERE j.worker_id = :worker AND j.state = 'ASSIGNED'
  AND NOT EXISTS (SELECT FROM reservation r JOIN device d ON d.worker_id = r.worker_id AND d.no = r.device
                  WHERE r.attempt_id = j.attempt_id AND d.state <> 'OK')
ORDER BY j.assigned_at, j.id
"""

_RUNNING = """
SELECT id, claim_id, worker_id FROM job WHERE worker_id = ANY (:workers) AND state = 'RUNNING' ORDER BY assigned_at, id
"""

_CLAIM = """
UPDATE job SET state = 'RUNNING', claim_id = :claim, lease_until = now() + make_interval(secs => :lease)
WHERE id = :job AND attempt_id = :attempt AND worker_id = :worker
  AND (state = 'ASSIGNED' OR (state = 'RUNNING' AND claim_id = :claim))
RETURNING *
"""

_ADD_CLAIM = """
INSERT INTO claim (id, job_id, run_id, attempt_id, worker_id, host, boot_id, machine, packages, machine_id, cores, gpus)
VALUES (:claim, :job, :run, :attempt, :worker, :host, :boot, CAST(:machine AS jsonb), CAST(:packages AS jsonb),
        :machine_id, CAST(:cores AS integer[]), CAST(:gpus AS varchar[]))
ON CONFLICT (id) DO NOTHING
RETURNING id
"""

_RESTART = "UPDATE job SET phase = NULL, done = 0, failed = 0 WHERE id = :job RETURNING *"

_START_RUN = "UPDATE run SET state = :state, started_at = now() WHERE id = :run"

_RENEW = """
UPDATE job j SET lease_until = now() + make_interval(secs => :lease)
WHERE j.id = :job AND j.claim_id = :claim AND j.state = 'RUNNING'
RETURNING
  CASE j.scope
    WHEN 'run' THEN (SELECT r.cancel_requested_at IS NOT NULL OR r.reason IS NOT NULL FROM run r WHERE r.id = j.run_id)
    ELSE (SELECT e.cancel_requested_at IS NOT NULL FROM experiment e WHERE e.id = j.experiment_id)
  END AS is_cancelled,
  COALESCE((SELECT r.is_paused FROM run r WHERE r.id = j.run_id), false) AS is_paused,
  j.counts
    AND COALESCE((SELECT r.stop_decision IS NOT NULL FROM run r WHERE r.id = j.run_id), false) AS is_stopping,
  CASE WHEN j.counts THEN (SELECT CAST(r.retunes -> -1 ->> 'in_flight' AS integer) FROM run r WHERE r.id = j.run_id)
  END AS in_flight
"""

_HOLD = "SELECT id FROM job WHERE id = :job AND claim_id = :claim AND state = 'RUNNING' FOR NO KEY UPDATE"

_EVENT_SEQ = """
SELECT event_seq FROM run WHERE id = :id UNION ALL SELECT event_seq FROM experiment WHERE id = :id
"""

_RECORD = """
UPDATE claim SET
  engine = COALESCE(CAST(:engine AS jsonb), engine),
  environment = COALESCE(CAST(:environment AS jsonb), environment),
  machine = COALESCE(CAST(:machine AS jsonb), machine),
  client = COALESCE(CAST(:client AS jsonb), client),
  resources = COALESCE(resources || CAST(:resources AS jsonb), CAST(:resources AS jsonb), resources),
  anchor_monotonic_ns = COALESCE(CAST(:anchor_monotonic_ns AS bigint), anchor_monotonic_ns),
  anchor_wall_ns = COALESCE(CAST(:anchor_wall_ns AS bigint), anchor_wall_ns),
  measured_at = COALESCE(CAST(:measured_at AS varchar), measured_at),
  cores = COALESCE(CAST(:cores AS integer[]), cores),
  sending_from_ns = COALESCE(CAST(:sending_from_ns AS bigint), sending_from_ns),
  sending_until_ns = COALESCE(CAST(:sending_until_ns AS bigint), sending_until_ns)
WHERE id = :claim
"""

_OTHER_SHARDS = """
SELECT COALESCE(sum(done), 0) AS done, COALESCE(sum(failed), 0) AS failed,
       (SELECT total FROM run WHERE id = :run) AS total
FROM job WHERE run_id = :run AND counts AND id <> :job
"""

_PRESENT = """
SELECT ordinal FROM fact WHERE run_id = :run AND phase = :phase AND ordinal >= :start AND ordinal < :end
UNION
SELECT ordinal FROM reused_fact WHERE run_id = :run AND phase = :phase AND ordinal >= :start AND ordinal < :end
"""
