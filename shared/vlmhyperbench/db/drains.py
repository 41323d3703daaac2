"""Drain and resume workers, devices and machines: who did it, when and why stays in the database."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal
from uuid import UUID, uuid4

from sqlalchemy import select, text
from sqlalchemy.ext.asyncio import AsyncSession

from vlmhyperbench.db.queries import fetch_all, page_size, table_of
from vlmhyperbench.db.tables import DrainRow
from vlmhyperbench.db.views import DrainView, view_of

DrainScope = Literal["worker", "device", "machine"]

_DRAIN = table_of(DrainRow)


async def add(session: AsyncSession, *, scope: DrainScope, name: str, reason: str, by: str) -> DrainView:
    """Drain something; what is drained already gets the new reason as a new row, so that both are on record."""
    await session.execute(text(_END), {"scope": scope, "name": name, "by": by})
    values = {"id": uuid4(), "scope": scope, "name": name, "reason": reason, "by": by}
    return view_of(DrainView, (await session.execute(text(_ADD), values)).one())


async def end(session: AsyncSession, *, scope: DrainScope, name: str, by: str) -> DrainView | None:
    """Resume something; None if it is not drained."""
    row = (await session.execute(text(_END), {"scope": scope, "name": name, "by": by})).one_or_none()
    return None if row is None else view_of(DrainView, row)


async def listed(session: AsyncSession, *, is_open: bool = True, limit: int = 1000) -> Sequence[DrainView]:
    """Read what is drained now, or the newest records of all drains."""
    statement = select(_DRAIN).order_by(_DRAIN.c.drained_at.desc(), _DRAIN.c.id).limit(page_size(limit))
    return await fetch_all(session, DrainView, statement.where(_DRAIN.c.resumed_at.is_(None)) if is_open else statement)


async def names(session: AsyncSession, scope: DrainScope) -> list[tuple[str, UUID, str]]:
    """Read what may be drained: name, id of its newest worker, and that worker's name."""
    rows = await session.execute(text(_NAMES[scope]))
    return [(row.name, row.id, row.worker) for row in rows]


_ADD = """
INSERT INTO drain (id, scope, name, reason, drained_by) VALUES (:id, :scope, :name, :reason, :by) RETURNING *
"""

_END = """
UPDATE drain SET resumed_at = now(), resumed_by = :by
WHERE scope = :scope AND name = :name AND resumed_at IS NULL RETURNING *
"""

# Something that is gone may be drained too: it comes back drained.
_NAMES: dict[DrainScope, str] = {
    "worker": """SELECT DISTINCT ON (queue) queue AS name, id, name AS worker FROM worker
                 ORDER BY queue, last_seen_at DESC""",
    "device": """SELECT DISTINCT ON (d.uuid) d.uuid AS name, w.id, w.name AS worker
                 FROM device d JOIN worker w ON w.id = d.worker_id ORDER BY d.uuid, w.last_seen_at DESC""",
    "machine": """SELECT DISTINCT ON (host) host AS name, id, name AS worker FROM worker
                  ORDER BY host, last_seen_at DESC""",
}
