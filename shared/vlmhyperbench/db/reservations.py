"""What an attempt has reserved, and which loaded targets are wanted next: what a worker needs to make room."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncSession

from vlmhyperbench.domain.placement import Reservation


async def of_attempt(session: AsyncSession, attempt_id: UUID) -> list[Reservation]:
    """Read the reservations of an attempt, by the number of the device."""
    rows = await session.execute(text(_OF_ATTEMPT), {"attempt": attempt_id})
    return [Reservation(device=row.device, bytes=row.bytes, is_exclusive=row.is_exclusive) for row in rows]


async def wanted_next(session: AsyncSession, target_digests: Sequence[str]) -> list[str]:
    """Return which of these targets READY jobs ask, in the order in which their first jobs are due."""
    rows = await session.execute(text(_WANTED_NEXT), {"targets": list(target_digests)})
    return [row.target_digest for row in rows]


_OF_ATTEMPT = "SELECT device, bytes, is_exclusive FROM reservation WHERE attempt_id = :attempt ORDER BY device"

_WANTED_NEXT = """
SELECT target_digest FROM job WHERE state = 'READY' AND target_digest = ANY(CAST(:targets AS varchar[]))
  AND kind IN ('GENERATE', 'JUDGE', 'MEMBER')
GROUP BY target_digest ORDER BY max(priority) DESC, min(created_at), target_digest
"""
