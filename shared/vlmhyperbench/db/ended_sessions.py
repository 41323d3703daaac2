"""Sessions of browsers that were ended before they expired, by their nonce."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime

from sqlalchemy import delete, func, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession

from vlmhyperbench.db.queries import table_of
from vlmhyperbench.db.tables import EndedSessionRow

_ENDED = table_of(EndedSessionRow)


async def end(session: AsyncSession, nonce: str, *, expires_at: datetime) -> None:
    """End a session, and forget those that have expired meanwhile; ending it again changes nothing."""
    await session.execute(delete(_ENDED).where(_ENDED.c.expires_at < func.now()))
    await session.execute(insert(_ENDED).values(nonce=nonce, expires_at=expires_at).on_conflict_do_nothing())


async def ended_among(session: AsyncSession, nonces: Collection[str]) -> frozenset[str]:
    """Return which of these sessions were ended."""
    statement = select(_ENDED.c.nonce).where(_ENDED.c.nonce.in_(nonces))
    return frozenset((await session.execute(statement)).scalars())
