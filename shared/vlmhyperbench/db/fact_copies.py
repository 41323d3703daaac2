"""Copy the rows of a finished run out of the table of facts and back into it, in order and all of them or none."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Sequence
from typing import Any, Final
from uuid import UUID

import psycopg
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncSession

from vlmhyperbench.db.fact_rows import kind_of
from vlmhyperbench.db.queries import table_of
from vlmhyperbench.db.tables import FactRow
from vlmhyperbench_sdk.types import JsonObject

COPIED_COLUMNS: Final = {column.name: kind_of(column) for column in table_of(FactRow).columns}
"""Every column of a fact and its type, in the notation of `facts.schema`."""
BATCH_ROWS: Final = 50_000

_NAMES = ", ".join(COPIED_COLUMNS)
_SELECTED = ", ".join(f"CAST({name} AS text)" if name in {"run_id", "claim_id"} else name for name in COPIED_COLUMNS)


async def ordered(session: AsyncSession, run_id: UUID) -> AsyncGenerator[Sequence[tuple[Any, ...]], None]:
    """Yield the rows of a run by phase and ordinal, in batches of `BATCH_ROWS`."""
    stream = await session.stream(text(_ORDERED), {"run": run_id}, execution_options={"yield_per": BATCH_ROWS})
    try:
        async for batch in stream.partitions(BATCH_ROWS):
            yield [tuple(row) for row in batch]
    finally:
        await stream.close()


async def copy_in(session: AsyncSession, rows: Iterable[tuple[Any, ...]]) -> int:
    """Add rows with the columns of `COPIED_COLUMNS`; return their number."""
    raw = await (await session.connection()).get_raw_connection()
    connection = raw.driver_connection
    if not isinstance(connection, psycopg.AsyncConnection):
        raise TypeError(f"Rows are copied by psycopg, not by {type(connection).__name__}.")
    number = 0
    async with connection.cursor() as cursor, cursor.copy(f"COPY fact ({_NAMES}) FROM STDIN") as copy:
        for row in rows:
            await copy.write_row(row)
            number += 1
    return number


async def delete(session: AsyncSession, run_id: UUID) -> int:
    """Delete the rows of a run and return their number."""
    result = await session.execute(text("DELETE FROM fact WHERE run_id = :run"), {"run": run_id})
    return int(getattr(result, "rowcount", -1))


async def counts(session: AsyncSession, run_id: UUID) -> list[JsonObject]:
    """Count the rows of a run by phase, status and kind of failure."""
    return [dict(row._mapping) for row in await session.execute(text(_COUNTS), {"run": run_id})]  # noqa: SLF001


async def failures(session: AsyncSession, run_id: UUID) -> list[JsonObject]:
    """Group the failed rows of a run as lists of failures do, in each phase."""
    return [dict(row._mapping) for row in await session.execute(text(_FAILURES), {"run": run_id})]  # noqa: SLF001


async def is_read_by_row(session: AsyncSession, run_id: UUID) -> bool:
    """Return whether another run refers to a single row that failed, whose error only the table of facts has."""
    return bool((await session.execute(text(_READ_BY_ROW), {"run": run_id})).scalar_one())


_ORDERED = f"SELECT {_SELECTED} FROM fact WHERE run_id = :run ORDER BY phase, ordinal"  # noqa: S608 - own columns

_COUNTS = """
SELECT phase, status, failure, count(*) AS rows FROM fact WHERE run_id = :run
GROUP BY phase, status, failure ORDER BY phase, status, failure
"""

_FAILURES = """
SELECT phase, min(error) AS error, coalesce(error_code, status) AS error_code, http_status,
       min(failure) AS failure, count(*) AS requests
FROM fact WHERE run_id = :run AND status <> 'ok'
GROUP BY phase, coalesce(error_code, status), http_status, regexp_replace(error, '[0-9]+', '#', 'g')
ORDER BY phase, count(*) DESC, 2
"""

_READ_BY_ROW = "SELECT EXISTS (SELECT FROM reused_fact WHERE source_run_id = :run AND NOT is_ok)"
