"""Read a run's facts with their payloads and samples: the only read path, for runs of any state and tier."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Sequence
from pathlib import Path
from uuid import UUID

import polars

from vlmhyperbench.db import chunks, fact_rows, manifests, runs, tiers
from vlmhyperbench.db.engine import AsyncSession, Database
from vlmhyperbench.db.fact_rows import FACT_COLUMNS, Phases
from vlmhyperbench.db.views import ChunkView
from vlmhyperbench.errors import NotFound
from vlmhyperbench.facts.schema import PAYLOAD_COLUMNS, polars_schema
from vlmhyperbench.facts.tiered import frame_of, warm_rows
from vlmhyperbench.storage import Storage

_LOCATION = ("run_id", "claim_id", "source_phase", "chunk", "row")
"""Columns that identify the row of a chunk."""


async def read_facts(
    database: Database,
    storage: Storage,
    run_id: UUID,
    *,
    phases: Phases = "counting",
    payload: bool | Sequence[str] = True,
    ordinals: Sequence[int] | None = None,
) -> polars.DataFrame:
    """Return one row per fact, own and reused, sorted by phase and ordinal.

    Columns: `FACT_COLUMNS`; those of `PAYLOAD_COLUMNS` (or the ones that `payload` names) from the chunks, null if a
    fact has none; if the run has a sample manifest, all of its columns except `index` and `error`: `key`, `question`,
    `references`, `images`, `metadata` and one `group.<name>` per group column.

    `counting` phases are those whose rows are answers of the run: COMPLETE or STOPPED ones and open accuracy phases. A
    reused row has the phase, ordinal, sample and repeat of this run; `run_id` and `claim_id` are those of the run that
    measured it. With `ordinals` only these rows and their chunks are read.

    Raises:
        NotFound: there is no such run.
        NotReady: the run, or one whose rows it reuses, is cold.
        Damaged: a file of the run is missing from storage, or has other content.
        Unavailable: database or storage do not respond.
    """
    wanted = PAYLOAD_COLUMNS if payload is True else tuple(payload or ())
    async with database.snapshot() as session:
        run = await runs.get(session, run_id)
        if run is None:
            raise NotFound(f"There is no run {run_id}.")
        manifest = await manifests.get(session, run.manifest_id) if run.manifest_id else None
        samples = manifest.samples if manifest else 0
        facts = await _read_rows(session, run_id, phases, samples=samples, ordinals=ordinals)
        sources = await tiers.of_sources(session, run_id)
        if sources:
            warm = await warm_rows(session, storage, run_id, phases, sources)
            more = await asyncio.to_thread(frame_of, warm, samples=samples, ordinals=ordinals)
            facts = polars.concat([facts, more]).sort("phase", "ordinal")
        of_facts = await _read_chunks(session, facts) if wanted else []
    paths = await storage.open_all([(chunk.storage_key, chunk.sha256) for chunk in of_facts])
    samples_path = await storage.open(manifest.storage_key, manifest.id) if manifest else None
    return await asyncio.to_thread(_join, facts, list(zip(of_facts, paths, strict=True)), wanted, samples_path)


async def _read_rows(
    session: AsyncSession, run_id: UUID, phases: Phases, *, samples: int, ordinals: Sequence[int] | None
) -> polars.DataFrame:
    schema = polars_schema(FACT_COLUMNS)
    batches = fact_rows.batches(session, run_id, phases=phases, samples=samples, ordinals=ordinals)
    frames = [polars.DataFrame(rows, schema=schema, orient="row") async for rows in batches]
    return polars.concat([polars.DataFrame(schema=schema), *frames]).sort("phase", "ordinal")


async def _read_chunks(session: AsyncSession, facts: polars.DataFrame) -> list[ChunkView]:
    """Read the manifests of the chunks that contain these facts."""
    keys = facts.select("run_id", "claim_id", "source_phase", "chunk").unique().rows()
    measured_by = {UUID(run_id) for run_id, *_ in keys}
    read = [chunk for run_id in sorted(measured_by) for chunk in await chunks.of_run(session, run_id)]
    needed = set(keys)
    return [chunk for chunk in read if (str(chunk.run_id), str(chunk.claim_id), chunk.phase, chunk.no) in needed]


def _join(
    facts: polars.DataFrame,
    opened: Sequence[tuple[ChunkView, Path]],
    wanted: Sequence[str],
    samples_path: Path | None,
) -> polars.DataFrame:
    if wanted:
        facts = facts.join(_read_payloads(opened, wanted), on=_LOCATION, how="left", maintain_order="left")
    if samples_path is not None:
        samples = polars.read_parquet(samples_path, glob=False).rename({"index": "sample"}).drop("error", strict=False)
        facts = facts.join(samples, on="sample", how="left", maintain_order="left")
    return facts


def _read_payloads(opened: Sequence[tuple[ChunkView, Path]], wanted: Sequence[str]) -> polars.DataFrame:
    location = polars_schema({name: FACT_COLUMNS[name] for name in _LOCATION})
    payload = polars_schema()
    frames = [polars.DataFrame(schema={**location, **{name: payload[name] for name in wanted}})]
    for chunk, path in opened:
        keys = {"run_id": str(chunk.run_id), "claim_id": str(chunk.claim_id), "chunk": chunk.no}
        content = path.read_bytes()
        known = polars.read_parquet_schema(io.BytesIO(content))
        columns = [name for name in wanted if name in known] or ["ordinal"]
        rows = polars.read_parquet(content, columns=columns)
        # A chunk of an earlier version lacks the columns that later versions added.
        rows = rows.with_columns(polars.lit(None).alias(name) for name in wanted if name not in known)
        rows = rows.with_row_index("row")
        values = [polars.lit(value).alias(name) for name, value in (keys | {"source_phase": chunk.phase}).items()]
        named = rows.with_columns(*values)
        frames.append(named.select([polars.col(name).cast(kind) for name, kind in frames[0].schema.items()]))
    return polars.concat(frames)
