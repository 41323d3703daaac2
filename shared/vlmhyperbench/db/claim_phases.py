"""Open and close phases for claims and for the scheduler, each with its event; the caller has locked the run."""

from __future__ import annotations

import json
from typing import Any
from uuid import UUID

from sqlalchemy import Result, text
from sqlalchemy.ext.asyncio import AsyncSession

from vlmhyperbench.db import events
from vlmhyperbench.db.owners import Mark
from vlmhyperbench.domain.planning import PlannedPhase
from vlmhyperbench.domain.states import PhaseState
from vlmhyperbench.errors import Conflict
from vlmhyperbench.events import EventType
from vlmhyperbench_sdk.load import PhaseKind
from vlmhyperbench_sdk.types import JsonObject


async def open_of_claim(
    session: AsyncSession,
    run_id: UUID,
    job_id: UUID,
    claim_id: UUID,
    *,
    kind: PhaseKind,
    params: JsonObject,
    count: int | None,
    is_own: bool,
) -> int:
    """Open the next phase of a run for a claim and return its number.

    With `is_own` it becomes the job's own phase and counts if the job does. Any other phase, such as a warm-up, never
    counts.
    """
    no = int((await session.execute(text(_NEXT), {"run": run_id})).scalar_one())
    values = {
        "run": run_id,
        "no": no,
        "kind": kind,
        "params": json.dumps(params),
        "claim": claim_id,
        "count": count,
        "job": job_id,
        "own": is_own,
    }
    await session.execute(text(_OPEN_OF_JOB), values)
    if is_own:
        await session.execute(text(_OF_JOB), {"job": job_id, "no": no})
    await _event(session, run_id, "opened", no=no, kind=kind, count=count, job_id=job_id)
    return no


async def open_of_run(session: AsyncSession, run_id: UUID, phase: PlannedPhase) -> Mark:
    """Open a phase that is shared by all shards of a run's step."""
    values = {
        "run": run_id,
        "no": phase.no,
        "step": phase.step,
        "kind": phase.kind,
        "counts": phase.counts,
        "params": json.dumps(phase.params),
        "count": phase.count,
    }
    await session.execute(text(_OPEN_OF_RUN), values)
    return await _event(session, run_id, "opened", no=phase.no, kind=phase.kind, count=phase.count)


async def close_phase(
    session: AsyncSession, run_id: UUID, claim_id: UUID, *, no: int, state: PhaseState, count: int | None = None
) -> None:
    """Close a phase that the claim opened; closing it again with the same state has no effect.

    Raises:
        Conflict: the phase does not belong to the claim, or is closed with another state.
    """
    values = {"run": run_id, "claim": claim_id, "no": no, "state": state.value, "count": count}
    closed = await session.execute(text(_CLOSE_ONE), values)
    if not await _closed(session, run_id, closed):
        now = (await session.execute(text(_STATE), {"run": run_id, "claim": claim_id, "no": no})).scalar_one_or_none()
        if now != state.value:
            raise Conflict(f"The phase {no} of the run {run_id} is not open under the claim {claim_id}.")


async def close_of_claim(session: AsyncSession, run_id: UUID, claim_id: UUID, state: PhaseState) -> Mark | None:
    """Close every open phase of a claim."""
    closed = await session.execute(text(_CLOSE_CLAIM), {"run": run_id, "claim": claim_id, "state": state.value})
    return await _closed(session, run_id, closed)


async def close_of_run(
    session: AsyncSession, run_id: UUID, state: PhaseState, *, step: int | None = None
) -> Mark | None:
    """Close the phases that the scheduler opened, of one step or of all steps."""
    closed = await session.execute(text(_CLOSE_RUN), {"run": run_id, "state": state.value, "step": step})
    return await _closed(session, run_id, closed)


async def void_earlier(session: AsyncSession, run_id: UUID, job_id: UUID, claim_id: UUID) -> bool:
    """Void the open phases of earlier claims of the job; return whether the job's own phase is VOID, so it restarts."""
    closed = await session.execute(text(_VOID_EARLIER), {"run": run_id, "job": job_id, "claim": claim_id})
    await _closed(session, run_id, closed)
    return bool((await session.execute(text(_IS_VOID), {"job": job_id})).scalar_one())


async def _closed(session: AsyncSession, run_id: UUID, closed: Result[Any]) -> Mark | None:
    mark = None
    for phase in closed.all():
        mark = await _event(session, run_id, phase.state.lower(), no=phase.no, kind=phase.kind, count=phase.requests)
    return mark


async def _event(
    session: AsyncSession, run_id: UUID, what: str, *, no: int, kind: str, count: int | None, job_id: UUID | None = None
) -> Mark:
    data: JsonObject = {"phase": no, "kind": kind, "count": count}
    seq = await events.append(session, stream_id=run_id, type=EventType(f"phase.{what}"), job_id=job_id, data=data)
    return Mark(run_id, seq)


_NEXT = "SELECT COALESCE(max(no), 0) + 1 FROM phase WHERE run_id = :run"

_OPEN_OF_JOB = """
INSERT INTO phase (run_id, no, kind, params, state, claim_id, count, step, counts)
SELECT :run, :no, :kind, CAST(:params AS jsonb), 'OPEN', :claim, :count, step, counts AND :own FROM job WHERE id = :job
"""

_OPEN_OF_RUN = """
INSERT INTO phase (run_id, no, kind, params, state, count, step, counts)
VALUES (:run, :no, :kind, CAST(:params AS jsonb), 'OPEN', :count, :step, :counts)
"""

_OF_JOB = "UPDATE job SET phase = :no, done = 0, failed = 0 WHERE id = :job"

_CLOSE_ONE = """
UPDATE phase SET state = :state, count = COALESCE(CAST(:count AS bigint), count), closed_at = now()
WHERE run_id = :run AND no = :no AND claim_id = :claim AND state = 'OPEN' RETURNING no, kind, count AS requests, state
"""

_CLOSE_CLAIM = """
UPDATE phase SET state = :state, closed_at = now()
WHERE run_id = :run AND claim_id = :claim AND state = 'OPEN' RETURNING no, kind, count AS requests, state
"""

_CLOSE_RUN = """
UPDATE phase SET state = :state, closed_at = now()
WHERE run_id = :run AND claim_id IS NULL AND state = 'OPEN' AND (CAST(:step AS integer) IS NULL OR step = :step)
RETURNING no, kind, count AS requests, state
"""

_VOID_EARLIER = """
UPDATE phase SET state = 'VOID', closed_at = now()
WHERE run_id = :run AND state = 'OPEN' AND claim_id IN (SELECT id FROM claim WHERE job_id = :job AND id <> :claim)
RETURNING no, kind, count AS requests, state
"""

_STATE = "SELECT state FROM phase WHERE run_id = :run AND no = :no AND claim_id = :claim"

_IS_VOID = """
SELECT EXISTS (SELECT 1 FROM job j JOIN phase p ON p.run_id = j.run_id AND p.no = j.phase
               WHERE j.id = :job AND p.state = 'VOID')
"""
