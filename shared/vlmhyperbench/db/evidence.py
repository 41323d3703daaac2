"""What claims recorded, as reports and cards read it; `db.claims` writes it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from sqlalchemy import ColumnElement, select
from sqlalchemy.ext.asyncio import AsyncSession

from vlmhyperbench.db.queries import fetch_all, table_of
from vlmhyperbench.db.tables import ClaimRow, JobRow
from vlmhyperbench.db.views import ClaimView, JobView

_CLAIM = table_of(ClaimRow)
_JOB = table_of(JobRow)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimOfJob:
    """A claim, and the job that it was taken on."""

    claim: ClaimView
    job: JobView


async def of_run(session: AsyncSession, run_id: UUID) -> list[ClaimOfJob]:
    """Read every claim on a run's jobs, oldest first."""
    return await _read(session, _JOB.c.run_id == run_id)


async def of_experiment(session: AsyncSession, experiment_id: UUID) -> list[ClaimOfJob]:
    """Read every claim on the jobs of an experiment and of its runs, oldest first."""
    return await _read(session, _JOB.c.experiment_id == experiment_id)


async def of_claims(session: AsyncSession, claim_ids: Sequence[UUID]) -> list[ClaimOfJob]:
    """Read some claims, oldest first: those behind rows that were kept of other runs, say."""
    return await _read(session, _CLAIM.c.id.in_(claim_ids))


async def _read(session: AsyncSession, condition: ColumnElement[bool]) -> list[ClaimOfJob]:
    claims = await fetch_all(
        session,
        ClaimView,
        select(_CLAIM).join(_JOB, _JOB.c.id == _CLAIM.c.job_id).where(condition).order_by(_CLAIM.c.started_at),
    )
    jobs = {
        job.id: job
        for job in await fetch_all(
            session, JobView, select(_JOB).where(_JOB.c.id.in_({claim.job_id for claim in claims}))
        )
    }
    return [ClaimOfJob(claim=claim, job=jobs[claim.job_id]) for claim in claims]
