"""Delete a run with everything that only it has, and name the files that rows refer to."""

from __future__ import annotations

from uuid import UUID

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncSession


async def files_of(session: AsyncSession, run_id: UUID) -> list[str]:
    """Read the keys of the files that a run refers to and no other run does."""
    return list((await session.execute(text(_FILES), {"run": run_id})).scalars())


async def delete_run(session: AsyncSession, run_id: UUID) -> None:
    """Delete the rows of a run; the caller has locked it and knows that nothing kept refers to it."""
    for statement in _DELETES:
        await session.execute(text(statement), {"run": run_id})


async def referenced(session: AsyncSession) -> set[str]:
    """Read the keys of every file that a row refers to."""
    return set((await session.execute(text(_REFERENCED))).scalars())


_NAMED = """
SELECT run_id, storage_key AS key FROM chunk
UNION ALL SELECT run_id, storage_key FROM measure_manifest
UNION ALL SELECT run_id, storage_key FROM artifact
UNION ALL SELECT run_id, facts_key FROM run_tier WHERE facts_key IS NOT NULL
UNION ALL SELECT run_id, archive_key FROM run_tier WHERE archive_key IS NOT NULL
"""

_FILES = f"""
WITH named AS ({_NAMED})
SELECT DISTINCT key FROM named own WHERE run_id = :run
  AND NOT EXISTS (SELECT FROM named other WHERE other.key = own.key AND other.run_id IS DISTINCT FROM own.run_id)
ORDER BY key
"""  # noqa: S608 - consists of this module's own text

_REFERENCED = f"""
SELECT key FROM ({_NAMED}) named
UNION ALL SELECT storage_key FROM export WHERE storage_key IS NOT NULL
"""  # noqa: S608 - consists of this module's own text

_DELETES = (
    "DELETE FROM fact WHERE run_id = :run",
    "DELETE FROM reused_fact WHERE run_id = :run",
    "DELETE FROM reused_phase WHERE run_id = :run",
    "DELETE FROM chunk WHERE run_id = :run",
    "DELETE FROM measure_manifest WHERE run_id = :run",
    "DELETE FROM artifact WHERE run_id = :run",
    "DELETE FROM event WHERE stream_id = :run",
    "DELETE FROM reservation WHERE job_id IN (SELECT id FROM job WHERE run_id = :run)",
    "DELETE FROM claim WHERE job_id IN (SELECT id FROM job WHERE run_id = :run)",
    "DELETE FROM phase WHERE run_id = :run",
    "DELETE FROM job WHERE run_id = :run",
    "DELETE FROM idempotency_key WHERE resource = 'run' AND resource_id = :run",
    "DELETE FROM run WHERE id = :run",
)
"""In the order of the references between the tables."""
