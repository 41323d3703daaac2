"""Rows of runs that left Postgres: read from their Parquet files as if they were still in the table of facts."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from uuid import UUID

import polars

from vlmhyperbench.db import fact_rows, tiers
from vlmhyperbench.db.engine import AsyncSession
from vlmhyperbench.db.fact_copies import COPIED_COLUMNS
from vlmhyperbench.db.fact_rows import FACT_COLUMNS, Part, Phases, Reference
from vlmhyperbench.db.results import Wanted
from vlmhyperbench.db.views import RunTierView
from vlmhyperbench.facts.schema import polars_schema
from vlmhyperbench.storage import Storage

_NUMBERED = ("accuracy", "member")
"""Kinds of phases whose ordinals are those of the run's answers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WarmRows:
    """What a run has of its rows outside Postgres."""

    parts: Sequence[Part]
    references: Sequence[Reference]
    files: Mapping[UUID, Path]
    """Run that measured the rows → verified Parquet file."""


async def warm_rows(
    session: AsyncSession, storage: Storage, run_id: UUID, phases: Phases, sources: Sequence[RunTierView]
) -> WarmRows:
    """Open the files that have rows of a run; `sources` are its `tiers.of_sources`, `session` is of one snapshot.

    Raises:
        NotReady: a run is cold, or is being restored.
        Damaged: a file is missing, or has other content.
        Unavailable: database or storage do not respond.
    """
    tiers.refuse_cold(sources)
    measured_by = [tier.run_id for tier in sources]
    opened = await storage.open_all([(tier.facts_key or "", tier.facts_sha256 or "") for tier in sources])
    return WarmRows(
        parts=await fact_rows.parts(session, run_id, phases=phases, sources=measured_by),
        references=await fact_rows.references(session, run_id, phases=phases, sources=measured_by),
        files=dict(zip(measured_by, opened, strict=True)),
    )


def frame_of(warm: WarmRows, *, samples: int, ordinals: Sequence[int] | None = None) -> polars.DataFrame:
    """Return these rows with the columns of `FACT_COLUMNS`, as `fact_rows.batches` reads those in Postgres."""
    schema = polars_schema(FACT_COLUMNS)
    rows = [_of_part(warm, part) for part in warm.parts]
    rows += [_of_references(warm, source, samples=samples) for source in warm.files]
    frame = _joined(rows, schema)
    if ordinals is not None:
        frame = frame.filter(polars.col("ordinal").is_in(list(ordinals)))
    return frame.collect()


async def given_page(warm: WarmRows, wanted: Wanted, *, samples: int) -> str:
    """Return at least the rows of a page that are in files, as JSON for `db.results.page`."""
    return await asyncio.to_thread(_given_page, warm, wanted, samples)


async def given_all(warm: WarmRows) -> str:
    """Return all of these rows as JSON, with the columns that decide on their reuse."""
    return await asyncio.to_thread(_given_all, warm)


async def claim_ids(warm: WarmRows) -> list[str]:
    """Return the ids of the claims that measured these rows."""
    return await asyncio.to_thread(_claim_ids, warm)


def _claim_ids(warm: WarmRows) -> list[str]:
    frames = [_of_part(warm, part) for part in warm.parts]
    frames += [_of_references(warm, source, samples=0) for source in warm.files]
    rows = _joined(frames, polars_schema({"claim_id": FACT_COLUMNS["claim_id"]}))
    return [str(claim_id) for (claim_id,) in rows.unique().collect().rows()]


def _given_page(warm: WarmRows, wanted: Wanted, samples: int) -> str:
    """Select rows by the conditions of the page, so that the first of each phase are enough to fill it."""
    phase, ordinal = wanted.after
    frames = []
    for part in warm.parts:
        if part.phase < phase:
            continue
        rows = _of_part(warm, part)
        if part.phase == phase:
            rows = rows.filter(polars.col("ordinal") > ordinal)
        is_numbered = part.phase_kind in _NUMBERED and samples > 0
        own = polars.col("ordinal") % samples if is_numbered else polars.col("sample")
        chosen = _chosen(rows, wanted, own).sort("ordinal").head(wanted.limit)
        frames.append(chosen.with_columns(phase=polars.col("source_phase")))
    for source in warm.files:
        rows = _of_references(warm, source, samples=samples)
        is_after = (polars.col("phase") > phase) | ((polars.col("phase") == phase) & (polars.col("ordinal") > ordinal))
        chosen = _chosen(rows.filter(is_after), wanted, polars.col("sample")).sort("phase", "ordinal")
        originals = {"phase": "source_phase", "ordinal": "source_ordinal", "sample": "_sample", "repeat": "_repeat"}
        frames.append(chosen.head(wanted.limit).with_columns(**{k: polars.col(v) for k, v in originals.items()}))
    return _as_json(frames, tuple(COPIED_COLUMNS))


