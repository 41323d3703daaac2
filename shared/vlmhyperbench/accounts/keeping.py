"""Make the accounts of a token when it is first used, end them when it is revoked, and repair what was interrupted."""

from __future__ import annotations

import asyncio
import hashlib
from dataclasses import dataclass
from typing import Final

from vlmhyperbench.accounts import redis_users
from vlmhyperbench.db import join_tokens, worker_accounts
from vlmhyperbench.db.engine import AsyncSession, Database
from vlmhyperbench.db.views import JoinTokenView
from vlmhyperbench.domain.api_keys import hmac_of
from vlmhyperbench.errors import NotReady, Unavailable
from vlmhyperbench.logs import get_logger

REPAIR_S: Final = 5.0
"""How often is looked for accounts that Redis has forgotten, and for those whose end was interrupted."""

_LOG = get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """An account of the same name in Postgres and Redis."""

    name: str
    database_password: str
    redis_password: str


def account_of(token: str, prefix: str, pepper: str) -> Account:
    """Return the account of a token. Its passwords need the token and the pepper, so that neither is stored."""
    return Account(
        name=prefix,
        database_password=hmac_of(f"database {token}", pepper),
        redis_password=hmac_of(f"redis {token}", pepper),
    )


async def make(session: AsyncSession, token: JoinTokenView, account: Account, *, redis_url: str) -> None:
    """Make both accounts of a token whose use this transaction counts.

    Raises:
        NotReady: the platform's accounts may not make others (code `accounts_denied`).
        Unavailable: a server does not answer.
    """
    await worker_accounts.make(session, account.name, account.database_password)
    digest = hashlib.sha256(account.redis_password.encode()).hexdigest()
    await join_tokens.set_account(session, token.prefix, "own", redis_sha256=digest)
    await redis_users.make(redis_url, account.name, digest, token.kind)


async def revoke(database: Database, prefix: str, *, revoked_by: str, redis_url: str) -> JoinTokenView | None:
    """Revoke a token and end its accounts and their sessions; None if there is no such token.

    If a server does not answer, the token is revoked all the same, and `repair` ends what is left.

    Raises:
        Unavailable: the database does not answer.
    """
    async with database.transaction() as session:
        revoked = await join_tokens.revoke(session, prefix, revoked_by=revoked_by)
        if revoked is None or revoked.account != "own":
            return revoked
        await worker_accounts.disable(session, prefix)
    return await _end(database, revoked, redis_url)


async def repair(database: Database, *, redis_url: str) -> None:
    """End the accounts of revoked tokens, and make the users anew that Redis has lost with its data.

    Raises:
        NotReady: the platform's accounts may not.
        Unavailable: a server does not answer.
    """
    async with database.transaction() as session:
        tokens = await join_tokens.with_accounts(session)
    live = [token for token in tokens if token.revoked_at is None]
    known = await redis_users.users(redis_url) if live else frozenset[str]()
    for token in live:
        if token.prefix not in known and token.redis_sha256 is not None:
            await redis_users.make(redis_url, token.prefix, token.redis_sha256, token.kind)
            _LOG.info("account.restored", account=token.prefix)
    for token in tokens:
        if token.revoked_at is not None:
            await _end(database, token, redis_url)


async def keep(database: Database, *, redis_url: str) -> None:
    """Repair until cancelled."""
    while True:
        try:
            await repair(database, redis_url=redis_url)
        except (Unavailable, NotReady) as error:
            _LOG.warning("account.not_repaired", reason=error.message)
        await asyncio.sleep(REPAIR_S)


async def check_may_make(database_url: str, *, redis_url: str) -> None:
    """Check that the platform's accounts may make those of workers; nothing is made.

    Raises:
        NotReady: one of them may not (code `accounts_denied`).
        Unavailable: a server does not answer.
    """
    database = Database(database_url, name="check")
    try:
        async with database.transaction() as session:
            if not await worker_accounts.may_make(session):
                raise worker_accounts.denied()
    finally:
        await database.close()
    await redis_users.check_may_make(redis_url)


async def _end(database: Database, token: JoinTokenView, redis_url: str) -> JoinTokenView:
    try:
        async with database.transaction() as session:
            await worker_accounts.disable(session, token.prefix)
        async with database.transaction() as session:
            sessions = await worker_accounts.remove(session, token.prefix)
        await redis_users.remove(redis_url, token.prefix)
        async with database.transaction() as session:
            ended = await join_tokens.set_account(session, token.prefix, "ended", redis_sha256=None)
    except (Unavailable, NotReady) as error:
        _LOG.warning("account.not_ended", account=token.prefix, reason=error.message)
        return token
    _LOG.info("account.ended", account=token.prefix, sessions=sessions)
    return ended or token
