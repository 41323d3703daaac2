"""Read when the tokens of a run's own answers came, chunk by chunk, so that no run is too long for it."""

from __future__ import annotations

import asyncio
import hashlib
import io
from collections.abc import Sequence
from uuid import UUID

import polars

from vlmhyperbench.db import chunks
from vlmhyperbench.db.views import ChunkView
from vlmhyperbench.errors import Conflict
from vlmhyperbench.reports.records import ClaimEvidence, TokenEvents
from vlmhyperbench.reports.spans import ANSWERED, clock_offsets, grid_over, on_one_clock, own_rows
from vlmhyperbench.reports.tokens import COLUMNS, LONGEST_GAP, fold, no_events
from vlmhyperbench.runtime import Runtime
from vlmhyperbench.storage import Storage

BATCH = 16
"""Chunks that are opened at once: at most 4,096 answers."""
_PLACE = ("claim_id", "source_phase", "chunk", "row")


async def read_events(
    runtime: Runtime, run_id: UUID, facts: polars.DataFrame, claims: Sequence[ClaimEvidence]
) -> tuple[polars.DataFrame, TokenEvents]:
    """Return the facts with the longest gap of each answer, and its events folded.

    Raises:
        NotFound: a file of the run is missing.
        Conflict: a file is not the one that was committed.
        Unavailable: database or storage do not answer.
    """
    offsets = clock_offsets(claims)
    rows = on_one_clock(own_rows(facts), offsets)
    grid = None if rows is None else grid_over(rows)
    async with runtime.database.transaction() as session:
        found = await chunks.of_run(session, run_id)
    return await asyncio.to_thread(_fold_all, runtime.storage, facts, found, no_events(grid), offsets)


def _fold_all(
    storage: Storage,
    facts: polars.DataFrame,
    found: Sequence[ChunkView],
    events: TokenEvents,
    offsets: dict[str, int],
) -> tuple[polars.DataFrame, TokenEvents]:
    wanted = own_rows(facts).filter(ANSWERED).select(_PLACE)
    needed = set(wanted.select(_PLACE[:-1]).unique().rows())
    longest = [wanted.head(0).with_columns(polars.lit(None, dtype=polars.Float64).alias(LONGEST_GAP))]
    own = [chunk for chunk in found if (str(chunk.claim_id), chunk.phase, chunk.no) in needed]
    for some in (own[i : i + BATCH] for i in range(0, len(own), BATCH)):
        rows = polars.concat([_opened(storage, chunk, wanted.schema) for chunk in some])
        rows = rows.join(wanted, on=_PLACE, how="semi", maintain_order="left")
        events, gaps = fold(events, rows, offsets)
        longest.append(rows.select(*_PLACE, gaps))
    return facts.join(polars.concat(longest), on=_PLACE, how="left", maintain_order="left"), events


def _opened(storage: Storage, chunk: ChunkView, place: polars.Schema) -> polars.DataFrame:
    content = storage.get(chunk.storage_key)
    if hashlib.sha256(content).hexdigest() != chunk.sha256:
        raise Conflict(f"The file {chunk.storage_key} is not the one that was committed.", code="storage_corrupt")
    rows = polars.read_parquet(io.BytesIO(content), columns=list(COLUMNS)).with_row_index("row")
    named = {"claim_id": str(chunk.claim_id), "source_phase": chunk.phase, "chunk": chunk.no}
    values = [polars.lit(value).alias(name) for name, value in named.items()]
    return rows.with_columns(values).with_columns(polars.col(name).cast(place[name]) for name in _PLACE)
