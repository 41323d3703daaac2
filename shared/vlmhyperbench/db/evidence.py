"""Read the evidence that claims recorded, for reports; `db.claims` writes it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from sqlalchemy import ColumnElement, Select, func, or_, select
from sqlalchemy.ext.asyncio import AsyncSession

from vlmhyperbench.db.queries import fetch_all, table_of
from vlmhyperbench.db.tables import ClaimRow, FactRow, JobRow, ReusedFactRow, ReusedPhaseRow, RunRow
from vlmhyperbench.db.views import ClaimView, JobView
from vlmhyperbench.domain.ground import Ground, Sending
from vlmhyperbench.domain.units import NS_PER_S

_CLAIM = table_of(ClaimRow)
_JOB = table_of(JobRow)
_RUN = table_of(RunRow)
_FACT = table_of(FactRow)
_PHASE = table_of(ReusedPhaseRow)
_ROW = table_of(ReusedFactRow)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimOfJob:
    """A claim with its job."""

    claim: ClaimView
    job: JobView


async def of_run(session: AsyncSession, run_id: UUID) -> list[ClaimOfJob]:
    """Read every claim of a run's jobs, oldest first."""
    return await _read(session, _JOB.c.run_id == run_id)


async def of_experiment(session: AsyncSession, experiment_id: UUID) -> list[ClaimOfJob]:
    """Read every claim of the jobs of an experiment and of its runs, oldest first."""
    return await _read(session, _JOB.c.experiment_id == experiment_id)


async def of_claims(session: AsyncSession, claim_ids: Sequence[UUID]) -> list[ClaimOfJob]:
    """Read the claims with these ids, oldest first, such as those that measured reused rows."""
    return await _read(session, _CLAIM.c.id.in_(claim_ids))


async def of_reused_answers(session: AsyncSession, run_id: UUID) -> list[ClaimOfJob]:
    """Read the claims of other runs that measured the answers which a run reuses, oldest first."""
    phases = select(_FACT.c.claim_id).join(
        _PHASE, (_PHASE.c.source_run_id == _FACT.c.run_id) & (_PHASE.c.source_phase == _FACT.c.phase)
    )
    rows = select(_FACT.c.claim_id).join(
        _ROW,
        (_ROW.c.source_run_id == _FACT.c.run_id)
        & (_ROW.c.source_phase == _FACT.c.phase)
        & (_ROW.c.source_ordinal == _FACT.c.ordinal),
    )
    measured = phases.where(_PHASE.c.run_id == run_id).union(rows.where(_ROW.c.run_id == run_id))
    return await _read(session, _CLAIM.c.id.in_(measured))


@dataclass(frozen=True, slots=True, kw_only=True)
class Neighbour:
    """A claim that sent requests on a machine, and the run that it belongs to."""

    sending: Sending
    run_id: UUID
    run_name: str
    project_id: str


async def neighbours(session: AsyncSession, claims: Sequence[ClaimView]) -> list[Neighbour]:
    """Read which claims of any project sent requests on the same machines while `claims` ran, oldest first.

    The result includes `claims`. `domain.ground` decides whether one of them disturbed another.
    """
    machines = {claim.machine_id for claim in claims if claim.machine_id is not None}
    if not machines:
        return []
    is_open = any(claim.ended_at is None for claim in claims)
    until = None if is_open else max(claim.ended_at for claim in claims if claim.ended_at is not None)
    statement = (
        select(_CLAIM.c.id, _RUN.c.id.label("run_id"), _RUN.c.name, _RUN.c.project_id)
        .join(_RUN, _RUN.c.id == _CLAIM.c.run_id)
        .where(
            _CLAIM.c.machine_id.in_(machines),
            _CLAIM.c.sending_from_ns.is_not(None),
            _CLAIM.c.started_at <= (func.now() if until is None else until),
            or_(_CLAIM.c.ended_at.is_(None), _CLAIM.c.ended_at >= min(claim.started_at for claim in claims)),
        )
        .order_by(_CLAIM.c.started_at, _CLAIM.c.id)
    )
    rows = (await session.execute(statement)).all()
    known = {view.id: view for view in await fetch_all(session, ClaimView, _by_id([row.id for row in rows]))}
    return [
        Neighbour(sending=sending, run_id=row.run_id, run_name=row.name, project_id=row.project_id)
        for row in rows
        if (sending := sending_of(known[row.id])) is not None
    ]


def sending_of(claim: ClaimView) -> Sending | None:
    """Return when and where a claim sent requests; None if it sent none, or if that was not recorded.

    A claim that was killed has not recorded when it stopped sending; the end of the claim stands for it.
    """
    if claim.machine_id is None or claim.sending_from_ns is None:
        return None
    until_ns = claim.sending_until_ns
    if until_ns is None and claim.ended_at is not None and claim.anchor_wall_ns is not None:
        until_ns = (
            round(claim.ended_at.timestamp() * NS_PER_S) - claim.anchor_wall_ns + (claim.anchor_monotonic_ns or 0)
        )
    ground = Ground(machine=claim.machine_id, gpus=frozenset(claim.gpus or ()), cores=frozenset(claim.cores or ()))
    return Sending(claim_id=str(claim.id), ground=ground, from_ns=claim.sending_from_ns, until_ns=until_ns)


def _by_id(ids: Sequence[UUID]) -> Select[Any]:
    return select(_CLAIM).where(_CLAIM.c.id.in_(ids))


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
