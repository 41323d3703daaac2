"""What a child run keeps of other runs: whole phases, or single rows; always the row that was measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar
from uuid import UUID

from sqlalchemy import insert, select, text
from sqlalchemy.ext.asyncio import AsyncSession

from vlmhyperbench.db.queries import fetch_all, table_of
from vlmhyperbench.db.tables import KeptFactRow, KeptPhaseRow
from vlmhyperbench.db.views import KeptFactView, KeptPhaseView, view_of
from vlmhyperbench.domain.states import FactStatus
from vlmhyperbench_sdk.load import PhaseKind

_PHASE = table_of(KeptPhaseRow)
_FACT = table_of(KeptFactRow)


async def add_phase(session: AsyncSession, kept: KeptPhaseView) -> None:
    """Keep a whole phase; one that is kept itself is followed to the run that measured it."""
    source = await _phase(session, kept.source_run_id, kept.source_phase)
    run_id, phase = (source.source_run_id, source.source_phase) if source else (kept.source_run_id, kept.source_phase)
    await session.execute(
        insert(_PHASE).values(run_id=kept.run_id, phase=kept.phase, source_run_id=run_id, source_phase=phase)
    )


async def add_facts(session: AsyncSession, kept: Sequence[KeptFactView]) -> None:
    """Keep single rows, each named by the run that measured it."""
    if kept:
        await session.execute(
            insert(_FACT),
            [
                {
                    "run_id": row.run_id,
                    "phase": row.phase,
                    "ordinal": row.ordinal,
                    "source_run_id": row.source_run_id,
                    "source_phase": row.source_phase,
                    "source_ordinal": row.source_ordinal,
                }
                for row in kept
            ],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class KeepableView:
    """A counting row of a run, own or kept, named by where it was measured."""

    ENUMS: ClassVar[Mapping[str, type[StrEnum]]] = {"status": FactStatus}

    source_run_id: UUID
    source_phase: int
    source_ordinal: int
    ordinal: int
    """Its place in the run that may be the parent."""
    repeat: int
    request_sha256: str
    status: FactStatus
    error_code: str | None
    claim_id: UUID


async def keepable(session: AsyncSession, run_id: UUID) -> list[KeepableView]:
    """Read the rows of a run's accuracy phases that another run may keep, whatever became of them."""
    found = await session.execute(text(_KEEPABLE), {"run": run_id})
    return [view_of(KeepableView, row) for row in found]


async def cached(
    session: AsyncSession, *, project_id: str, target_digest: str, request_sha256: Sequence[str], kind: PhaseKind
) -> list[KeepableView]:
    """Read answers that runs of a project got to the same requests, of the same target; the earliest of equal ones.

    `kind` is that of the phases which they are of: verdicts serve judges only, and answers runs.
    """
    values = {"kind": kind, "project": project_id, "target": target_digest, "requests": list(request_sha256)}
    found = await session.execute(text(_CACHED), values)
    return [view_of(KeepableView, row) for row in found]


async def keep(session: AsyncSession, job_id: UUID, kept: Sequence[KeptFactView]) -> None:
    """Keep rows in a shard, where they count as done; the caller holds the job by its claim."""
    await add_facts(session, kept)
    await session.execute(
        text("UPDATE job SET done = done + :kept WHERE id = :job"), {"kept": len(kept), "job": job_id}
    )


async def facts_of_run(session: AsyncSession, run_id: UUID) -> list[KeptFactView]:
    """Read the single rows that a run keeps."""
    statement = select(_FACT).where(_FACT.c.run_id == run_id).order_by(_FACT.c.phase, _FACT.c.ordinal)
    return await fetch_all(session, KeptFactView, statement)


async def _phase(session: AsyncSession, run_id: UUID, phase: int) -> KeptPhaseView | None:
    found = await fetch_all(
        session, KeptPhaseView, select(_PHASE).where(_PHASE.c.run_id == run_id, _PHASE.c.phase == phase)
    )
    return found[0] if found else None


_KEEPABLE = """
WITH counting AS (
    SELECT run_id, phase, ordinal, phase AS own, ordinal AS place FROM fact WHERE run_id = :run
    UNION ALL
    SELECT source_run_id, source_phase, source_ordinal, phase, ordinal FROM kept_fact WHERE run_id = :run
    UNION ALL
    SELECT fact.run_id, fact.phase, fact.ordinal, kept.phase, fact.ordinal FROM kept_phase kept
    JOIN fact ON fact.run_id = kept.source_run_id AND fact.phase = kept.source_phase WHERE kept.run_id = :run
)
SELECT fact.run_id AS source_run_id, fact.phase AS source_phase, fact.ordinal AS source_ordinal,
       counting.place AS ordinal, fact.repeat, fact.request_sha256, fact.status, fact.error_code, fact.claim_id
FROM counting JOIN fact USING (run_id, phase, ordinal)
JOIN phase part ON part.run_id = :run AND part.no = counting.own AND part.counts AND part.kind = 'accuracy'
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
