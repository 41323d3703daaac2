"""What a child run keeps of other runs: whole phases, or single rows; always the row that was measured."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from sqlalchemy import insert, select
from sqlalchemy.ext.asyncio import AsyncSession

from vlmhyperbench.db.queries import fetch_all, table_of
from vlmhyperbench.db.tables import KeptFactRow, KeptPhaseRow
from vlmhyperbench.db.views import KeptFactView, KeptPhaseView

_PHASE = table_of(KeptPhaseRow)
_FACT = table_of(KeptFactRow)


async def add_phase(session: AsyncSession, kept: KeptPhaseView) -> None:
    """Keep a whole phase; one that is kept itself is followed to the run that measured it."""
    source = await _phase(session, kept.source_run_id, kept.source_phase)
    run_id, phase = (source.source_run_id, source.source_phase) if source else (kept.source_run_id, kept.source_phase)
    await session.execute(
        insert(_PHASE).values(run_id=kept.run_id, phase=kept.phase, source_run_id=run_id, source_phase=phase)
    )


async def add_facts(session: AsyncSession, kept: Sequence[KeptFactView]) -> None:
    """Keep single rows, each named by the run that measured it."""
    if kept:
        await session.execute(
            insert(_FACT),
            [
                {
                    "run_id": row.run_id,
                    "phase": row.phase,
                    "ordinal": row.ordinal,
                    "source_run_id": row.source_run_id,
                    "source_phase": row.source_phase,
                    "source_ordinal": row.source_ordinal,
                }
                for row in kept
            ],
        )


async def phases_of_run(session: AsyncSession, run_id: UUID) -> list[KeptPhaseView]:
    """Read the phases that a run keeps as a whole."""
    statement = select(_PHASE).where(_PHASE.c.run_id == run_id).order_by(_PHASE.c.phase)
    return await fetch_all(session, KeptPhaseView, statement)


async def facts_of_run(session: AsyncSession, run_id: UUID) -> list[KeptFactView]:
    """Read the single rows that a run keeps."""
    statement = select(_FACT).where(_FACT.c.run_id == run_id).order_by(_FACT.c.phase, _FACT.c.ordinal)
    return await fetch_all(session, KeptFactView, statement)


async def _phase(session: AsyncSession, run_id: UUID, phase: int) -> KeptPhaseView | None:
    found = await fetch_all(
        session, KeptPhaseView, select(_PHASE).where(_PHASE.c.run_id == run_id, _PHASE.c.phase == phase)
    )
    return found[0] if found else None
