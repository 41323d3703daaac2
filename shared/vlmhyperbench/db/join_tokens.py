"""Join tokens by their public prefix; of the secret only an HMAC is stored."""

from __future__ import annotations

from datetime import datetime, timedelta

from sqlalchemy import func, insert, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from vlmhyperbench.db.queries import fetch_all, fetch_exactly_one, fetch_one, page_size, table_of
from vlmhyperbench.db.tables import JoinTokenRow
from vlmhyperbench.db.views import JoinTokenView
from vlmhyperbench.domain.steps import WorkerKind

_TOKEN = table_of(JoinTokenRow)


async def add(
    session: AsyncSession,
    *,
    prefix: str,
    hmac_sha256: str,
    kind: WorkerKind | None,
    created_by: str,
    expires_in: timedelta,
    max_uses: int,
) -> JoinTokenView:
    """Add a token that expires after this time, by the database's clock."""
    statement = (
        insert(_TOKEN)
        .values(
            prefix=prefix,
            hmac_sha256=hmac_sha256,
            kind=kind,
            created_by=created_by,
            expires_at=func.now() + expires_in,
            max_uses=max_uses,
        )
        .returning(*_TOKEN.c)
    )
    return await fetch_exactly_one(session, JoinTokenView, statement)


async def get(session: AsyncSession, prefix: str) -> tuple[JoinTokenView, datetime] | None:
    """Read a token in whatever state it is, and the time of the database's clock; None if there is none."""
    token = await fetch_one(session, JoinTokenView, select(_TOKEN).where(_TOKEN.c.prefix == prefix))
    return None if token is None else (token, await now(session))


async def now(session: AsyncSession) -> datetime:
    """Return the time of the database's clock."""
    instant: datetime = (await session.execute(select(func.now()))).scalar_one()
    return instant


async def use(session: AsyncSession, prefix: str) -> bool:
    """Count one use of a token and return whether it was still valid."""
    used = await session.execute(
        update(_TOKEN)
        .where(
            _TOKEN.c.prefix == prefix,
            _TOKEN.c.revoked_at.is_(None),
            _TOKEN.c.expires_at > func.now(),
            _TOKEN.c.uses < _TOKEN.c.max_uses,
        )
        .values(uses=_TOKEN.c.uses + 1)
        .returning(_TOKEN.c.prefix)
    )
    return used.one_or_none() is not None


async def set_account(
    session: AsyncSession, prefix: str, account: str, *, redis_sha256: str | None = None
) -> JoinTokenView | None:
    """Record which account the workers of a token have."""
    changed = update(_TOKEN).where(_TOKEN.c.prefix == prefix).values(account=account, redis_sha256=redis_sha256)
    return await fetch_one(session, JoinTokenView, changed.returning(*_TOKEN.c))


async def with_accounts(session: AsyncSession) -> list[JoinTokenView]:
    """Read the tokens that have accounts of their own, revoked ones among them."""
    return await fetch_all(session, JoinTokenView, select(_TOKEN).where(_TOKEN.c.account == "own"))


async def page(session: AsyncSession, *, limit: int = 100) -> list[JoinTokenView]:
    """Read the newest tokens."""
    statement = select(_TOKEN).order_by(_TOKEN.c.created_at.desc(), _TOKEN.c.prefix).limit(page_size(limit))
    return await fetch_all(session, JoinTokenView, statement)


async def revoke(session: AsyncSession, prefix: str, *, revoked_by: str) -> JoinTokenView | None:
    """Revoke a token, which keeps its first revocation; None if there is none."""
    await session.execute(
        update(_TOKEN)
        .where(_TOKEN.c.prefix == prefix, _TOKEN.c.revoked_at.is_(None))
        .values(revoked_at=func.now(), revoked_by=revoked_by)
    )
    return await fetch_one(session, JoinTokenView, select(_TOKEN).where(_TOKEN.c.prefix == prefix))
