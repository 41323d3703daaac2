"""Keep house: move the runs that are due or asked for, and delete what has no owner; one process does it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path
from uuid import UUID

from vlmhyperbench.db import tiers
from vlmhyperbench.db.engine import Database
from vlmhyperbench.db.leadership import HOUSEKEEPER_KEY, Leadership
from vlmhyperbench.domain.tiers import Tier, TierPolicy, next_tier
from vlmhyperbench.errors import STORAGE_FULL, Denied, Unavailable, VlmHyperBenchError
from vlmhyperbench.logs import get_logger
from vlmhyperbench.runtime import storage_location
from vlmhyperbench.settings import Settings
from vlmhyperbench.storage import Storage, open_storage
from vlmhyperbench.tiers import archiving, moving
from vlmhyperbench.tiers.moving import Moved
from vlmhyperbench.tiers.retention import delete_due, delete_orphans

_LOG = get_logger(__name__)
_STATEMENT_S = 3600.0
"""A statement that copies or deletes millions of rows takes minutes."""
_SWEEP_S = 3600.0
"""Seconds between two looks at every file in storage."""


async def keep_house(settings: Settings) -> None:
    """Keep house until cancelled; of all processes that do, one moves at a time, by a lock in Postgres."""
    url = settings.database_url.get_secret_value()
    database = Database(url, statement_timeout_s=_STATEMENT_S, name="housekeeper", pool_size=1, max_overflow=2)
    leadership = Leadership(url, key=HOUSEKEEPER_KEY, name="housekeeper-lock")
    storage = await asyncio.to_thread(open_storage, storage_location(settings))
    is_allowed: bool | None = None
    swept_at = -_SWEEP_S
    clock = asyncio.get_running_loop().time
    try:
        while True:
            try:
                is_allowed = is_allowed or await _may_move(database, is_known=is_allowed is not None)
                if is_allowed and await leadership.hold():
                    folder = settings.home / "moves"
                    while await leadership.hold() and await move_due(database, storage, settings.tiers, folder=folder):
                        pass
                    await remove_loose(database, storage, settings.tiers)
                    if clock() - swept_at >= _SWEEP_S:
                        await delete_due(database, storage, settings.tiers)
                        await delete_orphans(database, storage, settings.tiers)
                        swept_at = clock()
            except (Unavailable, Denied) as error:
                _LOG.warning("tiers.waiting", error=str(error))
            await asyncio.sleep(settings.tiers.poll_s)
    finally:
        await leadership.close()
        await database.close()


async def _may_move(database: Database, *, is_known: bool) -> bool:
    """Whether this account may take rows out of Postgres: that of a worker that joined may not, so it must not lead.

    The first time that it may not, the log says so.
    """
    async with database.transaction() as session:
        is_allowed = await tiers.may_move(session)
    if not is_allowed and not is_known:
        _LOG.warning(
            "tiers.not_allowed",
            reason="The account of this worker may not delete rows, so it moves, restores and deletes no run.",
            cure="Run one reporting worker with the account of the database's owner, as the stack itself does.",
        )
    return is_allowed


async def move_due(database: Database, storage: Storage, policy: TierPolicy, *, folder: Path) -> list[Moved]:
    """Move each run that is due by one tier; one that fails has the reason on record and does not stop the others.

    Raises:
        Unavailable: database or storage do not respond; the next look goes on.
    """
    async with database.transaction() as session:
        due = await tiers.due(session, policy)
    moved = []
    for run in due:
        step = next_tier(run.for_rules, policy, datetime.now(UTC))
        if step is None:
            continue
        try:
            moved.append(await _MOVES[run.tier, step](database, storage, run.id, folder))
        except Unavailable as error:
            if error.code != STORAGE_FULL:
                raise
            await _failed(database, run.id, error)
        except VlmHyperBenchError as error:
            await _failed(database, run.id, error)
    for move in moved:
        _LOG.info("run.moved", run_id=str(move.run_id), tier=move.tier.value, rows=move.rows, bytes=move.size_bytes)
    return moved


async def remove_loose(database: Database, storage: Storage, policy: TierPolicy) -> int:
    """Delete the files that the archives of cold runs have, once no reader can hold them; return their number."""
    async with database.transaction() as session:
        runs = await tiers.with_loose_files(session, older_than_s=policy.grace_s)
    return sum([await archiving.remove_loose_files(database, storage, run.run_id) for run in runs])


async def _failed(database: Database, run_id: UUID, error: VlmHyperBenchError) -> None:
    _LOG.warning("run.not_moved", run_id=str(run_id), error=str(error))
    async with database.transaction() as session:
        await tiers.record_failure(session, run_id, str(error))


async def _cool(database: Database, storage: Storage, run_id: UUID, folder: Path) -> Moved:
    return await moving.to_warm(database, storage, run_id, folder=folder)


async def _heat(database: Database, storage: Storage, run_id: UUID, _folder: Path) -> Moved:
    return await moving.to_hot(database, storage, run_id)


async def _archive(database: Database, storage: Storage, run_id: UUID, folder: Path) -> Moved:
    return await archiving.to_cold(database, storage, run_id, folder=folder)


async def _restore(database: Database, storage: Storage, run_id: UUID, folder: Path) -> Moved:
    return await archiving.from_cold(database, storage, run_id, folder=folder)


_MOVES: dict[tuple[Tier, Tier], Callable[[Database, Storage, UUID, Path], Awaitable[Moved]]] = {
    (Tier.HOT, Tier.WARM): _cool,
    (Tier.WARM, Tier.HOT): _heat,
    (Tier.WARM, Tier.COLD): _archive,
    (Tier.COLD, Tier.WARM): _restore,
}
