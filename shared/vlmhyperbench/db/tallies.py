"""Counts for lists and the live feed: the progress of runs, and the states of an experiment's runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncSession


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """Number of rows of a run's inference so far."""

    done: int = 0
    failed: int = 0
    """Number of those rows that are not `ok`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """Number of a stream's last event, and whether its run or experiment is still open."""

    seq: int
    is_open: bool
    total: int | None


async def of_runs(session: AsyncSession, run_ids: Sequence[UUID]) -> dict[UUID, Tally]:
    """Count the answers of several runs, including reused ones; a run without shards and reused phases is left out."""
    rows = await session.execute(text(_TALLIES), {"ids": list(run_ids)})
    return {row.run_id: Tally(done=row.done, failed=row.failed) for row in rows}


async def run_states(session: AsyncSession, experiment_ids: Sequence[UUID]) -> dict[UUID, dict[str, int]]:
    """Count the runs of several experiments by state."""
    rows = await session.execute(text(_STATES), {"ids": list(experiment_ids)})
    states: dict[UUID, dict[str, int]] = {}
    for row in rows:
        states.setdefault(row.experiment_id, {})[row.state] = row.runs
    return states


async def paused(session: AsyncSession, experiment_ids: Sequence[UUID]) -> set[UUID]:
    """Return those of the experiments that have open runs, all of which are paused."""
    return set((await session.execute(text(_PAUSED), {"ids": list(experiment_ids)})).scalars())


async def heads(session: AsyncSession, stream_ids: Sequence[UUID]) -> dict[UUID, Head]:
    """Read the heads of several streams; ids that do not exist are left out."""
    rows = await session.execute(text(_HEADS), {"ids": list(stream_ids)})
    return {row.id: Head(seq=row.event_seq, is_open=row.is_open, total=row.total) for row in rows}


_TALLIES = """
WITH reused AS (
    SELECT part.* FROM reused_phase part JOIN phase own ON own.run_id = part.run_id AND own.no = part.phase
    WHERE part.run_id = ANY(:ids) AND own.counts
), rows AS (
    SELECT run_id, done, failed FROM job
    WHERE run_id = ANY(:ids) AND counts
    UNION ALL
    SELECT run_id, CAST(sum(rows) AS bigint), CAST(sum(failed) AS bigint) FROM reused GROUP BY run_id
    UNION ALL
    SELECT row.run_id, count(*), count(*) FILTER (WHERE NOT row.is_ok)
    FROM reused_fact row JOIN reused ON reused.run_id = row.run_id AND reused.phase = row.phase
    GROUP BY row.run_id
)
SELECT run_id, CAST(sum(done) AS bigint) AS done, CAST(sum(failed) AS bigint) AS failed FROM rows GROUP BY run_id
"""

_STATES = """
SELECT experiment_id, state, count(*) AS runs FROM run WHERE experiment_id = ANY(:ids)
GROUP BY experiment_id, state ORDER BY experiment_id, state
"""

_PAUSED = """
SELECT experiment_id FROM run WHERE experiment_id = ANY(:ids) AND finished_at IS NULL
GROUP BY experiment_id HAVING bool_and(is_paused)
"""

_HEADS = """
SELECT id, event_seq, finished_at IS NULL AS is_open, total FROM run WHERE id = ANY(:ids)
UNION ALL
SELECT id, event_seq, finished_at IS NULL, NULL FROM experiment WHERE id = ANY(:ids)
"""
