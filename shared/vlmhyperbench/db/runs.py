"""Runs: added with their first event, listed, cancelled, paused, retuned, stopped.

The scheduler's SQL changes their states.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from uuid import UUID, uuid4

from sqlalchemy import func, insert, not_, select, update
from sqlalchemy.dialects.postgresql import distinct_on
from sqlalchemy.ext.asyncio import AsyncSession

from vlmhyperbench.db import events, listings
from vlmhyperbench.db.queries import PageKey, fetch_all, fetch_exactly_one, fetch_one, newest_first, table_of
from vlmhyperbench.db.tables import JobRow, RunRow
from vlmhyperbench.db.views import RunView
from vlmhyperbench.domain.digests import digest_of
from vlmhyperbench.domain.specs import RunSpec
from vlmhyperbench.domain.states import RunState
from vlmhyperbench.events import EventType
from vlmhyperbench.monitoring.trace_context import incoming
from vlmhyperbench_sdk.types import JsonObject

_RUN = table_of(RunRow)
_JOB = table_of(JobRow)


async def add(
    session: AsyncSession,
    *,
    project_id: str,
    created_by: str,
    name: str,
    spec: RunSpec,
    origins: Mapping[str, str] | None = None,
    run_id: UUID | None = None,
    experiment_id: UUID | None = None,
    parent_run_id: UUID | None = None,
    position: int = 0,
    priority: int = 0,
) -> RunView:
    """Add a QUEUED run with its event `run.queued`; it is dirty, so that the scheduler advances it.

    `rescoring.reuse_answers` makes a run INDEXED at once.
    """
    new_id = run_id or uuid4()
    digest = digest_of(spec)
    await session.execute(
        insert(_RUN).values(
            id=new_id,
            experiment_id=experiment_id,
            parent_run_id=parent_run_id,
            project_id=project_id,
            created_by=created_by,
            name=name,
            position=position,
            spec=spec.model_dump(mode="json"),
            spec_digest=digest,
            origins=None if origins is None else dict(origins),
            state=RunState.QUEUED.value,
            priority=priority,
            is_paused=False,
            is_dirty=True,
            event_seq=0,
            traceparent=incoming.get(),
        )
    )
    await listings.add(session, new_id, project_id=project_id, spec=spec)
    await events.append(
        session, stream_id=new_id, type=EventType.RUN_QUEUED, data={"name": name, "spec_digest": digest}
    )
    return await fetch_exactly_one(session, RunView, select(_RUN).where(_RUN.c.id == new_id))


async def get(session: AsyncSession, run_id: UUID, *, project_id: str | None = None) -> RunView | None:
    """Read a run; None if it does not exist, or does not belong to the given project."""
    statement = select(_RUN).where(_RUN.c.id == run_id)
    if project_id is not None:
        statement = statement.where(_RUN.c.project_id == project_id)
    return await fetch_one(session, RunView, statement)


async def page(
    session: AsyncSession,
    *,
    project_id: str,
    after: PageKey | None = None,
    limit: int = 50,
    state: RunState | None = None,
    experiment_id: UUID | None = None,
    is_session: bool | None = None,
    pipeline: str | None = None,
) -> list[RunView]:
    """Read a page of a project's runs, newest first; the next page begins after the key of the last row.

    With `is_session` they are questions that were asked of pipelines, with False only other runs.
    With `pipeline` their target is the pipeline of this name.
    """
    statement = select(_RUN).where(_RUN.c.project_id == project_id)
    if state is not None:
        statement = statement.where(_RUN.c.state == state.value)
    if experiment_id is not None:
        statement = statement.where(_RUN.c.experiment_id == experiment_id)
    if is_session is not None:
        asked = _RUN.c.spec.contains({"is_session": True})
        statement = statement.where(asked if is_session else not_(asked))
    if pipeline is not None:
        statement = statement.where(_RUN.c.spec.contains({"target": {"kind": "pipeline", "pipeline": pipeline}}))
    return await fetch_all(session, RunView, newest_first(statement, _RUN, after, limit))


async def of_experiment(session: AsyncSession, experiment_id: UUID) -> list[RunView]:
    """Read the runs of an experiment, baseline first."""
    statement = select(_RUN).where(_RUN.c.experiment_id == experiment_id).order_by(_RUN.c.position, _RUN.c.id)
    return await fetch_all(session, RunView, statement)


async def newest_of_targets(
    session: AsyncSession, target_digests: Collection[str], *, project_id: str
) -> list[RunView]:
    """Read, for each of these targets, the newest run of a project that has asked it: alone, as member or as judge."""
    newest = (
        select(_JOB.c.run_id)
        .ext(distinct_on(_JOB.c.target_digest))
        .where(_JOB.c.project_id == project_id, _JOB.c.target_digest.in_(target_digests))
        .order_by(_JOB.c.target_digest, _JOB.c.created_at.desc())
    )
    return await fetch_all(session, RunView, select(_RUN).where(_RUN.c.id.in_(newest)))


async def of_ids(session: AsyncSession, run_ids: Collection[UUID]) -> list[RunView]:
    """Read the open runs among these ids."""
    statement = select(_RUN).where(_RUN.c.id.in_(run_ids), _RUN.c.finished_at.is_(None)).order_by(_RUN.c.id)
    return await fetch_all(session, RunView, statement)


async def request_cancel(session: AsyncSession, run_id: UUID) -> RunView | None:
    """Request the cancellation of an open run: no job of it is claimed any more. A run that has ended stays as it is.

    None if there is no such run.
    """
    asked = (
        await session.execute(
            update(_RUN)
            .where(_RUN.c.id == run_id, _RUN.c.finished_at.is_(None), _RUN.c.cancel_requested_at.is_(None))
            .values(cancel_requested_at=func.now(), is_dirty=True)
            .returning(_RUN.c.id)
        )
    ).one_or_none()
    if asked is not None:
        await events.append(session, stream_id=run_id, type=EventType.RUN_CANCEL_REQUESTED)
    return await get(session, run_id)


async def set_paused(session: AsyncSession, run_id: UUID, *, is_paused: bool) -> RunView | None:
    """Pause an open run (no job is assigned, running ones drain) or resume it; None if there is no such run."""
    changed = (
        await session.execute(
            update(_RUN)
            .where(_RUN.c.id == run_id, _RUN.c.finished_at.is_(None), _RUN.c.is_paused != is_paused)
            .values(is_paused=is_paused, is_dirty=True)
            .returning(_RUN.c.id)
        )
    ).one_or_none()
    if changed is not None:
        kind = EventType.RUN_PAUSED if is_paused else EventType.RUN_RESUMED
        await events.append(session, stream_id=run_id, type=kind)
    return await get(session, run_id)


async def retune(session: AsyncSession, run_id: UUID, *, in_flight: int, by: str) -> RunView | None:
    """Change the requests in flight of an open run; the same number again changes nothing. None: there is no such run.

    The caller has checked that its scenario allows it (`domain.retuning`).
    """
    await session.execute(select(_RUN.c.id).where(_RUN.c.id == run_id).with_for_update(key_share=True))
    run = await get(session, run_id)
    if run is None or run.finished_at is not None:
        return run
    before = run.in_flight or run.pinned_spec().scenario.streams
    if before == in_flight:
        return run
    change: JsonObject = {"in_flight": in_flight, "before": before, "by": by, "at": datetime.now(UTC).isoformat()}
    retunes = [*(run.retunes or []), change]
    await session.execute(update(_RUN).where(_RUN.c.id == run_id).values(retunes=retunes))
    await events.append(session, stream_id=run_id, type=EventType.RUN_RETUNED, data=change)
    return await get(session, run_id)


async def stop(session: AsyncSession, run_id: UUID, decision: JsonObject) -> bool:
    """Store the decision of a run's stop rule, after which no request is sent; False if it has one already.

    The caller holds the run by one of its jobs.
    """
    decided = await session.execute(
        update(_RUN)
        .where(_RUN.c.id == run_id, _RUN.c.finished_at.is_(None), _RUN.c.stop_decision.is_(None))
        .values(stop_decision=dict(decision), is_dirty=True)
        .returning(_RUN.c.id)
    )
    if decided.one_or_none() is None:
        return False
    await events.append(session, stream_id=run_id, type=EventType.RUN_STOP_REQUESTED, data=decision)
    return True


async def set_headline(session: AsyncSession, run_id: UUID, headline: JsonObject) -> None:
    """Store the scores of a run's newest report; the caller holds the run by its REPORT job."""
    await session.execute(update(_RUN).where(_RUN.c.id == run_id).values(headline=dict(headline)))
