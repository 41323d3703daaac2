"""Events: appended with a gapless number per stream, and read after a cursor."""

from __future__ import annotations

from collections.abc import Mapping
from uuid import UUID, uuid4

from pydantic import JsonValue
from sqlalchemy import insert, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from vlmhyperbench.db.queries import fetch_all, page_size, table_of
from vlmhyperbench.db.tables import EventRow, ExperimentRow, RunRow
from vlmhyperbench.db.views import EventView
from vlmhyperbench.errors import NotFound
from vlmhyperbench_sdk.types import JsonObject

_EVENT = table_of(EventRow)
_RUN = table_of(RunRow)
_EXPERIMENT = table_of(ExperimentRow)


async def append(
    session: AsyncSession,
    *,
    stream_id: UUID,
    type: str,  # noqa: A002 - the column's name
    data: JsonObject | Mapping[str, JsonValue] | None = None,
    job_id: UUID | None = None,
    stage: str | None = None,
) -> int:
    """Append an event to the stream of a run or an experiment and return its `seq`.

    It locks the row of the run or experiment until the transaction ends. So numbers follow the order of commits, and a
    rollback leaves no gap. Take this lock before that of a job (lock order: experiment, run, job).

    Raises:
        NotFound: the stream is neither a run nor an experiment.
    """
    seq, project_id, run_id, experiment_id = await _next_seq(session, stream_id)
    await session.execute(
        insert(_EVENT).values(
            stream_id=stream_id,
            seq=seq,
            id=uuid4(),
            type=str(type),
            project_id=project_id,
            experiment_id=experiment_id,
            run_id=run_id,
            job_id=job_id,
            stage=None if stage is None else str(stage),
            data=dict(data or {}),
        )
    )
    return seq


async def after(session: AsyncSession, stream_id: UUID, seq: int, limit: int = 1000) -> list[EventView]:
    """Read at most `limit` events of a stream whose number is greater than `seq`, in order."""
    return await fetch_all(
        session,
        EventView,
        select(_EVENT)
        .where(_EVENT.c.stream_id == stream_id, _EVENT.c.seq > seq)
        .order_by(_EVENT.c.seq)
        .limit(page_size(limit)),
    )


async def _next_seq(session: AsyncSession, stream_id: UUID) -> tuple[int, str, UUID | None, UUID | None]:
    counted = (
        await session.execute(
            update(_RUN)
            .where(_RUN.c.id == stream_id)
            .values(event_seq=_RUN.c.event_seq + 1)
            .returning(_RUN.c.event_seq, _RUN.c.project_id, _RUN.c.experiment_id)
        )
    ).one_or_none()
    if counted is not None:
        return counted.event_seq, counted.project_id, stream_id, counted.experiment_id
    counted = (
        await session.execute(
            update(_EXPERIMENT)
            .where(_EXPERIMENT.c.id == stream_id)
            .values(event_seq=_EXPERIMENT.c.event_seq + 1)
            .returning(_EXPERIMENT.c.event_seq, _EXPERIMENT.c.project_id)
        )
    ).one_or_none()
    if counted is None:
        raise NotFound(f"There is no run or experiment {stream_id}.")
    return counted.event_seq, counted.project_id, None, stream_id
