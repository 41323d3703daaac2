"""The owner of a job: its run or experiment, whose row is locked before the job and whose stream gets its events."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple
from uuid import UUID

from sqlalchemy import Row, text
from sqlalchemy.ext.asyncio import AsyncSession

from vlmhyperbench.db import events
from vlmhyperbench.domain.steps import STEPS, StepKind
from vlmhyperbench.events import EventType
from vlmhyperbench_sdk.types import JsonObject


class Mark(NamedTuple):
    """The number of a stream's last event after a change, published once the change is committed."""

    stream_id: UUID
    seq: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """A locked run or experiment."""

    id: UUID
    is_experiment: bool
    state: str
    is_cancelled: bool
    is_paused: bool
    reason: str | None
    """Why a run is failing."""
    stop: JsonObject | None
    """Decision of the run's stop rule; once it is there, no further request is sent."""
    is_ended: bool
    event_seq: int

    @property
    def is_closing(self) -> bool:
        """Whether its jobs may no longer be claimed: it has ended, is failing, or was cancelled."""
        return self.is_ended or self.is_cancelled or self.reason is not None


async def lock_run(session: AsyncSession, run_id: UUID, *, skip_locked: bool = False) -> Owner | None:
    """Lock a run; None if it does not exist, or with `skip_locked` if another transaction holds the lock."""
    return await _lock(session, _RUN, run_id, is_experiment=False, skip_locked=skip_locked)


async def lock_experiment(session: AsyncSession, experiment_id: UUID, *, skip_locked: bool = False) -> Owner | None:
    """Lock an experiment; None in the same cases as `lock_run`."""
    return await _lock(session, _EXPERIMENT, experiment_id, is_experiment=True, skip_locked=skip_locked)


async def lock_of_job(session: AsyncSession, job_id: UUID, *, skip_locked: bool = False) -> Owner | None:
    """Lock the owner of a job. The owner of a job never changes, so reading it needs no lock on the job."""
    job = (
        await session.execute(text("SELECT scope, run_id, experiment_id FROM job WHERE id = :id"), {"id": job_id})
    ).one_or_none()
    if job is None:
        return None
    if job.scope == "experiment":
        return await lock_experiment(session, job.experiment_id, skip_locked=skip_locked)
    return await lock_run(session, job.run_id, skip_locked=skip_locked)


async def lock_idle_of_jobs(session: AsyncSession, job_ids: Sequence[UUID]) -> dict[UUID, Owner]:
    """Lock the owners of jobs, and return them by job; those that other transactions have locked are left out.

    It never waits for an owner, so a transaction may lock many of them without a deadlock.
    """
    jobs = (await session.execute(text(_OWNERS), {"ids": list(job_ids)})).all()
    locked: dict[UUID, Owner] = {}
    for statement, is_experiment in ((_EXPERIMENT, True), (_RUN, False)):
        ids = {job.owner_id for job in jobs if job.is_of_experiment is is_experiment}
        if ids:
            wanted = statement.replace("= :id", "= ANY(CAST(:ids AS uuid[]))")
            rows = await session.execute(text(f"{wanted} FOR NO KEY UPDATE SKIP LOCKED"), {"ids": list(ids)})
            locked |= {row.id: _owner(row, is_experiment=is_experiment) for row in rows}
    return {job.id: locked[job.owner_id] for job in jobs if job.owner_id in locked}


async def mark_dirty(session: AsyncSession, owner: Owner) -> None:
    """Make the scheduler advance the run, or every open run of the experiment; the caller has locked the owner."""
    if owner.is_experiment:
        await session.execute(text(_DIRTY_RUNS), {"id": owner.id})
    else:
        await session.execute(text("UPDATE run SET is_dirty = true WHERE id = :id"), {"id": owner.id})


async def job_event(session: AsyncSession, owner: Owner, job_id: UUID, kind: str, what: str, data: JsonObject) -> Mark:
    """Append `job.<what>` to the owner's stream."""
    stage = STEPS[StepKind(kind)].stage
    seq = await events.append(
        session,
        stream_id=owner.id,
        type=EventType(f"job.{what}"),
        job_id=job_id,
        stage=stage,
        data={"kind": kind, **data},
    )
    return Mark(owner.id, seq)


async def alert(session: AsyncSession, owner: Owner, job_id: UUID, data: JsonObject) -> Mark:
    """Append `alert.raised` to the owner's stream: a problem that a person has to solve."""
    seq = await events.append(session, stream_id=owner.id, type=EventType.ALERT_RAISED, job_id=job_id, data=data)
    return Mark(owner.id, seq)


async def _lock(
    session: AsyncSession, statement: str, owner_id: UUID, *, is_experiment: bool, skip_locked: bool
) -> Owner | None:
    locking = f"{statement} FOR NO KEY UPDATE{' SKIP LOCKED' if skip_locked else ''}"
    row = (await session.execute(text(locking), {"id": owner_id})).one_or_none()
    return None if row is None else _owner(row, is_experiment=is_experiment)


def _owner(row: Row[Any], *, is_experiment: bool) -> Owner:
    return Owner(
        id=row.id,
        is_experiment=is_experiment,
        state=row.state,
        is_cancelled=row.is_cancelled,
        is_paused=row.is_paused,
        reason=row.reason,
        stop=row.stop_decision,
        is_ended=row.is_ended,
        event_seq=row.event_seq,
    )


# FOR NO KEY UPDATE: another transaction may still add rows that refer to the locked row by a foreign key.
_RUN = """
SELECT id, state, event_seq, is_paused, reason, stop_decision,
       cancel_requested_at IS NOT NULL AS is_cancelled, finished_at IS NOT NULL AS is_ended
FROM run WHERE id = :id
"""

_EXPERIMENT = """
SELECT id, state, event_seq, false AS is_paused, NULL::text AS reason, NULL::jsonb AS stop_decision,
       cancel_requested_at IS NOT NULL AS is_cancelled, finished_at IS NOT NULL AS is_ended
FROM experiment WHERE id = :id
"""

_OWNERS = """
SELECT id, scope = 'experiment' AS is_of_experiment, CASE scope WHEN 'experiment' THEN experiment_id ELSE run_id END
       AS owner_id
FROM job WHERE id = ANY(CAST(:ids AS uuid[]))
"""

_DIRTY_RUNS = """
UPDATE run SET is_dirty = true
WHERE id IN (SELECT id FROM run WHERE experiment_id = :id AND finished_at IS NULL ORDER BY id FOR NO KEY UPDATE)
"""
