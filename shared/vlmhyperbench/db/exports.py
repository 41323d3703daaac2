"""Exports: added, claimed with a lease, renewed with their progress, finished, cancelled, and deleted when they expire.

Every write of a process that makes one checks its claim, so a process that was paused past its lease changes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID, uuid4

from sqlalchemy import insert, select, text
from sqlalchemy.ext.asyncio import AsyncSession

from vlmhyperbench.db.queries import PageKey, fetch_all, fetch_exactly_one, fetch_one, newest_first, table_of
from vlmhyperbench.db.tables import ExportRow
from vlmhyperbench.db.views import ExportView

MAX_ATTEMPTS = 3
LEASE_S = 30
KEPT_HOURS = 24
"""How long the file of an export is kept; its row a week longer."""

_EXPORT = table_of(ExportRow)


async def add(
    session: AsyncSession, *, project_id: str, run_ids: Sequence[UUID], format_: str, created_by: str
) -> ExportView:
    """Add an export that waits for a process."""
    new_id = uuid4()
    values = {"id": new_id, "project_id": project_id, "run_ids": list(run_ids), "format": format_}
    await session.execute(insert(_EXPORT).values(**values, created_by=created_by))
    return await fetch_exactly_one(session, ExportView, select(_EXPORT).where(_EXPORT.c.id == new_id))


async def get(session: AsyncSession, export_id: UUID, *, project_id: str) -> ExportView | None:
    """Read an export of a project."""
    statement = select(_EXPORT).where(_EXPORT.c.id == export_id, _EXPORT.c.project_id == project_id)
    return await fetch_one(session, ExportView, statement)


async def page(
    session: AsyncSession, *, project_id: str, after: PageKey | None = None, limit: int = 50
) -> list[ExportView]:
    """Read a page of a project's exports, newest first."""
    statement = select(_EXPORT).where(_EXPORT.c.project_id == project_id)
    return await fetch_all(session, ExportView, newest_first(statement, _EXPORT, after, limit))


async def count_open(session: AsyncSession, project_id: str) -> int:
    """Count the exports of a project that are not made yet."""
    return await session.scalar(text(_OPEN), {"project": project_id}) or 0


async def claim(session: AsyncSession) -> ExportView | None:
    """Claim the oldest export that waits, or whose process has lost its lease; None if there is none.

    One that has lost three processes fails instead.
    """
    await session.execute(text(_FAIL), {"max": MAX_ATTEMPTS})
    return await fetch_one(session, ExportView, text(_CLAIM).bindparams(claim=uuid4(), lease=LEASE_S))


async def renew(session: AsyncSession, export: ExportView, *, done: int, total: int | None) -> bool:
    """Renew the lease and write the progress; False if the export was cancelled or claimed by another process."""
    values = {"id": export.id, "claim": export.claim_id, "lease": LEASE_S, "done": done, "total": total}
    return (await session.execute(text(_RENEW), values)).one_or_none() is not None


async def finish(
    session: AsyncSession, export: ExportView, *, done: int, name: str, storage_key: str, sha256: str, size_bytes: int
) -> bool:
    """Record the stored file; False if the export was cancelled or claimed by another process."""
    values = {
        "id": export.id,
        "claim": export.claim_id,
        "done": done,
        "name": name,
        "key": storage_key,
        "sha256": sha256,
        "size": size_bytes,
        "kept": KEPT_HOURS,
    }
    return (await session.execute(text(_FINISH), values)).one_or_none() is not None


async def fail(session: AsyncSession, export: ExportView, error: str) -> None:
    """Record why an export cannot be made."""
    await session.execute(text(_FAILED), {"id": export.id, "claim": export.claim_id, "error": error})


async def cancel(session: AsyncSession, export_id: UUID) -> None:
    """Cancel an export that is not made yet; the process that makes it learns of it when it renews its lease."""
    await session.execute(text(_CANCEL), {"id": export_id})


async def expire(session: AsyncSession) -> list[str]:
    """Mark the exports whose time is over and delete old rows; return the keys of files to delete."""
    await session.execute(text(_FORGET), {"kept": KEPT_HOURS})
    return list((await session.execute(text(_EXPIRE))).scalars())


_OPEN = "SELECT count(*) FROM export WHERE project_id = :project AND state IN ('QUEUED', 'RUNNING')"

_FAIL = """
UPDATE export SET state = 'FAILED', finished_at = now(), claim_id = NULL,
       error = 'Each process that made it has ended before it was done.'
WHERE state = 'RUNNING' AND lease_until < now() AND attempts >= :max
"""

_CLAIM = """
UPDATE export SET state = 'RUNNING', claim_id = :claim, attempts = attempts + 1, done = 0,
       lease_until = now() + make_interval(secs => :lease)
WHERE id = (
  SELECT id FROM export WHERE state = 'QUEUED' OR (state = 'RUNNING' AND lease_until < now())
  ORDER BY created_at, id LIMIT 1 FOR UPDATE SKIP LOCKED
) RETURNING *
"""

_RENEW = """
UPDATE export SET lease_until = now() + make_interval(secs => :lease), done = :done, total = :total
WHERE id = :id AND claim_id = :claim AND state = 'RUNNING' RETURNING id
"""

_FINISH = """
UPDATE export SET state = 'DONE', done = :done, total = :done, name = :name, storage_key = :key, sha256 = :sha256,
       size_bytes = :size, finished_at = now(), lease_until = NULL,
       expires_at = now() + make_interval(hours => :kept)
WHERE id = :id AND claim_id = :claim AND state = 'RUNNING' RETURNING id
"""

_FAILED = """
UPDATE export SET state = 'FAILED', error = :error, finished_at = now(), lease_until = NULL
WHERE id = :id AND claim_id = :claim AND state = 'RUNNING'
"""

_CANCEL = """
UPDATE export SET state = 'CANCELLED', finished_at = now(), lease_until = NULL
WHERE id = :id AND state IN ('QUEUED', 'RUNNING')
"""

_EXPIRE = """
WITH due AS (
  SELECT id, storage_key FROM export WHERE state = 'DONE' AND expires_at < now() FOR UPDATE SKIP LOCKED
)
UPDATE export SET state = 'EXPIRED', storage_key = NULL, sha256 = NULL FROM due WHERE export.id = due.id
RETURNING due.storage_key
"""

_FORGET = """
DELETE FROM export WHERE finished_at < now() - make_interval(hours => :kept, days => 7) AND storage_key IS NULL
"""
