"""Read chunk manifests; `appending` writes them under the claim's fence."""

from __future__ import annotations

from uuid import UUID

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from vlmhyperbench.db.queries import fetch_all, fetch_one, table_of
from vlmhyperbench.db.tables import ChunkRow
from vlmhyperbench.db.views import ChunkView

_CHUNK = table_of(ChunkRow)


async def get(session: AsyncSession, run_id: UUID, claim_id: UUID, phase: int, no: int) -> ChunkView | None:
    """Read a chunk's manifest."""
    statement = select(_CHUNK).where(
        _CHUNK.c.run_id == run_id, _CHUNK.c.claim_id == claim_id, _CHUNK.c.phase == phase, _CHUNK.c.no == no
    )
    return await fetch_one(session, ChunkView, statement)


async def of_run(session: AsyncSession, run_id: UUID, *, phase: int | None = None) -> list[ChunkView]:
    """Read the chunks of a run, or of one of its phases, in the order in which they were committed."""
    statement = select(_CHUNK).where(_CHUNK.c.run_id == run_id)
    if phase is not None:
        statement = statement.where(_CHUNK.c.phase == phase)
    return await fetch_all(
        session, ChunkView, statement.order_by(_CHUNK.c.created_at, _CHUNK.c.claim_id, _CHUNK.c.phase, _CHUNK.c.no)
    )
