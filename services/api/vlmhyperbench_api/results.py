"""`/results`: the request records of a run with answers and scores, in order, with filters."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Literal, get_args
from uuid import UUID

from fastapi import APIRouter, Query
from pydantic import BaseModel, ConfigDict, Field

from vlmhyperbench.db import manifests, measures, runs
from vlmhyperbench.db.engine import Database
from vlmhyperbench.db.results import ResultRow, Wanted
from vlmhyperbench.db.views import MeasureManifestView, RunView
from vlmhyperbench.domain.states import FactStatus
from vlmhyperbench.domain.units import NS_PER_MS
from vlmhyperbench.errors import Damaged, NotFound
from vlmhyperbench.facts.pages import read_page
from vlmhyperbench.storage import Storage
from vlmhyperbench.wire.base import Page
from vlmhyperbench.wire.live import MAX_SEQ
from vlmhyperbench.wire.results import DamagedFile, Result, SampleOutcome
from vlmhyperbench_api.bodies import StrictRoute
from vlmhyperbench_api.dependencies import CursorText, PageLimit, RuntimeOf, any_case, read_cursor, write_cursor
from vlmhyperbench_api.ids import RunId
from vlmhyperbench_api.replicas import ListDatabase
from vlmhyperbench_api.security import Principal, requires

router = APIRouter(prefix="/results", tags=["results"], route_class=StrictRoute)

BYTES_PER_MB = 1024 * 1024

Reader = Annotated[Principal, requires("run:read")]
GroupValue = Annotated[str | None, Query(max_length=200)]


class Position(BaseModel):
    """Position of the last row of a page."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    phase: int = Field(ge=0, lt=2**31)
    ordinal: int = Field(ge=-1, le=MAX_SEQ)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Opened:
    """Verified files by key, and the damaged ones."""

    paths: Mapping[str, Path]
    damaged: Mapping[str, DamagedFile]


@router.get("")
async def list_results(
    run_id: RunId,
    principal: Reader,
    database: ListDatabase,
    runtime: RuntimeOf,
    status: Annotated[FactStatus | None, any_case(*FactStatus)] = None,
    outcome: Annotated[SampleOutcome | None, any_case(*get_args(SampleOutcome))] = None,
    doc_class: GroupValue = None,
    question_type: GroupValue = None,
    prompts: bool = False,
    limit: PageLimit = 50,
    cursor: CursorText = None,
) -> Page[Result]:
    """List the counted requests of a run with question, answer, timing and scores; with `prompts`, as they were sent.

    A result whose answer or scores are in a damaged file is listed without them, and names the file in `damaged`.
    """
    after = read_cursor(cursor, Position)
    async with database.transaction() as session:
        run = await runs.get(session, run_id, project_id=principal.project_id)
    if run is None:
        raise NotFound(f"There is no run {run_id}.", cure="List the runs to see which there are.")
    wanted = {"doc_class": doc_class, "question_type": question_type}
    groups = {name: text for name, text in wanted.items() if text is not None}
    return await results_page(
        database,
        runtime.storage,
        run,
        after=after,
        limit=limit,
        status=status,
        outcome=outcome,
        groups=groups,
        prompts=prompts,
    )


async def results_page(
    database: Database,
    storage: Storage,
    run: RunView,
    *,
    after: Position | None = None,
    limit: int,
    status: FactStatus | None = None,
    outcome: SampleOutcome | None = None,
    groups: Mapping[str, str] = MappingProxyType({}),
    prompts: bool = False,
) -> Page[Result]:
    """Read a page of a run's results, in their order."""
    async with database.transaction() as session:
        manifest = await manifests.get(session, run.manifest_id) if run.manifest_id else None
    samples_path = await storage.open(manifest.storage_key, manifest.id) if manifest else None
    samples = await _samples(samples_path, groups)
    position = (after.phase, after.ordinal) if after else (-1, -1)
    rows = Wanted(after=position, limit=limit, status=status, outcome=outcome, samples=samples)
    async with database.snapshot() as session:
        page = await read_page(session, storage, run.id, rows)
        files = await measures.of_run(session, run.id) if page else []
    items = await _joined(storage, run.id, page, samples_path, files, prompts=prompts) if page else []
    last = page[-1] if len(page) == limit else None
    return Page[Result](
        items=items, next=write_cursor(Position(phase=last.phase, ordinal=last.ordinal)) if last else None
    )


