"""How long jobs have taken before, for plans on paper and for the order of jobs that share devices.

A job counts with the answers that its last claim has measured itself, and the time that these took: rows that were
reused, or that an earlier claim has measured, took none of it.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import JsonValue
from sqlalchemy import Row, text
from sqlalchemy.ext.asyncio import AsyncSession

from vlmhyperbench.domain.paces import Pace, Paces
from vlmhyperbench.domain.scheduling import RunningJob


async def measured_paces(
    session: AsyncSession, target_digests: Sequence[str], *, project_id: str
) -> dict[tuple[str, str], Paces]:
    """Read how long answers took, by target and task: what finished jobs of runs have taken."""
    rows = await session.execute(text(_BY_TASK), {"targets": list(target_digests), "project": project_id})
    return {(row.target_digest, row.task): _paces(row) for row in rows}


async def verdict_paces(session: AsyncSession, target_digests: Sequence[str], *, project_id: str) -> dict[str, Paces]:
    """Read how long verdicts took, by the judge's target: what finished jobs of judges have taken."""
    return await _paces_of(session, target_digests, ["JUDGE"], project_id=project_id)


async def answer_paces(session: AsyncSession, target_digests: Sequence[str], *, project_id: str) -> dict[str, Paces]:
    """Read how long answers took, by target, alone or as a member of a pipeline, whatever the task."""
    return await _paces_of(session, target_digests, ["GENERATE", "MEMBER"], project_id=project_id)


async def _paces_of(
    session: AsyncSession, target_digests: Sequence[str], kinds: Sequence[str], *, project_id: str
) -> dict[str, Paces]:
    values = {"targets": list(target_digests), "kinds": list(kinds), "project": project_id}
    rows = await session.execute(text(_BY_TARGET), values)
    return {row.target_digest: _paces(row) for row in rows}


def _paces(row: Row[Any]) -> Paces:
    return Paces(
        mean=Pace(answer_s=row.answer_s, start_s=row.start_s),
        fastest=Pace(answer_s=row.least_answer_s, start_s=row.least_start_s),
        slowest=Pace(answer_s=row.most_answer_s, start_s=row.most_start_s),
    )


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


async def recent_paces(session: AsyncSession, target_digests: Collection[str]) -> dict[str, Pace]:
    """Read the mean pace by target, over its last finished jobs; unmeasured ones are left out."""
    rows = await session.execute(text(_RECENT), {"targets": sorted(target_digests), "jobs": _RECENT_JOBS})
    return {row.target_digest: Pace(answer_s=row.answer_s, start_s=row.start_s) for row in rows}


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

# What the last claim of a job j has measured; the worker records both with its cost.
_TOOK = """JOIN claim c ON c.id = j.claim_id CROSS JOIN LATERAL (
  SELECT CAST(c.client ->> 'answers' AS bigint) AS answers, CAST(c.client ->> 'answering_s' AS float) AS answering_s,
         CAST(extract(epoch FROM c.ended_at - c.started_at) AS float) AS whole_s
) AS timed
-- The two are of two clocks: that of the database and that of the worker.
CROSS JOIN LATERAL (SELECT timed.*, GREATEST(0, timed.whole_s - timed.answering_s) AS start_s) AS took"""
_IS_MEASURED = "j.state = 'DONE' AND took.answers > 0 AND took.answering_s IS NOT NULL AND took.whole_s IS NOT NULL"

_FIGURES = """
CAST(sum(took.answering_s) / sum(took.answers) AS float) AS answer_s, avg(took.start_s) AS start_s,
min(took.answering_s / took.answers) AS least_answer_s, max(took.answering_s / took.answers) AS most_answer_s,
min(took.start_s) AS least_start_s, max(took.start_s) AS most_start_s"""

# By the index of finished jobs, so that a tick reads no more of them than it uses.
_RECENT = f"""
SELECT wanted.target_digest, CAST(sum(last.answering_s) / sum(last.answers) AS float) AS answer_s,
       avg(last.start_s) AS start_s
FROM unnest(CAST(:targets AS varchar[])) AS wanted (target_digest)
CROSS JOIN LATERAL (
  SELECT took.* FROM job j {_TOOK}
  WHERE j.target_digest = wanted.target_digest AND j.kind = 'GENERATE' AND {_IS_MEASURED}
  ORDER BY j.finished_at DESC LIMIT :jobs
) AS last
GROUP BY wanted.target_digest
"""  # noqa: S608 - consists of this module's own text

_RUNNING = """
SELECT r.worker_id, r.device, r.bytes, j.target_digest,
       GREATEST(COALESCE(j.range_end - j.range_start - j.done, 1), 1) AS answers
FROM reservation r JOIN job j ON j.id = r.job_id
"""

_BY_TASK = f"""
SELECT j.target_digest, r.spec ->> 'task' AS task, {_FIGURES}
FROM job j JOIN run r ON r.id = j.run_id {_TOOK}
WHERE j.kind = 'GENERATE' AND {_IS_MEASURED}
  AND j.project_id = :project AND j.target_digest = ANY(CAST(:targets AS varchar[]))
GROUP BY j.target_digest, r.spec ->> 'task'
"""  # noqa: S608 - as above

_BY_TARGET = f"""
SELECT j.target_digest, {_FIGURES}
FROM job j {_TOOK}
WHERE j.kind = ANY(CAST(:kinds AS varchar[])) AND {_IS_MEASURED}
  AND j.project_id = :project AND j.target_digest = ANY(CAST(:targets AS varchar[]))
GROUP BY j.target_digest
"""  # noqa: S608 - as above

_COSTS = """
SELECT avg(cost) AS mean, min(cost) AS lowest, max(cost) AS highest FROM (
  SELECT CAST(r.headline ->> 'cost_per_answer' AS float) AS cost FROM run r
  WHERE r.project_id = :project AND r.spec ->> 'task' = :task AND r.headline IS NOT NULL
    AND CAST(r.spec -> 'prices' AS jsonb) = CAST(:prices AS jsonb)
    AND r.id IN (SELECT j.run_id FROM job j WHERE j.target_digest = :target AND j.kind = 'GENERATE'
                   AND j.state = 'DONE')
) AS told
"""
