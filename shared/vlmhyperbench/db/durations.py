"""How long jobs have taken before, for plans on paper and for the order of jobs that share devices."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from pydantic import JsonValue
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncSession

from vlmhyperbench.domain.scheduling import RunningJob


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """Seconds of an answer over the finished jobs of a target and a task, loading included."""

    mean_s: float
    fastest_s: float
    """Of the fastest job."""
    slowest_s: float
    """Of the slowest job; equal to that of the fastest where only one was measured."""


async def measured_paces(
    session: AsyncSession, target_digests: Sequence[str], *, project_id: str
) -> dict[tuple[str, str], Pace]:
    """Read how long answers took, by target and task: what finished jobs of runs have taken."""
    rows = await session.execute(text(_SECONDS), {"targets": list(target_digests), "project": project_id})
    return {
        (row.target_digest, row.task): Pace(mean_s=row.mean, fastest_s=row.fastest, slowest_s=row.slowest)
        for row in rows
    }


async def verdict_paces(session: AsyncSession, target_digests: Sequence[str], *, project_id: str) -> dict[str, Pace]:
    """Read how long verdicts took, by the judge's target: what finished jobs of judges have taken."""
    return await _paces_of(session, target_digests, ["JUDGE"], project_id=project_id)


async def answer_paces(session: AsyncSession, target_digests: Sequence[str], *, project_id: str) -> dict[str, Pace]:
    """Read how long answers took, by target, alone or as a member of a pipeline, whatever the task."""
    return await _paces_of(session, target_digests, ["GENERATE", "MEMBER"], project_id=project_id)


async def _paces_of(
    session: AsyncSession, target_digests: Sequence[str], kinds: Sequence[str], *, project_id: str
) -> dict[str, Pace]:
    values = {"targets": list(target_digests), "kinds": list(kinds), "project": project_id}
    rows = await session.execute(text(_BY_TARGET), values)
    return {row.target_digest: Pace(mean_s=row.mean, fastest_s=row.fastest, slowest_s=row.slowest) for row in rows}


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerCost:
    """Cost of an answer over the finished runs of a target and a task, by the same prices."""

    mean: float
    lowest: float
    highest: float


async def measured_costs(
    session: AsyncSession, target_digest: str, task: str, prices: Mapping[str, JsonValue], *, project_id: str
) -> AnswerCost | None:
    """Read what answers have cost by these prices; None if no finished run tells."""
    values = {"target": target_digest, "task": task, "prices": json.dumps(prices), "project": project_id}
    row = (await session.execute(text(_COSTS), values)).one()
    return None if row.mean is None else AnswerCost(mean=row.mean, lowest=row.lowest, highest=row.highest)


async def recent_paces(session: AsyncSession, target_digests: Collection[str]) -> dict[str, float]:
    """Read the mean time of an answer by target, over its last finished jobs; unmeasured ones are left out."""
    rows = await session.execute(text(_PACES), {"targets": sorted(target_digests), "jobs": _RECENT_JOBS})
    return {row.target_digest: row.seconds for row in rows}


async def running(session: AsyncSession) -> tuple[RunningJob, ...]:
    """Read what has a share of the devices now, and how many answers it still needs."""
    rows = await session.execute(text(_RUNNING))
    return tuple(
        RunningJob(
            worker_id=row.worker_id,
            device=row.device,
            bytes=row.bytes,
            target_digest=row.target_digest,
            answers=row.answers,
        )
        for row in rows
    )


_RECENT_JOBS = 20

# By the index of finished jobs, so that a tick reads no more of them than it uses.
_PACES = """
SELECT wanted.target_digest, CAST(sum(last.seconds) / sum(last.done) AS float) AS seconds
FROM unnest(CAST(:targets AS varchar[])) AS wanted (target_digest)
CROSS JOIN LATERAL (
  SELECT extract(epoch FROM c.ended_at - c.started_at) AS seconds, j.done
  FROM job j JOIN claim c ON c.id = j.claim_id
  WHERE j.target_digest = wanted.target_digest AND j.state = 'DONE' AND j.kind = 'GENERATE' AND j.done > 0
    AND c.ended_at IS NOT NULL
  ORDER BY j.finished_at DESC LIMIT :jobs
) AS last
GROUP BY wanted.target_digest
"""

_RUNNING = """
SELECT r.worker_id, r.device, r.bytes, j.target_digest,
       GREATEST(COALESCE(j.range_end - j.range_start - j.done, 1), 1) AS answers
FROM reservation r JOIN job j ON j.id = r.job_id
"""

_SECONDS = """
SELECT j.target_digest, r.spec ->> 'task' AS task,
       CAST(sum(took.seconds) / sum(j.done) AS float) AS mean,
       CAST(min(took.seconds / j.done) AS float) AS fastest, CAST(max(took.seconds / j.done) AS float) AS slowest
FROM job j JOIN run r ON r.id = j.run_id JOIN claim c ON c.id = j.claim_id
CROSS JOIN LATERAL (SELECT extract(epoch FROM c.ended_at - c.started_at) AS seconds) AS took
WHERE j.kind = 'GENERATE' AND j.state = 'DONE' AND j.done > 0 AND c.ended_at IS NOT NULL
  AND j.project_id = :project AND j.target_digest = ANY(CAST(:targets AS varchar[]))
GROUP BY j.target_digest, r.spec ->> 'task'
"""

_BY_TARGET = """
SELECT j.target_digest, CAST(sum(took.seconds) / sum(j.done) AS float) AS mean,
       CAST(min(took.seconds / j.done) AS float) AS fastest, CAST(max(took.seconds / j.done) AS float) AS slowest
FROM job j JOIN claim c ON c.id = j.claim_id
CROSS JOIN LATERAL (SELECT extract(epoch FROM c.ended_at - c.started_at) AS seconds) AS took
WHERE j.kind = ANY(CAST(:kinds AS varchar[])) AND j.state = 'DONE' AND j.done > 0 AND c.ended_at IS NOT NULL
  AND j.project_id = :project AND j.target_digest = ANY(CAST(:targets AS varchar[]))
GROUP BY j.target_digest
"""

_COSTS = """
SELECT avg(cost) AS mean, min(cost) AS lowest, max(cost) AS highest FROM (
  SELECT CAST(r.headline ->> 'cost_per_answer' AS float) AS cost FROM run r
  WHERE r.project_id = :project AND r.spec ->> 'task' = :task AND r.headline IS NOT NULL
    AND CAST(r.spec -> 'prices' AS jsonb) = CAST(:prices AS jsonb)
    AND r.id IN (SELECT j.run_id FROM job j WHERE j.target_digest = :target AND j.kind = 'GENERATE'
                   AND j.state = 'DONE')
) AS told
"""
