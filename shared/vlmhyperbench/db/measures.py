"""Manifests of measures: one row per Parquet file of per-sample scores, keyed by the claim that wrote it."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from sqlalchemy import and_, func, insert, select
from sqlalchemy.dialects.postgresql import distinct_on
from sqlalchemy.ext.asyncio import AsyncSession

from vlmhyperbench.db.queries import fetch_all, fetch_one, table_of
from vlmhyperbench.db.tables import MeasureManifestRow, RunRow
from vlmhyperbench.db.views import MeasureManifestView
from vlmhyperbench_sdk.types import JsonObject

_MEASURES = table_of(MeasureManifestRow)
_RUN = table_of(RunRow)


async def add(
    session: AsyncSession,
    *,
    run_id: UUID,
    claim_id: UUID,
    no: int,
    job_id: UUID,
    storage_key: str,
    sha256: str,
    size_bytes: int,
    rows: int,
    metrics: Sequence[JsonObject],
    environment: str,
    evaluation_id: str,
    fingerprint: str | None,
) -> None:
    """Add the manifest of a file that is already in storage; the caller holds the job by its claim."""
    await session.execute(
        insert(_MEASURES).values(
            run_id=run_id,
            claim_id=claim_id,
            no=no,
            job_id=job_id,
            storage_key=storage_key,
            sha256=sha256,
            size_bytes=size_bytes,
            rows=rows,
            metrics=[dict(metric) for metric in metrics],
            environment=environment,
            evaluation_id=evaluation_id,
            fingerprint=fingerprint,
        )
    )


async def of_evaluation(session: AsyncSession, evaluation_id: str, *, project_id: str) -> MeasureManifestView | None:
    """Read the newest manifest with this evaluation identity."""
    statement = (
        select(_MEASURES)
        .join(_RUN, _RUN.c.id == _MEASURES.c.run_id)
        .where(_MEASURES.c.evaluation_id == evaluation_id, _RUN.c.project_id == project_id)
        .order_by(_MEASURES.c.created_at.desc())
        .limit(1)
    )
    return await fetch_one(session, MeasureManifestView, statement)


async def of_run(session: AsyncSession, run_id: UUID) -> list[MeasureManifestView]:
    """Read the valid manifests of a run: for each SCORE job, those of the newest claim that wrote any."""
    newest = (
        select(_MEASURES.c.job_id, _MEASURES.c.claim_id)
        .where(_MEASURES.c.run_id == run_id)
        .group_by(_MEASURES.c.job_id, _MEASURES.c.claim_id)
        .ext(distinct_on(_MEASURES.c.job_id))
        .order_by(_MEASURES.c.job_id, func.max(_MEASURES.c.created_at).desc(), _MEASURES.c.claim_id)
        .subquery()
    )
    statement = (
        select(_MEASURES)
        .join(newest, and_(newest.c.job_id == _MEASURES.c.job_id, newest.c.claim_id == _MEASURES.c.claim_id))
        .where(_MEASURES.c.run_id == run_id)
        .order_by(_MEASURES.c.created_at, _MEASURES.c.job_id, _MEASURES.c.no)
    )
    return await fetch_all(session, MeasureManifestView, statement)
