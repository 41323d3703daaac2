"""Move the rows of a run out of Postgres and back: each time they are compared row by row before the old ones go."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Iterator, Sequence
from contextlib import aclosing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, Final
from uuid import UUID, uuid4

import polars

from vlmhyperbench.db import events, fact_copies, tiers
from vlmhyperbench.db.engine import AsyncSession, Database
from vlmhyperbench.db.fact_copies import BATCH_ROWS, COPIED_COLUMNS
from vlmhyperbench.db.tiers import Ending
from vlmhyperbench.db.views import RunTierView
from vlmhyperbench.domain.tiers import Tier
from vlmhyperbench.errors import Conflict, NotFound
from vlmhyperbench.events import EventType
from vlmhyperbench.facts.schema import polars_schema
from vlmhyperbench.storage import Storage, Stored

_MEDIA_TYPE: Final = "application/vnd.apache.parquet"


@dataclass(frozen=True, slots=True, kw_only=True)
class Moved:
    """What a move came to."""

    run_id: UUID
    tier: Tier
    rows: int
    size_bytes: int
    """Size of the file that was written or read."""


async def to_warm(database: Database, storage: Storage, run_id: UUID, *, folder: Path) -> Moved:
    """Move the rows of a hot run into a Parquet file; a move that is cut off leaves the run hot.

    Raises:
        NotFound: there is no such run.
        Conflict: the run is open, is not hot, has a row that only the table can hold, or the file differs.
        Damaged: the stored file is missing or differs from what was written.
        Unavailable: database or storage do not respond, or a disk is full.
    """
    stored = await write_rows(database, storage, run_id, folder=folder)
    return await drop_rows(database, storage, run_id, stored)


async def write_rows(database: Database, storage: Storage, run_id: UUID, *, folder: Path) -> Stored:
    """Store the rows of a finished run as a Parquet file under a new key; Postgres stays as it is."""
    with scratch(folder) as scratched:
        async with database.snapshot() as session:
            await check_tier(session, run_id, Tier.HOT)
            number = 0
            async for rows in fact_copies.ordered(session, run_id):
                await asyncio.to_thread(_frame(rows).write_parquet, scratched / f"{number:06}.parquet")
                number += 1
        return await asyncio.to_thread(_store_parts, storage, run_id, scratched)


async def drop_rows(database: Database, storage: Storage, run_id: UUID, stored: Stored) -> Moved:
    """Compare a run's rows with the stored file, delete them and record where they are: in one transaction."""
    path = await storage.open(stored.key, stored.sha256)
    async with database.transaction() as session:
        await lock_run(session, run_id)
        await check_tier(session, run_id, Tier.HOT)
        if await fact_copies.is_read_by_row(session, run_id):
            message = f"The run {run_id} stays in Postgres: another run refers to a single request of it that failed."
            raise Conflict(message, code="run_referenced")
        compared = await compare(session, run_id, path, stored.key)
        counts, failures = await fact_copies.counts(session, run_id), await fact_copies.failures(session, run_id)
        deleted = await fact_copies.delete(session, run_id)
        if deleted != compared:
            raise _differs(stored.key, f"{compared} rows were compared and {deleted} would be deleted")
        values = {
            "tier": Tier.WARM.value,
            "rows": compared,
            "counts": counts,
            "failures": failures,
            "facts_key": stored.key,
            "facts_sha256": stored.sha256,
            "facts_bytes": stored.size_bytes,
        }
        moved = Moved(run_id=run_id, tier=Tier.WARM, rows=compared, size_bytes=stored.size_bytes)
        await record(session, moved, before=Tier.HOT, values=values)
    return moved


async def to_hot(database: Database, storage: Storage, run_id: UUID) -> Moved:
    """Move the rows of a warm run back into Postgres; a move that is cut off leaves the run warm.

    Raises:
        NotFound: there is no such run.
        Conflict: the run is not warm, or what Postgres has after the move differs from the file.
        Damaged: the stored file is missing, or has other content.
        Unavailable: database or storage do not respond.
    """
    async with database.transaction() as session:
        await lock_run(session, run_id)
        tier = warm(await check_tier(session, run_id, Tier.WARM))
        path = await storage.open(tier.key, tier.sha256)
        for first in range(0, tier.rows, BATCH_ROWS):
            batch = await asyncio.to_thread(_slice, path, first)
            await fact_copies.copy_in(session, batch.iter_rows())
        restored = await compare(session, run_id, path, tier.key)
        if restored != tier.rows:
            raise _differs(tier.key, f"{tier.rows} rows left Postgres and {restored} came back")
        values: dict[str, object] = {
            "tier": Tier.HOT.value,
            "rows": 0,
            "counts": [],
            "failures": [],
            "facts_key": None,
            "facts_sha256": None,
            "facts_bytes": None,
        }
        moved = Moved(run_id=run_id, tier=Tier.HOT, rows=restored, size_bytes=tier.size_bytes)
        await record(session, moved, before=Tier.WARM, values=values)
    return moved


