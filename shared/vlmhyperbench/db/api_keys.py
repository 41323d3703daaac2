"""API keys by their public prefix; of the secret only an HMAC is stored, and no key is ever deleted."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime

from sqlalchemy import func, select, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession

from vlmhyperbench.db.queries import fetch_all, fetch_one, page_size, table_of
from vlmhyperbench.db.tables import ApiKeyRow
from vlmhyperbench.db.views import ApiKeyView, view_of

_KEY = table_of(ApiKeyRow)
_IS_VALID = _KEY.c.revoked_at.is_(None) & (_KEY.c.expires_at.is_(None) | (_KEY.c.expires_at > func.now()))


async def add(
    session: AsyncSession,
    *,
    prefix: str,
    hmac_sha256: str,
    principal: str,
    project_id: str,
    scopes: Sequence[str],
    expires_at: datetime | None = None,
    created_by: str | None = None,
) -> ApiKeyView:
    """Add a key, or replace the secret and scopes of the key with this prefix, which is then no longer revoked."""
    values = {
        "hmac_sha256": hmac_sha256,
        "principal": principal,
        "project_id": project_id,
        "scopes": list(scopes),
        "expires_at": expires_at,
        "revoked_at": None,
        "created_by": created_by,
        "revoked_by": None,
    }
    added = await session.execute(
        insert(_KEY)
        .values(prefix=prefix, **values)
        .on_conflict_do_update(index_elements=[_KEY.c.prefix], set_=values)
        .returning(*_KEY.c)
    )
    return view_of(ApiKeyView, added.one())


async def valid(session: AsyncSession, prefix: str) -> ApiKeyView | None:
    """Read a key that is neither revoked nor expired, by the database's clock."""
    return await fetch_one(session, ApiKeyView, select(_KEY).where(_KEY.c.prefix == prefix, _IS_VALID))


async def valid_among(session: AsyncSession, prefixes: Collection[str]) -> frozenset[str]:
    """Return which of these keys are neither revoked nor expired, by the database's clock."""
    statement = select(_KEY.c.prefix).where(_KEY.c.prefix.in_(prefixes), _IS_VALID)
    return frozenset((await session.execute(statement)).scalars())


async def of_project(session: AsyncSession, project_id: str, *, limit: int = 500) -> list[ApiKeyView]:
    """Read the keys of a project in whatever state they are, the newest first."""
    statement = select(_KEY).where(_KEY.c.project_id == project_id).order_by(_KEY.c.created_at.desc(), _KEY.c.prefix)
    return await fetch_all(session, ApiKeyView, statement.limit(page_size(limit)))


async def is_taken(session: AsyncSession, principal: str, *, project_id: str) -> bool:
    """Return whether a valid key of the project has this principal; the lock makes others wait until the commit."""
    await session.execute(select(func.pg_advisory_xact_lock(func.hashtext(f"api_key {project_id} {principal}"))))
    statement = select(_KEY.c.prefix).where(_KEY.c.project_id == project_id, _KEY.c.principal == principal, _IS_VALID)
    return (await session.execute(statement.limit(1))).first() is not None


async def revoke(session: AsyncSession, prefix: str, *, project_id: str, by: str) -> ApiKeyView | None:
    """Revoke a key of a project, which keeps its first revocation; None if there is none."""
    await session.execute(
        update(_KEY)
        .where(_KEY.c.prefix == prefix, _KEY.c.project_id == project_id, _KEY.c.revoked_at.is_(None))
        .values(revoked_at=func.now(), revoked_by=by)
    )
    statement = select(_KEY).where(_KEY.c.prefix == prefix, _KEY.c.project_id == project_id)
    return await fetch_one(session, ApiKeyView, statement)
