"""Read to which trace a job, a run or a claim belongs."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncSession

from vlmhyperbench.monitoring.trace_context import TraceContext, owner_context, span_id_of


class EndedOwner(NamedTuple):
    """The span of a run or an experiment that has ended."""

    context: TraceContext
    name: str
    state: str
    start_ns: int
    end_ns: int


class OpenClaim(NamedTuple):
    """The span of a claim that another process has to end."""

    context: TraceContext
    kind: str
    start_ns: int


async def of_job(session: AsyncSession, job_id: UUID) -> TraceContext | None:
    """Return the span of the run or experiment that owns a job; None if the job does not exist."""
    row = (await session.execute(text(_OWNER), {"job": job_id})).one_or_none()
    return None if row is None else owner_context(row.id, row.traceparent)


async def ended(session: AsyncSession, owner_id: UUID) -> EndedOwner | None:
    """Return the span of a run or an experiment; None while it has not ended."""
    row = (await session.execute(text(_ENDED), {"id": owner_id})).one_or_none()
    if row is None:
        return None
    context = owner_context(owner_id, row.traceparent)
    return EndedOwner(context, row.what, row.state, _ns(row.created_at), _ns(row.finished_at))


async def open_claim(session: AsyncSession, job_id: UUID) -> OpenClaim | None:
    """Return the span of the claim that a job is under; None without one."""
    row = (await session.execute(text(_CLAIM), {"job": job_id})).one_or_none()
    if row is None:
        return None
    owner = owner_context(row.owner_id, row.traceparent)
    own = TraceContext(
        trace_id=owner.trace_id,
        span_id=span_id_of(row.claim_id),
        parent_id=owner.span_id,
        is_sampled=owner.is_sampled,
    )
    return OpenClaim(own, row.kind, _ns(row.started_at))


def _ns(instant: datetime) -> int:
    return round(instant.timestamp() * 1e9)


_OWNER = """
SELECT COALESCE(r.id, e.id) AS id, COALESCE(r.traceparent, e.traceparent) AS traceparent
FROM job j
LEFT JOIN run r ON r.id = j.run_id AND j.scope = 'run'
LEFT JOIN experiment e ON e.id = j.experiment_id AND j.scope = 'experiment'
WHERE j.id = :job
"""

_ENDED = """
SELECT 'run' AS what, state, traceparent, created_at, finished_at FROM run
WHERE id = :id AND finished_at IS NOT NULL
UNION ALL
SELECT 'experiment', state, traceparent, created_at, finished_at FROM experiment
WHERE id = :id AND finished_at IS NOT NULL
"""

_CLAIM = """
SELECT c.id AS claim_id, c.started_at, j.kind,
       COALESCE(r.id, e.id) AS owner_id, COALESCE(r.traceparent, e.traceparent) AS traceparent
FROM job j
JOIN claim c ON c.id = j.claim_id
LEFT JOIN run r ON r.id = j.run_id AND j.scope = 'run'
LEFT JOIN experiment e ON e.id = j.experiment_id AND j.scope = 'experiment'
WHERE j.id = :job AND j.state = 'RUNNING'
"""
