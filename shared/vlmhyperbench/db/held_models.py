"""Models that users have asked to load or to unload: workers take them when they have no jobs, as they take jobs."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from uuid import UUID

from sqlalchemy import select, text
from sqlalchemy.ext.asyncio import AsyncSession

from vlmhyperbench.db.queries import fetch_all, fetch_exactly_one, fetch_one, table_of
from vlmhyperbench.db.tables import HeldModelRow
from vlmhyperbench.db.views import HeldModelView
from vlmhyperbench_sdk.types import JsonObject

_HELD = table_of(HeldModelRow)


async def ask_to_load(
    session: AsyncSession, project_id: str, name: str, *, target: JsonObject, digest: str, is_pinned: bool, by: str
) -> HeldModelView:
    """Ask that a worker loads a model; one that is loaded with the same digest stays as it is."""
    values = {"project": project_id, "name": name, "target": json.dumps(target), "digest": digest}
    return await fetch_exactly_one(session, HeldModelView, _LOAD.bindparams(**values, pinned=is_pinned, by=by))


async def ask_to_unload(session: AsyncSession, project_id: str, name: str, *, by: str) -> HeldModelView | None:
    """Ask that its worker unloads a model; None if nobody has asked to load it."""
    return await fetch_one(session, HeldModelView, _UNLOAD.bindparams(project=project_id, name=name, by=by))


async def of_project(session: AsyncSession, project_id: str) -> list[HeldModelView]:
    """Read what users of a project have asked; a model whose worker is gone counts as unloaded."""
    await session.execute(_FORGET)
    return await fetch_all(session, HeldModelView, select(_HELD).where(_HELD.c.project_id == project_id))


async def of_targets(session: AsyncSession, target_digests: Collection[str], *, project_id: str) -> list[HeldModelView]:
    """Read what users of a project have asked about these targets."""
    statement = select(_HELD).where(_HELD.c.project_id == project_id, _HELD.c.target_digest.in_(target_digests))
    return await fetch_all(session, HeldModelView, statement)


async def take(session: AsyncSession, worker_id: UUID, resident: Sequence[str]) -> HeldModelView | None:
    """Take one request for an idle worker, which is then `loading`, or is to be unloaded by it; None if there is none.

    What the worker has unloaded for other models is recorded first: a pinned model waits to be loaded again.
    """
    await session.execute(_FORGET)
    await session.execute(_EVICTED, {"worker": worker_id, "resident": list(resident)})
    return await fetch_one(session, HeldModelView, _TAKE.bindparams(worker=worker_id))


async def settle(
    session: AsyncSession,
    taken: HeldModelView,
    worker_id: UUID,
    state: str,
    reason: str | None,
    shortage: JsonObject | None = None,
) -> None:
    """Record what came of a request, unless the user has asked for something else meanwhile."""
    values = {"project": taken.project_id, "name": taken.name, "worker": worker_id, "state": state, "reason": reason}
    lacked = json.dumps(shortage) if shortage is not None else None
    await session.execute(_SETTLE, {**values, "shortage": lacked})


_LOAD = text("""
INSERT INTO held_model (project_id, name, target, target_digest, wanted, state, is_pinned, asked_by)
VALUES (:project, :name, CAST(:target AS jsonb), :digest, 'loaded', 'waiting', :pinned, :by)
ON CONFLICT (project_id, name) DO UPDATE SET
    state = CASE WHEN held_model.state IN ('loaded', 'loading') AND held_model.target_digest = excluded.target_digest
                 THEN held_model.state ELSE 'waiting' END,
    target = excluded.target, target_digest = excluded.target_digest, wanted = 'loaded', reason = NULL, shortage = NULL,
    is_pinned = excluded.is_pinned, asked_by = excluded.asked_by, asked_at = now(), changed_at = now()
RETURNING *
""")

_UNLOAD = text("""
UPDATE held_model SET wanted = 'unloaded', is_pinned = false, asked_by = :by, asked_at = now(), changed_at = now(),
    state = CASE WHEN state IN ('waiting', 'error') THEN 'unloaded' ELSE state END, reason = NULL, shortage = NULL
WHERE project_id = :project AND name = :name RETURNING *
""")

# A worker that has ended has unloaded everything.
_FORGET = text("""
UPDATE held_model SET state = CASE WHEN is_pinned AND wanted = 'loaded' THEN 'waiting' ELSE 'unloaded' END,
    reason = 'Its worker has ended.', changed_at = now()
WHERE state IN ('loading', 'loaded') AND worker_id NOT IN (SELECT id FROM worker WHERE state IN ('LIVE', 'DRAINING'))
""")

_EVICTED = text("""
UPDATE held_model SET state = CASE WHEN is_pinned THEN 'waiting' ELSE 'unloaded' END,
    reason = 'It was unloaded for another model.', changed_at = now()
WHERE state = 'loaded' AND worker_id = :worker AND target_digest <> ALL(CAST(:resident AS varchar[]))
""")

_TAKE = text("""
UPDATE held_model SET worker_id = :worker, changed_at = now(),
    state = CASE WHEN wanted = 'loaded' THEN 'loading' ELSE state END
WHERE (project_id, name) = (
    SELECT project_id, name FROM held_model
    WHERE (wanted = 'loaded' AND state = 'waiting')
       OR (wanted = 'unloaded' AND state IN ('loading', 'loaded') AND worker_id = :worker)
    ORDER BY asked_at LIMIT 1 FOR UPDATE SKIP LOCKED)
RETURNING *
""")

_SETTLE = text("""
UPDATE held_model SET state = :state, reason = :reason, shortage = CAST(:shortage AS jsonb), changed_at = now()
WHERE project_id = :project AND name = :name AND worker_id = :worker AND state IN ('loading', 'loaded')
""")
