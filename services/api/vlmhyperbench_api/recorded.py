"""`/runs/{run_id}/logs` and `/runs/{run_id}/resources`: what claims recorded, by line and over time."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Annotated, get_args
from uuid import UUID

from fastapi import APIRouter, Query

from vlmhyperbench.db import artifacts, evidence, phases
from vlmhyperbench.db.evidence import ClaimOfJob
from vlmhyperbench.db.views import ArtifactView, PhaseView
from vlmhyperbench.errors import Damaged, NotFound
from vlmhyperbench.wire.evidence import LogFile, LogLine, LogLines, LogWriter, ResourceSeries, RunResources, Span
from vlmhyperbench_api.bodies import StrictRoute, check_text
from vlmhyperbench_api.dependencies import RuntimeOf, Session, WholeNumber
from vlmhyperbench_api.ids import ArtifactId, RunId
from vlmhyperbench_api.reading import read_run
from vlmhyperbench_api.sample_rows import run_of
from vlmhyperbench_api.security import Principal, requires

router = APIRouter(prefix="/runs", tags=["runs"], route_class=StrictRoute)

Reader = Annotated[Principal, requires("run:read")]
FileReader = Annotated[Principal, requires("artifact:read")]

MAX_LINES = 2_000
_LINE_CHARACTERS = 4_000
_NS_PER_MS = 1e6


@router.get("/{run_id}/logs")
async def list_logs(run_id: RunId, principal: FileReader, session: Session) -> list[LogFile]:
    """List the logs of a run: of engine, gateway and worker, for each claim that stored them."""
    await read_run(session, run_id, project_id=principal.project_id)
    files = [file for file in await artifacts.of_run(session, run_id) if file.kind == "log"]
    claims = await _claims(session, files)
    return [
        LogFile(
            id=file.id,
            name=file.name,
            of=_writer(file.name),
            claim_id=file.claim_id,
            job=_job(claims.get(file.claim_id)),
            host=_host(claims.get(file.claim_id)),
            size_bytes=file.size_bytes,
            created_at=file.created_at,
        )
        for file in files
    ]


@router.get("/{run_id}/logs/{artifact_id}")
async def read_log(
    run_id: RunId,
    artifact_id: ArtifactId,
    principal: FileReader,
    runtime: RuntimeOf,
    q: Annotated[str | None, Query(max_length=200, description="Only lines that contain this, in any case.")] = None,
    after: Annotated[WholeNumber | None, Query(ge=0, description="Lines after this one; by default the last.")] = None,
    limit: Annotated[WholeNumber, Query(ge=1, le=MAX_LINES)] = 500,
) -> LogLines:
    """Read lines of a log: its last ones, those after a line, or those that contain a text."""
    check_text(q or "", "The query")
    run = await run_of(runtime.database, run_id, principal)
    async with runtime.database.transaction() as session:
        files = await artifacts.of_run(session, run.id)
    file = next((file for file in files if file.id == artifact_id and file.kind == "log"), None)
    if file is None:
        raise NotFound(f"The run {run_id} has no log {artifact_id}.", cure="List its logs to see which there are.")
    path = await runtime.storage.open(file.storage_key, file.sha256)
    return await asyncio.to_thread(_lines, path, (q or "").casefold(), after, limit)


@router.get("/{run_id}/resources")
async def get_resources(
    run_id: RunId,
    principal: Reader,
    runtime: RuntimeOf,
    points: Annotated[WholeNumber, Query(ge=10, le=2_000, description="Bins over the time of each claim.")] = 300,
) -> RunResources:
    """Return memory, utilisation and power over time, on one clock with phases and claims.

    Series are those that claims have stored; a claim stores its own when it ends, and until then the live feed has the
    newest sample.
    """
    run = await run_of(runtime.database, run_id, principal)
    async with runtime.database.transaction() as session:
        files = [file for file in await artifacts.of_run(session, run.id) if file.kind == "resources"]
        claims = {record.claim.id: record for record in await evidence.of_run(session, run.id)}
        of_run = await phases.of_run(session, run.id)
    series: list[ResourceSeries] = []
    missing: list[str] = []
    for file in files:
        path = await _open(runtime, file, missing)
        if path is not None:
            series.append(await asyncio.to_thread(_series, path, file, claims.get(file.claim_id), points))
    return RunResources(series=series, spans=[*_spans(list(claims.values()), of_run)], missing=missing)


async def _claims(session: Session, files: Sequence[ArtifactView]) -> dict[UUID, ClaimOfJob]:
    records = await evidence.of_claims(session, [file.claim_id for file in files])
    return {record.claim.id: record for record in records}


async def _open(runtime: RuntimeOf, file: ArtifactView, missing: list[str]) -> Path | None:
    try:
        return await runtime.storage.open(file.storage_key, file.sha256)
    except Damaged as error:
        missing.append(f"{error.message} {error.cure}".strip())
        return None


def _lines(path: Path, searched: str, after: int | None, limit: int) -> LogLines:
    """Read a log by line; without `after` the last lines, of those that match."""
    kept: list[LogLine] = []
    total, matching, is_more = 0, 0, False
    with path.open(encoding="utf-8", errors="replace") as file:
        for total, line in enumerate(file, 1):
            if searched and searched not in line.casefold():
                continue
            matching += 1
            if after is not None and total <= after:
                continue
            if after is not None and len(kept) == limit:
                is_more = True
                continue
            kept.append(LogLine(no=total, text=line.rstrip("\r\n")[:_LINE_CHARACTERS]))
            if after is None and len(kept) > limit:
                kept.pop(0)
    return LogLines(
        lines=kept, total=total, matching=matching if searched else None, next=kept[-1].no if is_more else None
    )


def _series(path: Path, file: ArtifactView, record: ClaimOfJob | None, points: int) -> ResourceSeries:
    """Put the samples of a claim into bins of equal time."""
    import polars as pl

    frame = pl.read_parquet(path, glob=False).sort("wall_ns")
    names = [name for name in frame.columns if not name.endswith("_ns") and frame[name].null_count() < frame.height]
    first, last = frame["wall_ns"][0], frame["wall_ns"][-1]
    width_ns = max(1, (last - first) // points + 1)
    bins = (
        frame.with_columns(((pl.col("wall_ns") - first) // width_ns).alias("bin"))
        .group_by("bin", maintain_order=True)
        .agg(
            pl.col("wall_ns").mean().alias("at"),
            *(pl.col(name).mean().alias(f"mean.{name}") for name in names),
            *(pl.col(name).max().cast(pl.Float64).alias(f"max.{name}") for name in names),
        )
    )
    return ResourceSeries(
        claim_id=file.claim_id,
        host=_host(record),
        job=_job(record),
        at_ms=(bins["at"] / _NS_PER_MS).to_list(),
        mean={name: bins[f"mean.{name}"].to_list() for name in names},
        max={name: bins[f"max.{name}"].to_list() for name in names},
        overall_mean=dict(zip(names, frame.select(pl.col(names).mean()).row(0), strict=True)),
        overall_max=dict(zip(names, frame.select(pl.col(names).max().cast(pl.Float64)).row(0), strict=True)),
        samples=frame.height,
    )


def _spans(claims: Sequence[ClaimOfJob], of_run: Sequence[PhaseView]) -> Iterator[Span]:
    for record in claims:
        yield Span(
            kind="claim",
            name=record.job.kind.value,
            id=str(record.claim.id),
            host=record.claim.host,
            state=record.job.state.value,
            start_ms=_ms(record.claim.started_at),
            end_ms=_ms(record.claim.ended_at) if record.claim.ended_at else None,
        )
    for phase in of_run:
        yield Span(
            kind="phase",
            name=phase.kind,
            id=str(phase.no),
            state=phase.state.value,
            start_ms=_ms(phase.opened_at),
            end_ms=_ms(phase.closed_at) if phase.closed_at else None,
        )


def _ms(instant: datetime) -> float:
    return instant.timestamp() * 1000


def _writer(name: str) -> LogWriter:
    """Return what wrote a log, which begins its name."""
    return next((writer for writer in get_args(LogWriter) if name.startswith(f"{writer}-")), "engine")


def _job(record: ClaimOfJob | None) -> str:
    return record.job.kind.value if record is not None else ""


def _host(record: ClaimOfJob | None) -> str:
    return record.claim.host if record is not None else ""
