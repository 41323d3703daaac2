"""`/storage`: where the data of runs is; moving, restoring and pinning runs; what the policy would do."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Query

from vlmhyperbench.db import tiers
from vlmhyperbench.db.engine import AsyncSession
from vlmhyperbench.db.tiers import StoredRunView
from vlmhyperbench.domain.tiers import Tier, TierPolicy, next_tier, why_kept
from vlmhyperbench.errors import Conflict, InvalidInput, NotFound
from vlmhyperbench.wire.base import Page
from vlmhyperbench.wire.storage import MoveRequest, PinRequest, StorageStatus, StoredRun, TierTotal
from vlmhyperbench_api.bodies import StrictRoute
from vlmhyperbench_api.dependencies import RuntimeOf, Session
from vlmhyperbench_api.security import Principal, requires

router = APIRouter(prefix="/storage", tags=["storage"], route_class=StrictRoute)

Reader = Annotated[Principal, requires("run:read")]
Writer = Annotated[Principal, requires("run:write")]
_MAX_RUNS = 1000


@router.get("")
async def get_storage(principal: Reader, session: Session, runtime: RuntimeOf) -> StorageStatus:
    """Count the finished runs of each tier, with the rows and bytes of their files, and say the policy."""
    totals = await tiers.totals(session, project_id=principal.project_id)
    shown = [TierTotal(tier=tier.value, runs=n, rows=rows, size_bytes=size) for tier, (n, rows, size) in totals.items()]
    policy = runtime.settings.tiers
    return StorageStatus(
        tiers=shown,
        warm_after_days=policy.warm_after_days,
        cold_after_days=policy.cold_after_days,
        restored_days=policy.restored_days,
        delete_after_days=policy.delete_after_days,
    )


@router.get("/runs")
async def list_stored_runs(
    principal: Reader,
    session: Session,
    runtime: RuntimeOf,
    run_ids: Annotated[str | None, Query(max_length=40_000, description="Ids of runs, separated by commas.")] = None,
) -> Page[StoredRun]:
    """List where runs are, oldest first, with what moves next and why a run is not deleted."""
    views = await _views(session, principal, None if run_ids is None else _ids(run_ids))
    return Page[StoredRun](items=_shown(views, runtime.settings.tiers), next=None)


@router.post("/move")
async def move(body: MoveRequest, principal: Writer, runtime: RuntimeOf) -> Page[StoredRun]:
    """Ask for runs to be in a tier; a worker moves them, one tier at a time. From `cold`, this restores them.

    Runs whose rows these reuse are restored with them.
    """
    async with runtime.database.transaction() as session:
        views = await _views(session, principal, body.run_ids)
        _check_ended(views)
        if not body.dry_run:
            for run_id in await _with_sources(session, views, Tier(body.tier)):
                await tiers.want(session, run_id, Tier(body.tier), by=principal.name)
        views = await _views(session, principal, body.run_ids)
    return Page[StoredRun](items=_shown(views, runtime.settings.tiers, Tier(body.tier)), next=None)


@router.post("/pin")
async def pin(body: PinRequest, principal: Writer, runtime: RuntimeOf) -> Page[StoredRun]:
    """Pin runs, so that they are never deleted, or unpin them."""
    async with runtime.database.transaction() as session:
        for view in await _views(session, principal, body.run_ids):
            await tiers.pin(session, view.id, is_pinned=body.is_pinned, by=principal.name)
        views = await _views(session, principal, body.run_ids)
    return Page[StoredRun](items=_shown(views, runtime.settings.tiers), next=None)


def _ids(text: str) -> list[UUID]:
    try:
        return [UUID(part.strip()) for part in text.split(",")]
    except ValueError as error:
        raise InvalidInput("run_ids: this is no list of ids.", cure="Write ids separated by commas.") from error


async def _views(session: AsyncSession, principal: Principal, run_ids: Sequence[UUID] | None) -> list[StoredRunView]:
    """Read runs of the principal's project.

    Raises:
        NotFound: one of them does not exist there.
    """
    project = principal.project_id
    views = await tiers.listed(session, project_id=project, run_ids=run_ids, limit=_MAX_RUNS)
    missing = set(run_ids or ()) - {view.id for view in views}
    if missing:
        raise NotFound(f"There is no run {min(missing)}.", cure="List the runs to see which there are.")
    return views


def _check_ended(views: Sequence[StoredRunView]) -> None:
    for view in views:
        if view.finished_at is None:
            raise Conflict(f"The run {view.id} has not ended.", cure="Wait until it has ended.", code="run_open")


async def _with_sources(session: AsyncSession, views: Sequence[StoredRunView], tier: Tier) -> list[UUID]:
    """Return the runs, and those whose rows they reuse if these are in an archive and the runs shall be read."""
    wanted = [view.id for view in views]
    if tier is Tier.COLD:
        return wanted
    for view in views:
        sources = await tiers.of_sources(session, view.id)
        wanted += [source.run_id for source in sources if source.tier is Tier.COLD and source.run_id not in wanted]
    return wanted


def _shown(views: Sequence[StoredRunView], policy: TierPolicy, wanted: Tier | None = None) -> list[StoredRun]:
    """Return the runs with what moves next; `wanted` is a tier that is asked for, also on paper."""
    now = datetime.now(UTC)
    shown = []
    for view in views:
        step = next_tier(view.for_rules_wanting(wanted), policy, now)
        shown.append(
            StoredRun(
                run_id=view.id,
                name=view.name,
                state=view.state,
                finished_at=view.finished_at,
                tier=view.tier.value,
                wanted=Tier(view.wanted).value if view.wanted else None,
                next=step.value if step else None,
                kept_because=why_kept(view.for_rules, policy, now),
                is_pinned=view.is_pinned,
                rows=view.rows,
                size_bytes=view.size_bytes,
                moved_at=view.moved_at,
                error=view.error,
            )
        )
    return shown
