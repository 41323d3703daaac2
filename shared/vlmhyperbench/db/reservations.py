"""What an attempt has reserved, and which loaded targets are wanted next: what a worker needs to make room."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncSession

from vlmhyperbench.domain.next_use import OpenRun
from vlmhyperbench.domain.placement import Reservation
from vlmhyperbench.domain.specs import RunSpec
from vlmhyperbench.domain.steps import StepKind


async def of_attempt(session: AsyncSession, attempt_id: UUID) -> list[Reservation]:
    """Read the reservations of an attempt, by the number of the device."""
    rows = await session.execute(text(_OF_ATTEMPT), {"attempt": attempt_id})
    return [Reservation(device=row.device, bytes=row.bytes, is_exclusive=row.is_exclusive) for row in rows]


async def wanted_next(session: AsyncSession, target_digests: Sequence[str]) -> list[str]:
    """Return which of these targets jobs ask that are assigned or READY, in the order in which the first are due."""
    rows = await session.execute(text(_WANTED_NEXT), {"targets": list(target_digests)})
    return [row.target_digest for row in rows]


async def plan_of(session: AsyncSession, run_id: UUID) -> list[OpenRun]:
    """Return the open runs of the experiment of a run, in its order, or this run alone; at most 64 of them."""
    rows = (await session.execute(text(_PLAN), {"run": run_id})).all()
    return [
        OpenRun(
            spec=RunSpec.model_validate(row.spec),
            begun=[(StepKind(kind), params or {}) for kind, params in row.begun or ()],
        )
        for row in rows
    ]


_OF_ATTEMPT = "SELECT device, bytes, is_exclusive FROM reservation WHERE attempt_id = :attempt ORDER BY device"

_PLAN = """
SELECT run.spec, (
    SELECT json_agg(json_build_array(job.kind, job.params)) FROM (
        SELECT DISTINCT kind, CAST(params AS text)::jsonb AS params FROM job WHERE job.run_id = run.id
    ) job
) AS begun
FROM run JOIN run own ON own.id = :run AND (run.id = own.id OR run.experiment_id = own.experiment_id)
WHERE run.finished_at IS NULL ORDER BY run.priority DESC, run.position, run.id LIMIT 64
"""

_WANTED_NEXT = """
SELECT target_digest FROM job WHERE state IN ('READY', 'ASSIGNED') AND target_digest = ANY(CAST(:targets AS varchar[]))
  AND kind IN ('GENERATE', 'JUDGE', 'MEMBER')
GROUP BY target_digest ORDER BY bool_or(state = 'ASSIGNED') DESC, max(priority) DESC, min(created_at), target_digest
"""