async def lock_run(session: AsyncSession, run_id: UUID) -> None:
    """Lock a finished run until the transaction ends, so that only one process moves it.

    Raises:
        NotFound: there is no such run.
        Conflict: it has not ended.
    """
    _check_finished(run_id, await tiers.ending(session, run_id, is_locked=True))


async def check_tier(session: AsyncSession, run_id: UUID, expected: Tier) -> RunTierView | None:
    """Return the tier of a finished run, which has to be the expected one; None: it is hot and never moved.

    Raises:
        NotFound: there is no such run.
        Conflict: it has not ended, or is in another tier.
    """
    _check_finished(run_id, await tiers.ending(session, run_id))
    tier = await tiers.get(session, run_id)
    present = Tier.HOT if tier is None else tier.tier
    if present is not expected:
        message = f"The run {run_id} is {present.value}, not {expected.value}."
        raise Conflict(message, cure="`vlmhyperbench storage status` shows where runs are.", code="other_tier")
    return tier


async def compare(session: AsyncSession, run_id: UUID, path: Path, key: str) -> int:
    """Compare a run's rows in Postgres with those of a file, row by row and in order; return their number.

    Raises:
        Conflict: they differ.
    """
    first = 0
    async with aclosing(fact_copies.ordered(session, run_id)) as batches:
        async for rows in batches:
            if not await asyncio.to_thread(_equal, rows, path, first):
                raise _differs(key, f"rows from {first} on are not those of Postgres")
            first += len(rows)
    in_file = await asyncio.to_thread(_height, path)
    if in_file != first:
        raise _differs(key, f"it has {in_file} rows, and Postgres {first}")
    return first


async def record(session: AsyncSession, moved: Moved, *, before: Tier, values: dict[str, object]) -> None:
    """Record a move and its event; what a user asked for is done once the run is there."""
    await tiers.record_move(session, moved.run_id, before, moved.tier, values)
    await events.append(
        session,
        stream_id=moved.run_id,
        type=EventType.RUN_MOVED,
        data={"from": before.value, "to": moved.tier.value, "rows": moved.rows, "bytes": moved.size_bytes},
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class WarmFile:
    """The file of the rows that left Postgres."""

    key: str
    sha256: str
    size_bytes: int
    rows: int


def warm(tier: RunTierView | None) -> WarmFile:
    """Return the file of a run that is not hot, which the same transaction wrote with its tier."""
    if tier is None or tier.facts_key is None or tier.facts_sha256 is None or tier.facts_bytes is None:
        raise NotFound("A run that is not hot has no file of its rows.", cure="Restore the database from a backup.")
    return WarmFile(key=tier.facts_key, sha256=tier.facts_sha256, size_bytes=tier.facts_bytes, rows=tier.rows)


@contextmanager
def scratch(folder: Path) -> Iterator[Path]:
    """Make a folder for temporary files, which is removed when the block ends."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    made = Path(mkdtemp(dir=folder, prefix="move-"))
    try:
        yield made
    finally:
        shutil.rmtree(made, ignore_errors=True)


def _check_finished(run_id: UUID, ending: Ending | None) -> None:
    if ending is None:
        raise NotFound(f"There is no run {run_id}.", cure="List the runs to see which there are.")
    if ending.finished_at is None:
        raise Conflict(f"The run {run_id} has not ended.", cure="Wait until it has ended.", code="run_open")


def _frame(rows: Sequence[tuple[Any, ...]]) -> polars.DataFrame:
    return polars.DataFrame(rows, schema=polars_schema(COPIED_COLUMNS), orient="row")


def _store_parts(storage: Storage, run_id: UUID, folder: Path) -> Stored:
    """Join the parts in order into one file, with a group of rows for each batch that is read again."""
    parts = sorted(folder.glob("*.parquet"))
    rows = polars.scan_parquet(parts, glob=False) if parts else polars.LazyFrame(schema=polars_schema(COPIED_COLUMNS))
    whole = folder / "facts.whole"
    rows.sink_parquet(whole, compression="zstd", row_group_size=BATCH_ROWS, maintain_order=True)
    return storage.put(f"runs/{run_id}/facts/{uuid4()}.parquet", whole, media_type=_MEDIA_TYPE)


def _slice(path: Path, first: int) -> polars.DataFrame:
    return polars.scan_parquet(path, glob=False).slice(first, BATCH_ROWS).collect()


def _equal(rows: Sequence[tuple[Any, ...]], path: Path, first: int) -> bool:
    stored = polars.scan_parquet(path, glob=False).slice(first, len(rows)).collect()
    return _frame(rows).equals(stored)


def _height(path: Path) -> int:
    return int(polars.scan_parquet(path, glob=False).select(polars.len()).collect().item())


def _differs(key: str, how: str) -> Conflict:
    message = f"The file {key} is not what Postgres has: {how}. Nothing was deleted or changed."
    return Conflict(message, cure="Try again; if it stays so, report it with this message.", code="tier_differs")