async def _samples(samples_path: Path | None, filters: Mapping[str, str]) -> list[int] | None:
    """Return the indices of samples that pass the filters, or None without filters."""
    if not filters:
        return None
    if samples_path is None:
        return []
    from vlmhyperbench_api.samples import samples_where  # imports polars on first use

    return await asyncio.to_thread(samples_where, samples_path, filters)


async def _joined(
    storage: Storage,
    run_id: UUID,
    page: Sequence[ResultRow],
    samples_path: Path | None,
    files: Sequence[MeasureManifestView],
    *,
    prompts: bool,
) -> list[Result]:
    """Join rows with their payloads and scores, and name the damaged files of each row."""
    chunks = {row.storage_key: row.chunk_sha256 for row in page if row.storage_key and row.chunk_sha256}
    answers = await _open(storage, chunks, holds="answer")
    scores = await _open(storage, {file.storage_key: file.sha256 for file in files}, holds="scores")
    return await asyncio.to_thread(_join, run_id, page, samples_path, files, answers, scores, prompts=prompts)


async def _open(storage: Storage, hashes: Mapping[str, str], *, holds: Literal["answer", "scores"]) -> _Opened:
    """Open files, given by key and SHA-256; the damaged ones are described instead."""
    opened = {key: await _open_one(storage, key, sha256, holds) for key, sha256 in hashes.items()}
    return _Opened(
        paths={key: path for key, path in opened.items() if isinstance(path, Path)},
        damaged={key: file for key, file in opened.items() if isinstance(file, DamagedFile)},
    )


async def _open_one(storage: Storage, key: str, sha256: str, holds: Literal["answer", "scores"]) -> Path | DamagedFile:
    try:
        return await storage.open(key, sha256)
    except Damaged as error:
        return DamagedFile(holds=holds, key=key, message=error.message, cure=error.cure)


def _join(
    run_id: UUID,
    page: Sequence[ResultRow],
    samples_path: Path | None,
    files: Sequence[MeasureManifestView],
    answers: _Opened,
    scores: _Opened,
    *,
    prompts: bool,
) -> list[Result]:
    from vlmhyperbench_api import samples  # imports polars on first use

    questions = samples.samples_at(samples_path, [row.sample for row in page]) if samples_path else {}
    readable = [(file, scores.paths[file.storage_key]) for file in files if file.storage_key in scores.paths]
    measures_of = samples.measures(readable, page)
    items = []
    for row, payload in zip(page, samples.payloads(answers.paths, page, prompts=prompts), strict=True):
        fact, question = row.fact, questions.get(row.sample)
        damaged = [file for key, file in answers.damaged.items() if key == row.storage_key]
        items.append(
            Result(
                run_id=run_id,
                phase=row.phase,
                ordinal=row.ordinal,
                sample=row.sample,
                repeat=row.repeat,
                key=question.key if question else None,
                question=question.question if question else None,
                references=question.references if question else [],
                group=dict(question.group) if question else {},
                images=question.images if question else [],
                status=fact.status.value,
                outcome=_outcome(fact.status, fact.failure),
                error_code=fact.error_code,
                error=payload["error"],
                finish_reason=fact.finish_reason,
                text=payload["text"],
                reasoning=payload["reasoning"],
                prompt_tokens=fact.prompt_tokens,
                completion_tokens=fact.completion_tokens,
                ttft_ms=_ms(fact.ttft_user_ns),
                tpot_ms=_ms(fact.tpot_ns),
                latency_ms=_ms(fact.latency_ns),
                is_combined=fact.origin == "combined",
                vram_peak_mb=_megabytes(payload["vram_peak_bytes"]),
                vram_delta_mb=_megabytes(payload["vram_peak_bytes"], payload["vram_before_bytes"]),
                measures=measures_of.get((row.phase, row.ordinal), []),
                prompt=payload["prompt"],
                damaged=[*damaged, *scores.damaged.values()],
            )
        )
    return items


def _outcome(status: FactStatus, failure: str | None) -> SampleOutcome:
    if status is FactStatus.OK:
        return "answered"
    return "model_failure" if failure == "model" else "infrastructure_failure"


def _megabytes(value_bytes: int | None, before_bytes: int | None = 0) -> float | None:
    return None if value_bytes is None or before_bytes is None else (value_bytes - before_bytes) / BYTES_PER_MB


def _ms(value_ns: float | None) -> float | None:
    return None if value_ns is None else value_ns / NS_PER_MS
