"""Read the token events of a run's own answers, batch by batch, so that memory does not grow with the run."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from uuid import UUID

import polars

from vlmhyperbench.db import chunks
from vlmhyperbench.db.views import ChunkView
from vlmhyperbench.runtime import Runtime
from vlmhyperbench.summaries.records import ClaimEvidence, TokenEvents
from vlmhyperbench.summaries.spans import ANSWERED, clock_offsets, grid_over, on_one_clock, own_rows
from vlmhyperbench.summaries.tokens import COLUMNS, LONGEST_GAP, fold, no_events

BATCH = 16
"""Number of chunks that are opened at once, with at most 4,096 answers."""
_LOCATION = ("claim_id", "source_phase", "chunk", "row")


async def read_events(
    runtime: Runtime, run_id: UUID, facts: polars.DataFrame, claims: Sequence[ClaimEvidence]
) -> tuple[polars.DataFrame, TokenEvents]:
    """Return the facts with the longest gap of each answer, and its events folded.

    Raises:
        Damaged: a file of the run is missing from storage, or is not the one that was committed.
        Unavailable: database or storage do not answer.
    """
    offsets = clock_offsets(claims)
    rows = on_one_clock(own_rows(facts), offsets)
    grid = None if rows is None else grid_over(rows)
    async with runtime.database.transaction() as session:
        all_chunks = await chunks.of_run(session, run_id)
    wanted = own_rows(facts).filter(ANSWERED).select(_LOCATION)
    needed = set(wanted.select(_LOCATION[:-1]).unique().rows())
    own = [chunk for chunk in all_chunks if (str(chunk.claim_id), chunk.phase, chunk.no) in needed]
    paths = await runtime.storage.open_all([(chunk.storage_key, chunk.sha256) for chunk in own])
    opened = list(zip(own, paths, strict=True))
    events, longest = await asyncio.to_thread(_fold_all, wanted, opened, no_events(grid), offsets)
    return facts.join(longest, on=_LOCATION, how="left", maintain_order="left"), events


def _fold_all(
    wanted: polars.DataFrame,
    opened: Sequence[tuple[ChunkView, Path]],
    events: TokenEvents,
    offsets: dict[str, int],
) -> tuple[TokenEvents, polars.DataFrame]:
    """Fold the events of the wanted answers, and return the longest gap of each."""
    longest = [wanted.head(0).with_columns(polars.lit(None, dtype=polars.Float64).alias(LONGEST_GAP))]
    for batch in (opened[i : i + BATCH] for i in range(0, len(opened), BATCH)):
        rows = polars.concat([_rows_of(chunk, path, wanted.schema) for chunk, path in batch])
        rows = rows.join(wanted, on=_LOCATION, how="semi", maintain_order="left")
        events, gaps = fold(events, rows, offsets)
        longest.append(rows.select(*_LOCATION, gaps))
    return events, polars.concat(longest)


def _rows_of(chunk: ChunkView, path: Path, location: polars.Schema) -> polars.DataFrame:
    rows = polars.read_parquet(path.read_bytes(), columns=list(COLUMNS)).with_row_index("row")
    named = {"claim_id": str(chunk.claim_id), "source_phase": chunk.phase, "chunk": chunk.no}
    values = [polars.lit(value).alias(name) for name, value in named.items()]
    return rows.with_columns(values).with_columns(polars.col(name).cast(location[name]) for name in _LOCATION)
