"""Phases as readers see them. They are opened and closed with the jobs and claims that own them."""

from __future__ import annotations

from uuid import UUID

from sqlalchemy import func, insert, select
from sqlalchemy.ext.asyncio import AsyncSession

from vlmhyperbench.db import events
from vlmhyperbench.db.queries import fetch_all, fetch_one, table_of
from vlmhyperbench.db.tables import PhaseRow
from vlmhyperbench.db.views import PhaseView
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
    """Add a phase with its event `phase.opened`; one that keeps another's rows is as closed as that was."""
    data: JsonObject = {"phase": no, "kind": kind, "count": count}
    await events.append(session, stream_id=run_id, type=EventType.PHASE_OPENED, data=data)
    if state.is_terminal:
        await events.append(session, stream_id=run_id, type=EventType(f"phase.{state.lower()}"), data=data)
    await session.execute(
        insert(_PHASE).values(
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
    )
    added = await get(session, run_id, no)
    assert added is not None  # noqa: S101 - this transaction has just written it
    return added


async def get(session: AsyncSession, run_id: UUID, no: int) -> PhaseView | None:
    """Read a phase."""
    return await fetch_one(session, PhaseView, select(_PHASE).where(_PHASE.c.run_id == run_id, _PHASE.c.no == no))


async def of_run(session: AsyncSession, run_id: UUID) -> list[PhaseView]:
    """Read every phase of a run in order, void ones too."""
    return await fetch_all(session, PhaseView, select(_PHASE).where(_PHASE.c.run_id == run_id).order_by(_PHASE.c.no))
