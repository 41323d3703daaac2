"""API keys by their public prefix; of the secret only an HMAC is stored."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import func, select, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession

from vlmhyperbench.db.queries import fetch_one, table_of
from vlmhyperbench.db.tables import ApiKeyRow
from vlmhyperbench.db.views import ApiKeyView, view_of

_KEY = table_of(ApiKeyRow)


async def add(
    session: AsyncSession,
    *,
    prefix: str,
    hmac_sha256: str,
    principal: str,
    project_id: str,
    scopes: Sequence[str],
    expires_at: datetime | None = None,
) -> ApiKeyView:
    """Add a key, or replace the secret and scopes of the key with this prefix, which is then no longer revoked."""
    values = {
        "hmac_sha256": hmac_sha256,
        "principal": principal,
        "project_id": project_id,
        "scopes": list(scopes),
        "expires_at": expires_at,
        "revoked_at": None,
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
    statement = select(_KEY).where(
        _KEY.c.prefix == prefix,
        _KEY.c.revoked_at.is_(None),
        _KEY.c.expires_at.is_(None) | (_KEY.c.expires_at > func.now()),
    )
    return await fetch_one(session, ApiKeyView, statement)


async def revoke(session: AsyncSession, prefix: str) -> bool:
    """Revoke a key and return whether it was not revoked before.

    Only tests call it until accounts are managed.
    """
    revoked = await session.execute(
        update(_KEY)
        .where(_KEY.c.prefix == prefix, _KEY.c.revoked_at.is_(None))
        .values(revoked_at=func.now())
        .returning(_KEY.c.prefix)
    )
    return revoked.one_or_none() is not None
