"""How long jobs have taken before, for plans on paper."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncSession


async def seconds_per_answer(
    session: AsyncSession, target_digests: Sequence[str], *, project_id: str
) -> dict[tuple[str, str], float]:
    """Read the mean time of an answer, loading included, by target and task: what finished jobs of runs have taken."""
    rows = await session.execute(text(_SECONDS), {"targets": list(target_digests), "project": project_id})
    return {(row.target_digest, row.task): row.seconds for row in rows}


_SECONDS = """
SELECT j.target_digest, r.spec ->> 'task' AS task,
       CAST(sum(extract(epoch FROM c.ended_at - c.started_at)) / sum(j.done) AS float) AS seconds
FROM job j JOIN run r ON r.id = j.run_id JOIN claim c ON c.id = j.claim_id
WHERE j.kind = 'GENERATE' AND j.state = 'DONE' AND j.done > 0 AND c.ended_at IS NOT NULL
  AND j.project_id = :project AND j.target_digest = ANY(CAST(:targets AS varchar[]))
GROUP BY j.target_digest, r.spec ->> 'task'
"""
