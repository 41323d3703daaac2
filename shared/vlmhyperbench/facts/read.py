"""Read a run's facts with their payloads and samples: the one read path, for live, finished and child runs alike."""

from __future__ import annotations

import asyncio
import hashlib
import io
from collections.abc import Collection, Sequence
from typing import Literal, TypeAlias
from uuid import UUID

import polars
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncSession

from vlmhyperbench.db import chunks, manifests, runs
from vlmhyperbench.db.engine import Database
from vlmhyperbench.db.views import ChunkView, SampleManifestView
from vlmhyperbench.domain.states import PHASES_UNCOUNTED
from vlmhyperbench.errors import Conflict, NotFound
from vlmhyperbench.facts.schema import PAYLOAD_COLUMNS, polars_schema
from vlmhyperbench.storage import Storage

FACT_COLUMNS: dict[str, str] = {
    "phase": "i4",
    "ordinal": "i8",
    "phase_kind": "str",
    "is_kept": "bool",
    "run_id": "str",  # the run that measured it
    "source_phase": "i4",  # its phase there
    "sample": "i8",
    "repeat": "i4",
    "turn": "i4",
    "member": "i4",
    "stream": "i4",
    "status": "str",
    "origin": "str",
    "failure": "str?",
    "error_code": "str?",
    "http_status": "i4?",
    "finish_reason": "str?",
    "tries": "i4",
    "prompt_tokens": "i4?",
    "completion_tokens": "i4?",
    "token_source": "str?",
    "scheduled_ns": "i8?",
    "sent_ns": "i8?",
    "queue_ns": "i8?",
    "ttft_user_ns": "i8?",
    "ttft_service_ns": "i8?",
    "tpot_ns": "f8?",
    "latency_ns": "i8?",
    "stream_end_ns": "i8?",
    "request_sha256": "str",
    "text_sha256": "str?",
    "claim_id": "str",
    "chunk": "i4",
    "row": "i4",
}
"""Columns that come from the database, in the notation of `facts.schema`."""

_SAMPLES = ("sample", "repeat")
_BATCH_ROWS = 10_000
_PLACE = ("run_id", "claim_id", "source_phase", "chunk", "row")

Phases: TypeAlias = Literal["counting", "all"] | Collection[int]


async def read_facts(
    database: Database,
    storage: Storage,
    run_id: UUID,
    *,
    phases: Phases = "counting",
    payload: bool | Sequence[str] = True,
    ordinals: Sequence[int] | None = None,
) -> polars.DataFrame:
    """Return one row per fact, own and kept, by (phase, ordinal).

    Columns: `FACT_COLUMNS`; those of `PAYLOAD_COLUMNS` (or the ones that `payload` names) from the chunks, null where
    a fact has none; where the run has a sample manifest all of its columns but `index` and `error`: `key`, `question`,
    `references`, `images`, `metadata` and one `group.<name>` per group column.

    `counting` phases are COMPLETE or STOPPED ones and open accuracy phases, without those of
    `PHASES_UNCOUNTED`. A kept row
    has the phase, ordinal, sample and repeat of this run; `run_id` and `claim_id` say who measured it. With `ordinals`
    only these rows are read, and only the chunks that they lie in.

    Raises:
        NotFound: there is no such run, or a file of it is missing from storage.
        Conflict: a file in storage is not the one that was committed; code `storage_corrupt`.
        Unavailable: database or storage do not answer.
    """
    wanted = PAYLOAD_COLUMNS if payload is True else tuple(payload or ())
    async with database.transaction() as session:
        run = await runs.get(session, run_id)
        if run is None:
            raise NotFound(f"There is no run {run_id}.")
        manifest = await manifests.get(session, run.manifest_id) if run.manifest_id else None
        samples = manifest.samples if manifest else 0
        facts = await _read_rows(session, run_id, phases, samples=samples, ordinals=ordinals)
        of_facts = await _read_chunks(session, facts) if wanted else []
    return await asyncio.to_thread(_join, storage, facts, of_facts, wanted, manifest)


async def _read_rows(
    session: AsyncSession, run_id: UUID, phases: Phases, *, samples: int, ordinals: Sequence[int] | None
) -> polars.DataFrame:
    mode = phases if isinstance(phases, str) else "listed"
    values = {
        "run": run_id,
        "mode": mode,
        "uncounted": sorted(PHASES_UNCOUNTED),
        "phases": [] if isinstance(phases, str) else list(phases),
        "samples": samples,
        "ordinals": None if ordinals is None else list(ordinals),
    }
    schema = polars_schema(FACT_COLUMNS)
    batches = [polars.DataFrame(schema=schema)]
    stream = await session.stream(_FACTS, values, execution_options={"yield_per": _BATCH_ROWS})
    batches += [
        polars.DataFrame([tuple(row) for row in batch], schema=schema, orient="row")
        async for batch in stream.partitions(_BATCH_ROWS)
    ]
    return polars.concat(batches).sort("phase", "ordinal")


