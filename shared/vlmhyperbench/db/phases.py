"""Read phases, and add those of a rescored run; `claim_phases` opens and closes all others."""

from __future__ import annotations

from uuid import UUID

from sqlalchemy import func, insert, select
from sqlalchemy.ext.asyncio import AsyncSession

from vlmhyperbench.db import events
from vlmhyperbench.db.queries import fetch_all, fetch_one, table_of
from vlmhyperbench.db.tables import PhaseRow
from vlmhyperbench.db.views import PhaseView, view_of
from vlmhyperbench.domain.states import PhaseState
from vlmhyperbench.events import EventType
from vlmhyperbench_sdk.load import PhaseKind
from vlmhyperbench_sdk.types import JsonObject

_PHASE = table_of(PhaseRow)


async def add(
    session: AsyncSession,
    *,
    run_id: UUID,
    no: int,
    step: int,
    kind: PhaseKind,
    counts: bool,
    params: JsonObject,
    count: int | None = None,
    claim_id: UUID | None = None,
    state: PhaseState = PhaseState.OPEN,
) -> PhaseView:
    """Add a phase with its event `phase.opened`, and with the event of its state if that is terminal."""
    data: JsonObject = {"phase": no, "kind": kind, "count": count}
    await events.append(session, stream_id=run_id, type=EventType.PHASE_OPENED, data=data)
    if state.is_terminal:
        await events.append(session, stream_id=run_id, type=EventType(f"phase.{state.lower()}"), data=data)
    added = await session.execute(
        insert(_PHASE)
        .values(
            run_id=run_id,
            no=no,
            step=step,
            kind=kind,
            counts=counts,
            params=dict(params),
            state=state.value,
            claim_id=claim_id,
            count=count,
            closed_at=func.now() if state.is_terminal else None,
        )
        .returning(*_PHASE.c)
    )
    return view_of(PhaseView, added.one())


async def get(session: AsyncSession, run_id: UUID, no: int) -> PhaseView | None:
    """Read a phase."""
    return await fetch_one(session, PhaseView, select(_PHASE).where(_PHASE.c.run_id == run_id, _PHASE.c.no == no))


async def of_run(session: AsyncSession, run_id: UUID) -> list[PhaseView]:
    """Read all phases of a run in order, including void ones."""
    return await fetch_all(session, PhaseView, select(_PHASE).where(_PHASE.c.run_id == run_id).order_by(_PHASE.c.no))
