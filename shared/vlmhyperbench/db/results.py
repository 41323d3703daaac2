"""Pages of a run's counting rows, measured and reused, with the chunks of their payloads: the results of the API."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncSession

from vlmhyperbench.db.given_rows import with_given
from vlmhyperbench.db.queries import page_size
from vlmhyperbench.db.views import FactView, view_of
from vlmhyperbench.domain.states import FactStatus

Outcome = Literal["answered", "model_failure", "infrastructure_failure"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultRow:
    """A counting row of a run."""

    phase: int
    ordinal: int
    """Ordinal in this run; `fact` has the phase and ordinal in the run that measured it."""
    sample: int
    repeat: int
    """Repeat in this run, as `sample` is the sample in this run: the run that measured it may number them otherwise."""
    fact: FactView
    storage_key: str | None
    """Key of the chunk that has its payload."""
    chunk_sha256: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Which rows of a page are wanted; None: any."""

    after: tuple[int, int] = (-1, -1)
    """Phase and ordinal of the last row of the page before."""
    limit: int = 50
    status: FactStatus | None = None
    outcome: Outcome | None = None
    samples: Sequence[int] | None = None


async def page(session: AsyncSession, run_id: UUID, wanted: Wanted, *, given: str | None = None) -> list[ResultRow]:
    """Read rows of counting phases by (phase, ordinal); the next page begins after the last row.

    `given` are rows that are not in Postgres, as JSON (`facts.tiered`): at least those of the page.
    """
    values = {
        "run": run_id,
        "phase": wanted.after[0],
        "ordinal": wanted.after[1],
        "limit": page_size(wanted.limit),
        "status": wanted.status.value if wanted.status is not None else None,
        "outcome": wanted.outcome,
        "samples": list(wanted.samples) if wanted.samples is not None else None,
    }
    rows = await session.execute(*with_given(_PAGE, values, given))
    return [
        ResultRow(
            phase=row.own_phase,
            ordinal=row.own_ordinal,
            sample=row.own_sample,
            repeat=row.own_repeat,
            fact=view_of(FactView, row),
            storage_key=row.storage_key,
            chunk_sha256=row.chunk_sha256,
        )
        for row in rows
    ]


_PAGE = """
WITH counting AS (
    SELECT run_id AS source, phase AS own_phase, ordinal AS own_ordinal, phase AS source_phase,
           ordinal AS source_ordinal
    FROM fact WHERE run_id = :run
    UNION ALL
    SELECT source_run_id, phase, ordinal, source_phase, source_ordinal FROM reused_fact WHERE run_id = :run
    UNION ALL
    SELECT reused.source_run_id, reused.phase, fact.ordinal, fact.phase, fact.ordinal
    FROM reused_phase reused JOIN fact ON fact.run_id = reused.source_run_id AND fact.phase = reused.source_phase
    WHERE reused.run_id = :run
), counted AS (
    SELECT coalesce(manifest.samples, 0) AS samples FROM run
    LEFT JOIN sample_manifest manifest ON manifest.id = run.manifest_id WHERE run.id = :run
)
SELECT counting.own_phase, counting.own_ordinal, fact.*, chunk.storage_key,
       chunk.sha256 AS chunk_sha256,
       CASE WHEN phase.kind = 'accuracy' AND samples > 0 THEN own_ordinal % samples ELSE sample END AS own_sample,
       CASE WHEN phase.kind = 'accuracy' AND samples > 0 THEN own_ordinal / samples ELSE repeat END AS own_repeat
FROM counting CROSS JOIN counted
JOIN fact ON fact.run_id = counting.source AND fact.phase = counting.source_phase
         AND fact.ordinal = counting.source_ordinal
JOIN phase ON phase.run_id = :run AND phase.no = counting.own_phase
LEFT JOIN chunk ON chunk.run_id = fact.run_id AND chunk.claim_id = fact.claim_id AND chunk.phase = fact.phase
               AND chunk.no = fact.chunk
WHERE (counting.own_phase, counting.own_ordinal) > (:phase, :ordinal)
  AND phase.counts
  AND (phase.state IN ('COMPLETE', 'STOPPED') OR (phase.state = 'OPEN' AND phase.kind = 'accuracy'))
  AND (CAST(:status AS text) IS NULL OR fact.status = :status)
  AND (CAST(:outcome AS text) IS NULL OR :outcome = CASE
        WHEN fact.status = 'ok' THEN 'answered'
        WHEN fact.failure = 'model' THEN 'model_failure'
        ELSE 'infrastructure_failure' END)
  AND (CAST(:samples AS bigint[]) IS NULL OR
       CASE WHEN phase.kind = 'accuracy' AND samples > 0 THEN own_ordinal % samples ELSE sample END
       = ANY(CAST(:samples AS bigint[])))
ORDER BY counting.own_phase, counting.own_ordinal
LIMIT :limit
"""