async def _read_chunks(session: AsyncSession, facts: polars.DataFrame) -> list[ChunkView]:
    """Read the manifests of the chunks that these facts lie in."""
    keys = facts.select("run_id", "claim_id", "source_phase", "chunk").unique().rows()
    measured_by = {UUID(run_id) for run_id, *_ in keys}
    found = [chunk for run_id in sorted(measured_by) for chunk in await chunks.of_run(session, run_id)]
    needed = set(keys)
    return [c for c in found if (str(c.run_id), str(c.claim_id), c.phase, c.no) in needed]


def _join(
    storage: Storage,
    facts: polars.DataFrame,
    chunk_views: Sequence[ChunkView],
    wanted: Sequence[str],
    manifest: SampleManifestView | None,
) -> polars.DataFrame:
    if wanted:
        facts = facts.join(_read_payloads(storage, chunk_views, wanted), on=_PLACE, how="left", maintain_order="left")
    if manifest is not None:
        content = _verified(storage, manifest.storage_key, manifest.id)
        samples = polars.read_parquet(io.BytesIO(content)).rename({"index": "sample"}).drop("error", strict=False)
        facts = facts.join(samples, on="sample", how="left", maintain_order="left")
    return facts


def _read_payloads(storage: Storage, chunk_views: Sequence[ChunkView], wanted: Sequence[str]) -> polars.DataFrame:
    place = polars_schema({name: FACT_COLUMNS[name] for name in _PLACE})
    every = polars_schema()
    frames = [polars.DataFrame(schema={**place, **{name: every[name] for name in wanted}})]
    for chunk in chunk_views:
        content = _verified(storage, chunk.storage_key, chunk.sha256)
        keys = {"run_id": str(chunk.run_id), "claim_id": str(chunk.claim_id), "chunk": chunk.no}
        rows = polars.read_parquet(io.BytesIO(content), columns=list(wanted)).with_row_index("row")
        values = [polars.lit(value).alias(name) for name, value in (keys | {"source_phase": chunk.phase}).items()]
        named = rows.with_columns(*values)
        frames.append(named.select([polars.col(name).cast(kind) for name, kind in frames[0].schema.items()]))
    return polars.concat(frames)


def _verified(storage: Storage, key: str, sha256: str) -> bytes:
    content = storage.get(key)
    if hashlib.sha256(content).hexdigest() != sha256:
        raise Conflict(
            f"{key} in storage is not the file that was committed.",
            cure="Restore it from a backup; the run cannot be trusted as it is.",
            code="storage_corrupt",
        )
    return content


_COMMON = ", ".join(
    f"CAST(f.{name} AS text) AS {name}" if name in {"run_id", "claim_id"} else f"f.{name}"
    for name in FACT_COLUMNS
    if name not in {"phase", "ordinal", "phase_kind", "is_kept", "source_phase", *_SAMPLES}
)

_SELECTED = ", ".join(FACT_COLUMNS)

_FACTS = text(f"""
WITH part AS (
    SELECT no AS phase, kind AS phase_kind, state, run_id AS source_run_id, no AS source_phase, false AS is_kept
    FROM phase WHERE run_id = :run
    UNION ALL
    SELECT k.phase, coalesce(own.kind, source.kind), coalesce(own.state, source.state), k.source_run_id,
           k.source_phase, true
    FROM kept_phase k
    JOIN phase source ON source.run_id = k.source_run_id AND source.no = k.source_phase
    LEFT JOIN phase own ON own.run_id = k.run_id AND own.no = k.phase
    WHERE k.run_id = :run
), chosen AS (
    SELECT * FROM part
    WHERE :mode = 'all' OR (:mode = 'listed' AND phase = ANY(CAST(:phases AS integer[]))) OR (
        :mode = 'counting' AND phase_kind <> ALL(CAST(:uncounted AS text[]))
        AND (state IN ('COMPLETE', 'STOPPED') OR (state = 'OPEN' AND phase_kind = 'accuracy'))
    )
), found AS (
    SELECT c.phase, f.ordinal, c.phase_kind, c.is_kept, c.source_phase, f.sample, f.repeat, {_COMMON}
    FROM chosen c JOIN fact f ON f.run_id = c.source_run_id AND f.phase = c.source_phase
    UNION ALL
    SELECT c.phase, k.ordinal, c.phase_kind, true, k.source_phase,
           CASE WHEN c.phase_kind = 'accuracy' AND :samples > 0 THEN k.ordinal % :samples ELSE f.sample END,
           CASE WHEN c.phase_kind = 'accuracy' AND :samples > 0 THEN k.ordinal / :samples ELSE f.repeat END, {_COMMON}
    FROM chosen c
    JOIN kept_fact k ON k.run_id = :run AND k.phase = c.phase AND NOT c.is_kept
    JOIN fact f ON f.run_id = k.source_run_id AND f.phase = k.source_phase AND f.ordinal = k.source_ordinal
)
SELECT {_SELECTED} FROM found WHERE CAST(:ordinals AS bigint[]) IS NULL OR ordinal = ANY(CAST(:ordinals AS bigint[]))
""")  # noqa: S608 - made of this module's own column names
