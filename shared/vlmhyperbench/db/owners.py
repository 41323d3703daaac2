"""The row that owns a job, its run or its experiment: locked before the job, and the stream of the job's events."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncSession

from vlmhyperbench.db import events
from vlmhyperbench.domain.steps import STEPS, StepKind
from vlmhyperbench.events import EventType
from vlmhyperbench_sdk.types import JsonObject


class Mark(NamedTuple):
    """How far a stream's events go after a change: published once the change is committed."""

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
    """Of a run that fails."""
    stop: JsonObject | None
    """What the stop rule of a run found; from then on nothing more is asked."""
    is_ended: bool
    event_seq: int

    @property
    def is_closing(self) -> bool:
        """It takes no new claim: it ended, fails, or was cancelled."""
        return self.is_ended or self.is_cancelled or self.reason is not None


async def lock_run(session: AsyncSession, run_id: UUID, *, skip_locked: bool = False) -> Owner | None:
    """Lock a run; None where it does not exist (or, if asked to skip, where somebody else holds it)."""
    return await _lock(session, _RUN, run_id, is_experiment=False, skip_locked=skip_locked)


async def lock_experiment(session: AsyncSession, experiment_id: UUID, *, skip_locked: bool = False) -> Owner | None:
    """Lock an experiment; None as for `lock_run`."""
    return await _lock(session, _EXPERIMENT, experiment_id, is_experiment=True, skip_locked=skip_locked)


async def lock_of_job(session: AsyncSession, job_id: UUID, *, skip_locked: bool = False) -> Owner | None:
    """Lock the owner of a job; what owns a job never changes, so the job itself need not be locked to look."""
    found = (
        await session.execute(text("SELECT scope, run_id, experiment_id FROM job WHERE id = :id"), {"id": job_id})
    ).one_or_none()
    if found is None:
        return None
    if found.scope == "experiment":
        return await lock_experiment(session, found.experiment_id, skip_locked=skip_locked)
    return await lock_run(session, found.run_id, skip_locked=skip_locked)


async def mark_dirty(session: AsyncSession, owner: Owner) -> None:
    """Ask the scheduler to advance the run, or every open run of the experiment; the owner is locked already."""
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
    """Append `alert.raised` to the owner's stream: something that a person must mend."""
    seq = await events.append(session, stream_id=owner.id, type=EventType.ALERT_RAISED, job_id=job_id, data=data)
    return Mark(owner.id, seq)


async def _lock(
    session: AsyncSession, statement: str, owner_id: UUID, *, is_experiment: bool, skip_locked: bool
) -> Owner | None:
    locking = f"{statement} FOR NO KEY UPDATE{' SKIP LOCKED' if skip_locked else ''}"
    found = (await session.execute(text(locking), {"id": owner_id})).one_or_none()
    if found is None:
        return None
    return Owner(
        id=found.id,
        is_experiment=is_experiment,
        state=found.state,
        is_cancelled=found.is_cancelled,
        is_paused=found.is_paused,
        reason=found.reason,
        stop=found.stop_decision,
        is_ended=found.is_ended,
        event_seq=found.event_seq,
    )


# Locks leave the key alone: a row that refers to an experiment may be added while somebody else holds it.
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

_DIRTY_RUNS = """
UPDATE run SET is_dirty = true
WHERE id IN (SELECT id FROM run WHERE experiment_id = :id AND finished_at IS NULL ORDER BY id FOR NO KEY UPDATE)
"""
