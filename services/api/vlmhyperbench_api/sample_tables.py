"""The tables of the runs whose samples were looked at last; that of an open run is built again when it has moved."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Sequence
from typing import TYPE_CHECKING
from uuid import UUID

from vlmhyperbench.db import listings, measures, tallies
from vlmhyperbench.db.engine import AsyncSession, Database
from vlmhyperbench.db.tallies import Tally
from vlmhyperbench.db.views import MeasureManifestView, RunView
from vlmhyperbench.storage import Storage
from vlmhyperbench.summaries.columns import PERFECT

if TYPE_CHECKING:
    from vlmhyperbench_api.sample_table import SampleTable

MAX_ROWS = 300_000
"""Longest table; the samples of a longer run are listed in their order only."""
MAX_KEPT_BYTES = 400 * 1024 * 1024


class SampleTables:
    """Builds and keeps tables, up to `MAX_KEPT_BYTES`."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._kept: OrderedDict[UUID, tuple[tuple[int, ...], SampleTable]] = OrderedDict()
        self._building: dict[UUID, asyncio.Lock] = {}

    def has(self, run_id: UUID) -> bool:
        """Return whether a table of the run is kept."""
        return run_id in self._kept

    async def of_run(self, run: RunView, database: Database) -> SampleTable | None:
        """Return the table of a run, or None if it has more than `MAX_ROWS` rows.

        Args:
            run: The run.
            database: The server to read it from.

        Raises:
            Damaged: a file of the run is missing or was changed.
            Unavailable: database or storage do not respond.
        """
        async with database.transaction() as session:
            tally = (await tallies.of_runs(session, [run.id])).get(run.id, Tally())
            files = await measures.of_run(session, run.id)
        if max(tally.done, run.total or 0) > MAX_ROWS:
            return None
        version = (tally.done, tally.failed, len(files), int(run.state.is_terminal))
        lock = self._building.setdefault(run.id, asyncio.Lock())
        async with lock:  # several requests for one table build it once
            kept = self._kept.get(run.id)
            if kept is None or kept[0] != version:
                kept = (version, await self._build(run, files, database))
                self._kept[run.id] = kept
            self._kept.move_to_end(run.id)
        if not lock.locked():
            self._building.pop(run.id, None)
        self._drop_oldest()
        return kept[1]

    async def _build(self, run: RunView, files: Sequence[MeasureManifestView], database: Database) -> SampleTable:
        from vlmhyperbench.facts.read import read_facts  # imports polars on first use
        from vlmhyperbench_api.sample_table import table_from

        facts = await read_facts(database, self._storage, run.id, payload=("text",))
        async with database.transaction() as session:
            perfect = await stored_perfect(session, run.id)
        paths = await self._storage.open_all([(file.storage_key, file.sha256) for file in files])
        return await asyncio.to_thread(table_from, run, facts, list(zip(files, paths, strict=True)), perfect)

    def _drop_oldest(self) -> None:
        sizes = [int(table.frame.estimated_size()) for _, table in self._kept.values()]
        while len(sizes) > 1 and sum(sizes) > MAX_KEPT_BYTES:
            self._kept.popitem(last=False)
            sizes.pop(0)


async def stored_perfect(session: AsyncSession, run_id: UUID) -> float | None:
    """Return the value of a right answer by a run's primary metric, as its summary states it; None without one."""
    listing = await listings.of_run(session, run_id)
    value = listing.columns.get(PERFECT) if listing is not None else None
    return float(value) if isinstance(value, int | float) else None
