"""Measure the table of facts: appends by the product's own code, pages of a large run, and moves between tiers.

Usage: python -m benchmarks.facts [--rows N] [--seconds S] [--rate R]    Each figure stands beside a reference that is
measured in the same process on the same server: the same rows in a table without partitions, and a plain COPY. The
aims are those of the defaults, 10,000,000 rows and 300 s, which take a quarter of an hour and 15 GB of disk on two free
cores; `--rows 1000000 --seconds 60` takes a tenth of the disk and about three minutes.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import statistics
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from uuid import UUID, uuid4

from rich.console import Console
from rich.table import Table
from sqlalchemy import text

from benchmarks.parts import machine_load
from tests.support.builders import Shard, add_run, add_shard, new_fact, unstored_chunk
from vlmhyperbench.db import migrations
from vlmhyperbench.db.appending import append
from vlmhyperbench.db.engine import Database
from vlmhyperbench.db.results import Wanted
from vlmhyperbench.facts.pages import read_page
from vlmhyperbench.local.postgres import Postgres
from vlmhyperbench.storage import Storage, open_storage
from vlmhyperbench.tiers.moving import to_hot, to_warm

ROWS, SECONDS, RATE = 10_000_000, 300.0, 10_000.0
AIM_PAGE_MS = 50.0
WRITERS, CHUNK_ROWS, PAGES, PAGE_ROWS = 4, 256, 300, 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A figure with its reference."""

    name: str
    value: float
    unit: str
    reference: str = ""
    reference_value: float | None = None

    @property
    def ratio(self) -> str:
        return "" if not self.reference_value else f"{self.value / self.reference_value:.2f}"


