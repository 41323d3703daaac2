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


_ROW = """
fact.*,
CASE WHEN asked.kind IN ('accuracy', 'member') AND asked.samples > 0 THEN {ordinal} % asked.samples ELSE fact.sample END
    AS own_sample,
CASE WHEN asked.kind IN ('accuracy', 'member') AND asked.samples > 0 THEN {ordinal} / asked.samples ELSE fact.repeat END
    AS own_repeat
"""
_WANTED = """
{ordinal} > asked.after
AND (CAST(:status AS text) IS NULL OR fact.status = :status)
AND (CAST(:outcome AS text) IS NULL OR :outcome = CASE
      WHEN fact.status = 'ok' THEN 'answered'
      WHEN fact.failure = 'model' THEN 'model_failure'
      ELSE 'infrastructure_failure' END)
AND (CAST(:samples AS bigint[]) IS NULL OR
     CASE WHEN asked.kind IN ('accuracy', 'member') AND asked.samples > 0 THEN {ordinal} % asked.samples
          ELSE fact.sample END
     = ANY(CAST(:samples AS bigint[])))
ORDER BY {ordinal}
LIMIT :limit
"""


def _page() -> str:
    """Return the statement: of each phase, and of each way in which a run has rows, it reads at most one page.

    So it follows the order of a key, whatever the statistics of the tables say and however many rows the run has.
    """
    own = {"ordinal": "fact.ordinal"}
    reused = {"ordinal": "reused_fact.ordinal"}
    return f"""
WITH asked AS (
    SELECT phase.no, phase.kind, coalesce(manifest.samples, 0) AS samples,
           CASE WHEN phase.no = :phase THEN CAST(:ordinal AS bigint) ELSE -1 END AS after
    FROM phase JOIN run ON run.id = phase.run_id
    LEFT JOIN sample_manifest manifest ON manifest.id = run.manifest_id
    WHERE phase.run_id = :run AND phase.no >= :phase AND phase.counts
      AND (phase.state IN ('COMPLETE', 'STOPPED') OR (phase.state = 'OPEN' AND phase.kind = 'accuracy'))
), counting AS (
    SELECT asked.no AS own_phase, measured.* FROM asked CROSS JOIN LATERAL (
        SELECT fact.ordinal AS own_ordinal, {_ROW.format(**own)} FROM fact
        WHERE fact.run_id = :run AND fact.phase = asked.no AND {_WANTED.format(**own)}
    ) measured
    UNION ALL
    SELECT asked.no AS own_phase, measured.* FROM asked CROSS JOIN LATERAL (
        SELECT reused_fact.ordinal AS own_ordinal, {_ROW.format(**reused)} FROM reused_fact
        JOIN fact ON fact.run_id = reused_fact.source_run_id AND fact.phase = reused_fact.source_phase
                 AND fact.ordinal = reused_fact.source_ordinal
        WHERE reused_fact.run_id = :run AND reused_fact.phase = asked.no AND {_WANTED.format(**reused)}
    ) measured
    UNION ALL
    SELECT asked.no AS own_phase, measured.* FROM asked
    JOIN reused_phase ON reused_phase.run_id = :run AND reused_phase.phase = asked.no
    CROSS JOIN LATERAL (
        SELECT fact.ordinal AS own_ordinal, {_ROW.format(**own)} FROM fact
        WHERE fact.run_id = reused_phase.source_run_id AND fact.phase = reused_phase.source_phase
          AND {_WANTED.format(**own)}
    ) measured
), page AS (
    SELECT * FROM counting ORDER BY own_phase, own_ordinal LIMIT :limit
)
SELECT page.*, chunk.storage_key, chunk.sha256 AS chunk_sha256 FROM page
LEFT JOIN chunk ON chunk.run_id = page.run_id AND chunk.claim_id = page.claim_id AND chunk.phase = page.phase
               AND chunk.no = page.chunk
ORDER BY own_phase, own_ordinal
"""  # noqa: S608 - consists of this module's own text


_PAGE = _page()
