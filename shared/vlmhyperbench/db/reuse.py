"""What a run reuses from other runs: whole phases or single rows. A reference always names the measured row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import ClassVar
from uuid import UUID

from sqlalchemy import insert, select, text
from sqlalchemy.ext.asyncio import AsyncSession

from vlmhyperbench.db.queries import fetch_all, fetch_one, table_of
from vlmhyperbench.db.tables import ReusedFactRow, ReusedPhaseRow
from vlmhyperbench.db.views import ReusedFactView, ReusedPhaseView, view_of
from vlmhyperbench.domain.states import FactStatus
from vlmhyperbench_sdk.load import PhaseKind

_PHASE = table_of(ReusedPhaseRow)
_FACT = table_of(ReusedFactRow)


async def add_phase(session: AsyncSession, reused: ReusedPhaseView) -> None:
    """Reuse a whole phase. If the source phase is reused itself, the run that measured it becomes the source."""
    measured = await _phase(session, reused.source_run_id, reused.source_phase) or reused
    await session.execute(
        insert(_PHASE).values(
            run_id=reused.run_id,
            phase=reused.phase,
            source_run_id=measured.source_run_id,
            source_phase=measured.source_phase,
        )
    )


async def add_facts(session: AsyncSession, reused: Sequence[ReusedFactView]) -> None:
    """Reuse single rows; each source is the run that measured the row."""
    if reused:
        await session.execute(insert(_FACT), [asdict(row) for row in reused])


@dataclass(frozen=True, slots=True, kw_only=True)
class ReusableView:
    """A counting row of a run, measured or reused, with the location at which it was measured."""

    ENUMS: ClassVar[Mapping[str, type[StrEnum]]] = {"status": FactStatus}

    source_run_id: UUID
    source_phase: int
    source_ordinal: int
    ordinal: int
    """Ordinal in the run that was read, which may itself reuse the row."""
    repeat: int
    request_sha256: str
    status: FactStatus
    error_code: str | None
    claim_id: UUID


async def reusable(session: AsyncSession, run_id: UUID) -> list[ReusableView]:
    """Read all rows of a run's counting accuracy phases; the caller decides by their status which are reused."""
    rows = await session.execute(text(_REUSABLE), {"run": run_id})
    return [view_of(ReusableView, row) for row in rows]


async def cached(
    session: AsyncSession, *, project_id: str, target_digest: str, request_sha256: Sequence[str], kind: PhaseKind
) -> list[ReusableView]:
    """Read the answers of a target to these requests in any run of a project; of several equal ones the earliest.

    Only phases of `kind` are read, so that a judge reuses verdicts and a run reuses answers.
    """
    values = {"kind": kind, "project": project_id, "target": target_digest, "requests": list(request_sha256)}
    rows = await session.execute(text(_CACHED), values)
    return [view_of(ReusableView, row) for row in rows]


async def add_to_shard(session: AsyncSession, job_id: UUID, reused: Sequence[ReusedFactView]) -> None:
    """Reuse rows in a shard, where they count as done; the caller holds the job by its claim."""
    await add_facts(session, reused)
    await session.execute(
        text("UPDATE job SET done = done + :reused WHERE id = :job"), {"reused": len(reused), "job": job_id}
    )


async def facts_of_run(session: AsyncSession, run_id: UUID) -> list[ReusedFactView]:
    """Read the single rows that a run reuses."""
    statement = select(_FACT).where(_FACT.c.run_id == run_id).order_by(_FACT.c.phase, _FACT.c.ordinal)
    return await fetch_all(session, ReusedFactView, statement)


async def _phase(session: AsyncSession, run_id: UUID, phase: int) -> ReusedPhaseView | None:
    return await fetch_one(
        session, ReusedPhaseView, select(_PHASE).where(_PHASE.c.run_id == run_id, _PHASE.c.phase == phase)
    )


_REUSABLE = """
WITH counting AS (
    SELECT run_id, phase, ordinal, phase AS own_phase, ordinal AS own_ordinal FROM fact WHERE run_id = :run
    UNION ALL
    SELECT source_run_id, source_phase, source_ordinal, phase, ordinal FROM reused_fact WHERE run_id = :run
    UNION ALL
    SELECT fact.run_id, fact.phase, fact.ordinal, reused.phase, fact.ordinal FROM reused_phase reused
    JOIN fact ON fact.run_id = reused.source_run_id AND fact.phase = reused.source_phase WHERE reused.run_id = :run
)
SELECT fact.run_id AS source_run_id, fact.phase AS source_phase, fact.ordinal AS source_ordinal,
       counting.own_ordinal AS ordinal, fact.repeat, fact.request_sha256, fact.status, fact.error_code, fact.claim_id
FROM counting JOIN fact USING (run_id, phase, ordinal)
JOIN phase part ON part.run_id = :run AND part.no = counting.own_phase AND part.counts AND part.kind = 'accuracy'
"""

_CACHED = """
SELECT DISTINCT ON (fact.request_sha256, fact.repeat, claim.engine ->> 'version')
       fact.run_id AS source_run_id, fact.phase AS source_phase, fact.ordinal AS source_ordinal, fact.ordinal,
       fact.repeat, fact.request_sha256, fact.status, fact.error_code, fact.claim_id
FROM fact
JOIN phase ON phase.run_id = fact.run_id AND phase.no = fact.phase
JOIN claim ON claim.id = fact.claim_id
JOIN job ON job.id = claim.job_id
WHERE fact.request_sha256 = ANY(CAST(:requests AS varchar[])) AND fact.status = 'ok' AND fact.origin = 'live'
  AND phase.kind = :kind AND phase.state IN ('COMPLETE', 'STOPPED')
  AND job.project_id = :project AND job.target_digest = :target
ORDER BY fact.request_sha256, fact.repeat, claim.engine ->> 'version', claim.started_at, fact.run_id
"""
