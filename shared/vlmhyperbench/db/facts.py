"""Read facts without their payloads; `appending` writes them, `facts.read` joins them with their payloads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from sqlalchemy import func, select, text
from sqlalchemy.ext.asyncio import AsyncSession

from vlmhyperbench.db.queries import fetch_one, table_of
from vlmhyperbench.db.tables import FactRow
from vlmhyperbench.db.views import FactView
from vlmhyperbench.domain.states import FactStatus

_FACT = table_of(FactRow)


@dataclass(frozen=True, slots=True, kw_only=True)
class FactCount:
    """Number of measured rows of a phase with one status and one kind of failure."""

    phase: int
    status: FactStatus
    failure: str | None
    rows: int


async def get(session: AsyncSession, run_id: UUID, phase: int, ordinal: int) -> FactView | None:
    """Read a fact that the run measured itself."""
    statement = select(_FACT).where(_FACT.c.run_id == run_id, _FACT.c.phase == phase, _FACT.c.ordinal == ordinal)
    return await fetch_one(session, FactView, statement)


async def present(session: AsyncSession, run_id: UUID, phase: int, ordinals: Sequence[int]) -> set[int]:
    """Read which of these ordinals of a phase have a row, measured or reused."""
    result = await session.execute(text(_PRESENT), {"run": run_id, "phase": phase, "ordinals": list(ordinals)})
    return set(result.scalars())


async def counts(session: AsyncSession, run_id: UUID) -> list[FactCount]:
    """Count the facts that a run measured, by phase, status and failure."""
    keys = (_FACT.c.phase, _FACT.c.status, _FACT.c.failure)
    result = await session.execute(
        select(*keys, func.count().label("rows")).where(_FACT.c.run_id == run_id).group_by(*keys).order_by(*keys)
    )
    return [
        FactCount(phase=row.phase, status=FactStatus(row.status), failure=row.failure, rows=row.rows) for row in result
    ]


_PRESENT = """
SELECT ordinal FROM fact
WHERE run_id = :run AND phase = :phase AND ordinal = ANY(CAST(:ordinals AS bigint[]))
UNION
SELECT ordinal FROM reused_fact
WHERE run_id = :run AND phase = :phase AND ordinal = ANY(CAST(:ordinals AS bigint[]))
"""
