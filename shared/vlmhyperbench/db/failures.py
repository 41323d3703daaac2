"""Count the failed requests of a run by their errors, most frequent first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncSession

from vlmhyperbench.domain.causes import FailedRequest, read_row
from vlmhyperbench.domain.failures import Failure

MAX_GROUPS = 100
"""Maximum number of different errors that are returned, most frequent first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureCount:
    """Failed requests whose errors differ only in numbers."""

    error: str
    """The error of one of them: `code: message [words]`."""
    error_code: str
    http_status: int | None
    failure: Failure
    count: int

    @property
    def failed(self) -> FailedRequest:
        """The failure in the form that the table of causes reads."""
        return read_row(error_code=self.error_code, http_status=self.http_status, error=self.error)


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureCounts:
    """Numbers of answered and failed requests."""

    ok: int
    failures: Sequence[FailureCount]

    @property
    def done(self) -> int:
        """Number of requests; failures beyond `MAX_GROUPS` different errors are not included."""
        return self.ok + sum(group.count for group in self.failures)


async def of_run(session: AsyncSession, run_id: UUID, *, phase: int | None = None) -> FailureCounts:
    """Count the rows of a run, measured and reused, in one phase or in all counting phases."""
    values = {"run": run_id, "phase": phase}
    ok = int((await session.execute(text(_OK), values)).scalar_one())
    rows = await session.execute(text(_FAILED), values | {"limit": MAX_GROUPS})
    groups = [
        FailureCount(
            error=row.error or "",
            error_code=row.error_code,
            http_status=row.http_status,
            failure=row.failure,
            count=row.requests,
        )
        for row in rows
    ]
    return FailureCounts(ok=ok, failures=groups)


async def planned(session: AsyncSession, run_id: UUID, phase: int) -> int:
    """Count the requests that are planned for all jobs of a phase."""
    return int((await session.execute(text(_PLANNED), {"run": run_id, "phase": phase})).scalar_one())


_PLANNED = """
SELECT coalesce(sum(range_end - range_start), 0) FROM job WHERE run_id = :run AND phase = :phase
"""

_COUNTED = """
WITH counted AS (
    SELECT p.run_id, p.no FROM phase p JOIN run r ON r.id = p.run_id
    WHERE p.run_id = :run AND CASE
        WHEN CAST(:phase AS integer) IS NULL
        THEN p.counts AND (p.state <> 'VOID' OR r.state = 'FAILED')
        ELSE p.no = :phase END
), whole AS (
    SELECT run_id, no FROM counted
    UNION ALL
    SELECT source_run_id, source_phase FROM reused_phase
    WHERE run_id = :run AND phase IN (SELECT no FROM counted)
)
"""

_OK = f"""{_COUNTED}
SELECT (SELECT count(*) FROM whole w JOIN fact f ON f.run_id = w.run_id AND f.phase = w.no WHERE f.status = 'ok')
     + (SELECT coalesce(CAST(sum(gone.rows) AS bigint), 0) FROM whole w JOIN run_tier t ON t.run_id = w.run_id
        CROSS JOIN jsonb_to_recordset(t.counts) AS gone(phase integer, status text, rows bigint)
        WHERE t.tier <> 'hot' AND gone.phase = w.no AND gone.status = 'ok')
     + (SELECT count(*) FROM counted c JOIN reused_fact k ON k.run_id = c.run_id AND k.phase = c.no WHERE k.is_ok)
"""  # noqa: S608 - consists of this module's own text

_FAILED = f"""{_COUNTED}, rows AS (
    SELECT f.error, coalesce(f.error_code, f.status) AS error_code, f.http_status, f.failure, 1 AS requests
    FROM whole w JOIN fact f ON f.run_id = w.run_id AND f.phase = w.no WHERE f.status <> 'ok'
    UNION ALL
    SELECT gone.error, gone.error_code, gone.http_status, gone.failure, gone.requests
    FROM whole w JOIN run_tier t ON t.run_id = w.run_id
    CROSS JOIN jsonb_to_recordset(t.failures) AS gone(
        phase integer, error text, error_code text, http_status integer, failure text, requests bigint)
    WHERE t.tier <> 'hot' AND gone.phase = w.no
    UNION ALL
    SELECT f.error, coalesce(f.error_code, f.status), f.http_status, f.failure, 1
    FROM counted c JOIN reused_fact k ON k.run_id = c.run_id AND k.phase = c.no AND NOT k.is_ok
    JOIN fact f ON f.run_id = k.source_run_id AND f.phase = k.source_phase AND f.ordinal = k.source_ordinal
)
SELECT min(error) AS error, error_code, http_status, coalesce(min(failure), 'infrastructure') AS failure,
       CAST(sum(requests) AS bigint) AS requests
FROM rows
GROUP BY error_code, http_status, regexp_replace(error, '[0-9]+', '#', 'g')
ORDER BY sum(requests) DESC, 1 LIMIT :limit
"""  # noqa: S608 - consists of this module's own text
