"""Experiments: added with their first event, listed, cancelled and paused. Their states follow from their runs."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID, uuid4

from sqlalchemy import func, insert, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from vlmhyperbench.db import events, runs
from vlmhyperbench.db.queries import PageKey, fetch_all, fetch_exactly_one, fetch_one, newest_first, table_of
from vlmhyperbench.db.tables import ExperimentRow, RunRow
from vlmhyperbench.db.views import ExperimentView
from vlmhyperbench.domain.states import ExperimentState
from vlmhyperbench.events import EventType
from vlmhyperbench.monitoring.trace_context import incoming
from vlmhyperbench_sdk.types import JsonObject

_EXPERIMENT = table_of(ExperimentRow)
_RUN = table_of(RunRow)


async def add(
    session: AsyncSession,
    *,
    project_id: str,
    created_by: str,
    name: str,
    spec: JsonObject,
    spec_digest: str,
    experiment_id: UUID | None = None,
) -> ExperimentView:
    """Add an OPEN experiment with its event `experiment.opened`; its runs are added after it."""
    new_id = experiment_id or uuid4()
    await session.execute(
        insert(_EXPERIMENT).values(
            id=new_id,
            project_id=project_id,
            created_by=created_by,
            name=name,
            spec=dict(spec),
            spec_digest=spec_digest,
            state=ExperimentState.OPEN.value,
            event_seq=0,
            traceparent=incoming.get(),
        )
    )
    await events.append(
        session, stream_id=new_id, type=EventType.EXPERIMENT_OPENED, data={"name": name, "spec_digest": spec_digest}
    )
    return await fetch_exactly_one(session, ExperimentView, select(_EXPERIMENT).where(_EXPERIMENT.c.id == new_id))


async def get(session: AsyncSession, experiment_id: UUID, *, project_id: str | None = None) -> ExperimentView | None:
    """Read an experiment; None if it does not exist, or does not belong to the given project."""
    statement = select(_EXPERIMENT).where(_EXPERIMENT.c.id == experiment_id)
    if project_id is not None:
        statement = statement.where(_EXPERIMENT.c.project_id == project_id)
    return await fetch_one(session, ExperimentView, statement)


async def page(
    session: AsyncSession,
    *,
    project_id: str,
    after: PageKey | None = None,
    limit: int = 50,
    state: ExperimentState | None = None,
) -> list[ExperimentView]:
    """Read a page of a project's experiments, newest first; the next page begins after the key of the last row."""
    statement = select(_EXPERIMENT).where(_EXPERIMENT.c.project_id == project_id)
    if state is not None:
        statement = statement.where(_EXPERIMENT.c.state == state.value)
    return await fetch_all(session, ExperimentView, newest_first(statement, _EXPERIMENT, after, limit))


async def request_cancel(session: AsyncSession, experiment_id: UUID) -> ExperimentView | None:
    """Request the cancellation of an open experiment and of its open runs; None if the experiment does not exist."""
    await session.execute(
        update(_EXPERIMENT)
        .where(
            _EXPERIMENT.c.id == experiment_id,
            _EXPERIMENT.c.finished_at.is_(None),
            _EXPERIMENT.c.cancel_requested_at.is_(None),
        )
        .values(cancel_requested_at=func.now())
    )
    for run_id in await _open_runs(session, experiment_id):
        await runs.request_cancel(session, run_id)
    return await get(session, experiment_id)


async def set_paused(session: AsyncSession, experiment_id: UUID, *, is_paused: bool) -> None:
    """Pause or resume the open runs of an experiment."""
    for run_id in await _open_runs(session, experiment_id):
        await runs.set_paused(session, run_id, is_paused=is_paused)


async def _open_runs(session: AsyncSession, experiment_id: UUID) -> Sequence[UUID]:
    """Read the ids of an experiment's open runs, in the order in which they are locked."""
    result = await session.execute(
        select(_RUN.c.id).where(_RUN.c.experiment_id == experiment_id, _RUN.c.finished_at.is_(None)).order_by(_RUN.c.id)
    )
    return result.scalars().all()