def _given_all(warm: WarmRows) -> str:
    columns = ("run_id", "phase", "ordinal", "repeat", "request_sha256", "status", "error_code", "claim_id")
    wanted = []
    for source in warm.files:
        phases = {part.source_phase for part in warm.parts if part.source_run_id == source}
        phases |= {row.source_phase for row in warm.references if row.source_run_id == source}
        wanted.append(_scan(warm, source).filter(polars.col("phase").is_in(sorted(phases))))
    return _as_json(wanted, columns)


def _as_json(frames: Sequence[polars.LazyFrame], columns: Sequence[str]) -> str:
    schema = polars_schema({name: COPIED_COLUMNS[name] for name in columns})
    rows = _joined(frames, schema).unique(["run_id", "phase", "ordinal"]).collect()
    return json.dumps(rows.to_dicts(), allow_nan=False)


def _joined(frames: Sequence[polars.LazyFrame], schema: polars.Schema) -> polars.LazyFrame:
    columns = [polars.col(name).cast(kind) for name, kind in schema.items()]
    return polars.concat([polars.LazyFrame(schema=schema), *(frame.select(columns) for frame in frames)])


def _scan(warm: WarmRows, source: UUID) -> polars.LazyFrame:
    return polars.scan_parquet(warm.files[source], glob=False)


def _of_part(warm: WarmRows, part: Part) -> polars.LazyFrame:
    rows = _scan(warm, part.source_run_id).filter(polars.col("phase") == part.source_phase)
    return rows.with_columns(
        phase=polars.lit(part.phase),
        phase_kind=polars.lit(part.phase_kind),
        is_reused=polars.lit(part.is_reused),
        source_phase=polars.lit(part.source_phase),
    )


def _of_references(warm: WarmRows, source: UUID, *, samples: int) -> polars.LazyFrame:
    """Return the single rows of one source; sample and repeat follow from the ordinal in the run that reuses them."""
    listed = [asdict(row) | {"source_run_id": str(source)} for row in warm.references if row.source_run_id == source]
    kinds = {"phase": "i4", "ordinal": "i8", "phase_kind": "str", "source_phase": "i4", "source_ordinal": "i8"}
    keys = (
        polars.LazyFrame(listed, schema_overrides=polars_schema(kinds))
        if listed
        else polars.LazyFrame(schema=polars_schema(kinds))
    )
    rows = _scan(warm, source).rename({"phase": "source_phase", "ordinal": "source_ordinal"})
    joined = keys.select(list(kinds)).join(rows, on=["source_phase", "source_ordinal"], how="inner")
    is_numbered = polars.col("phase_kind").is_in(_NUMBERED) & polars.lit(samples > 0)
    per_repeat = max(samples, 1)
    return joined.with_columns(
        is_reused=polars.lit(value=True),
        _sample=polars.col("sample"),
        _repeat=polars.col("repeat"),
        sample=polars.when(is_numbered).then(polars.col("ordinal") % per_repeat).otherwise(polars.col("sample")),
        repeat=polars.when(is_numbered).then(polars.col("ordinal") // per_repeat).otherwise(polars.col("repeat")),
    )


def _chosen(rows: polars.LazyFrame, wanted: Wanted, own_sample: polars.Expr) -> polars.LazyFrame:
    """Keep the rows that pass the page's conditions, which are those of `db.results`."""
    is_ok, is_models = polars.col("status") == "ok", polars.col("failure").eq_missing("model")
    outcomes = {
        "answered": is_ok,
        "model_failure": ~is_ok & is_models,
        "infrastructure_failure": ~is_ok & ~is_models,
    }
    if wanted.status is not None:
        rows = rows.filter(polars.col("status") == wanted.status.value)
    if wanted.outcome is not None:
        rows = rows.filter(outcomes[wanted.outcome])
    if wanted.samples is not None:
        rows = rows.filter(own_sample.is_in(list(wanted.samples)))
    return rows