def main() -> None:
    """Run every measurement and print one table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--seconds", type=float, default=SECONDS)
    parser.add_argument("--rate", type=float, default=RATE)
    given = parser.parse_args()
    with TemporaryDirectory(prefix="facts-") as name:
        folder = Path(name)
        server = Postgres(folder / "pg")
        try:
            url = server.start()
            migrations.upgrade(url)
            figures = asyncio.run(measure(url, folder, rows=given.rows, seconds=given.seconds, rate=given.rate))
        finally:
            server.stop()
    table = Table("figure", "value", "unit", "reference", "its value", "ratio")
    for figure in figures:
        known = "" if figure.reference_value is None else f"{figure.reference_value:,.1f}"
        table.add_row(figure.name, f"{figure.value:,.1f}", figure.unit, figure.reference, known, figure.ratio)
    Console(width=140).print(table)
    print(f"{given.rows:,} rows in one run; {machine_load()}")


async def measure(url: str, folder: Path, *, rows: int, seconds: float, rate: float) -> list[Figure]:
    """Fill the tables, then append, read pages, and move the large run out of Postgres and back."""
    database = Database(url, statement_timeout_s=3600, pool_size=WRITERS + 2)
    storage = open_storage(str(folder / "storage"))
    try:
        run_id = await _fill(database, rows)
        figures = _told(await _appends(database, seconds=seconds, rate=rate))
        figures += _told(await _pages(database, storage, run_id, rows, "hot"))
        figures += _told(await _moves(database, storage, run_id, rows, folder))
    finally:
        await database.close()
    return figures


def _told(figures: list[Figure]) -> list[Figure]:
    """Print figures when they are known: those after them take minutes."""
    for figure in figures:
        print(f"{figure.name}: {figure.value:,.1f} {figure.unit}", flush=True)
    return figures


async def _fill(database: Database, rows: int) -> UUID:
    """Make a finished run of so many rows, and the same table once more without partitions."""
    async with database.transaction() as session:
        shard = await add_shard(session, run=await add_run(session, name="large"), end=rows)
        values = {"run": shard.run.id, "claim": shard.claim_id, "rows": rows}
        await session.execute(text(_FILL), values)
        await session.execute(text("UPDATE phase SET state = 'COMPLETE' WHERE run_id = :run"), values)
        await session.execute(text("UPDATE run SET state = 'SUCCEEDED', finished_at = now() WHERE id = :run"), values)
        await session.execute(text("CREATE TABLE fact_whole (LIKE fact INCLUDING DEFAULTS)"))
        await session.execute(text("INSERT INTO fact_whole SELECT * FROM fact"))
        await session.execute(text("ALTER TABLE fact_whole ADD PRIMARY KEY (run_id, phase, ordinal)"))
        await session.execute(
            text("CREATE INDEX ON fact_whole (request_sha256) WHERE status = 'ok' AND origin = 'live'")
        )
    async with database.transaction() as session:
        await session.execute(text("ANALYZE"))
    return shard.run.id


async def _appends(database: Database, *, seconds: float, rate: float) -> list[Figure]:
    """Append at a rate by several claims at a time, then at full speed to either table by the statement of appends."""
    async with database.transaction() as session:
        shards = [await add_shard(session, run=await add_run(session), end=10**9) for _ in range(WRITERS)]
    delays: list[float] = []
    began = time.monotonic()
    written = await asyncio.gather(
        *(_append_at_rate(database, shard, rate / WRITERS, began + seconds, delays) for shard in shards)
    )
    took_s = time.monotonic() - began
    parted = await _insert_speed(database, "fact")
    whole = await _insert_speed(database, "fact_whole")
    return [
        Figure(name="rows appended", value=sum(written) / took_s, unit="1/s", reference="aim", reference_value=rate),
        Figure(name="append of 256 rows, p50", value=statistics.median(delays) * 1e3, unit="ms"),
        Figure(name="append of 256 rows, p99", value=_p99(delays) * 1e3, unit="ms"),
        Figure(
            name="insert statement alone, one connection",
            value=parted,
            unit="rows/s",
            reference="the table without partitions",
            reference_value=whole,
        ),
    ]


async def _append_at_rate(database: Database, shard: Shard, rate: float, until: float, delays: list[float]) -> int:
    number, due = 0, time.monotonic()
    while time.monotonic() < until:
        rows = [new_fact(number * CHUNK_ROWS + row, row=row) for row in range(CHUNK_ROWS)]
        began = time.monotonic()
        async with database.transaction() as session:
            chunk = unstored_chunk(shard, no=number, rows=CHUNK_ROWS)
            await append(session, job_id=shard.job_id, claim_id=shard.claim_id, chunk=chunk, rows=rows)
        delays.append(time.monotonic() - began)
        number += 1
        due += CHUNK_ROWS / rate
        await asyncio.sleep(max(0.0, due - time.monotonic()))
    return number * CHUNK_ROWS


async def _insert_speed(database: Database, table: str) -> float:
    """Insert rows of new runs in batches of the size of a chunk, each in a transaction of its own."""
    batches, began = 200, time.monotonic()
    for _ in range(batches):
        async with database.transaction() as session:
            values = {"run": uuid4(), "claim": uuid4(), "rows": CHUNK_ROWS}
            await session.execute(text(_FILL.replace("INTO fact ", f"INTO {table} ")), values)
    return batches * CHUNK_ROWS / (time.monotonic() - began)


async def _pages(database: Database, storage: Storage, run_id: UUID, rows: int, tier: str) -> list[Figure]:
    """Read pages at random places, and the same rows of the table without partitions by its key alone."""
    draw = random.Random(0)
    places = [draw.randrange(rows) for _ in range(PAGES)]

    async def page(place: int) -> None:
        async with database.snapshot() as session:
            await read_page(session, storage, run_id, Wanted(after=(1, place), limit=PAGE_ROWS))

    async def plain(place: int) -> None:
        async with database.transaction() as session:
            (await session.execute(text(_PLAIN_PAGE), {"run": run_id, "place": place, "limit": PAGE_ROWS})).all()

    took, reference = await _times(page, places), await _times(plain, places)
    label = f"page of {PAGE_ROWS} rows of a {tier} run"
    return [
        Figure(name=f"{label}, p50", value=statistics.median(took), unit="ms"),
        Figure(
            name=f"{label}, p99 (aim {AIM_PAGE_MS:g})",
            value=_p99(took),
            unit="ms",
            reference="p99 by key, without partitions",
            reference_value=_p99(reference),
        ),
    ]


async def _moves(database: Database, storage: Storage, run_id: UUID, rows: int, folder: Path) -> list[Figure]:
    began = time.monotonic()
    async with database.transaction() as session:
        await session.execute(text(f"COPY fact_whole TO '{folder / 'copy.csv'}' WITH CSV"))
    out_s = time.monotonic() - began
    began = time.monotonic()
    async with database.transaction() as session:
        await session.execute(text("CREATE TABLE copied (LIKE fact_whole INCLUDING ALL)"))
        await session.execute(text(f"COPY copied FROM '{folder / 'copy.csv'}' WITH CSV"))
    in_s = time.monotonic() - began
    began = time.monotonic()
    moved = await to_warm(database, storage, run_id, folder=folder)
    warm_s = time.monotonic() - began
    warm = await _pages(database, storage, run_id, rows, "warm")
    began = time.monotonic()
    await to_hot(database, storage, run_id)
    hot_s = time.monotonic() - began
    size = (folder / "copy.csv").stat().st_size
    copy = "COPY to a file"
    return [
        Figure(name="hot to warm", value=rows / warm_s, unit="rows/s", reference=copy, reference_value=rows / out_s),
        Figure(
            name="warm to hot",
            value=rows / hot_s,
            unit="rows/s",
            reference="COPY from a file, with the indexes",
            reference_value=rows / in_s,
        ),
        Figure(
            name="bytes of a warm row",
            value=moved.size_bytes / rows,
            unit="bytes",
            reference="in CSV",
            reference_value=size / rows,
        ),
        *warm,
    ]


async def _times(read: Callable[[int], Awaitable[None]], places: list[int]) -> list[float]:
    took = []
    for place in places:
        began = time.monotonic()
        await read(place)
        took.append((time.monotonic() - began) * 1e3)
    return took


def _p99(values: list[float]) -> float:
    return sorted(values)[round(0.99 * (len(values) - 1))]


_FILL = """
INSERT INTO fact (run_id, phase, ordinal, sample, repeat, turn, member, stream, status, origin, tries, finish_reason,
                  prompt_tokens, completion_tokens, token_source, scheduled_ns, sent_ns, queue_ns, ttft_user_ns,
                  ttft_service_ns, tpot_ns, latency_ns, stream_end_ns, request_sha256, claim_id, chunk, row)
SELECT :run, 1, n, n, 0, 0, 0, 0, 'ok', 'live', 1, 'stop', 400, 20 + n % 50, 'usage', n * 1000000, n * 1000000 + 5,
       5, 30000000 + n % 1000, 30000000 + n % 977, 1000000.5 + n % 13, 60000000 + n % 4001, n * 1000000 + 60000000,
       encode(sha256(CAST(CAST(n AS text) AS bytea)), 'hex'), :claim, n / 256, n % 256
FROM generate_series(0, CAST(:rows AS bigint) - 1) AS n
"""

_PLAIN_PAGE = """
SELECT * FROM fact_whole WHERE run_id = :run AND (phase, ordinal) > (1, :place) ORDER BY phase, ordinal LIMIT :limit
"""

if __name__ == "__main__":
    main()
