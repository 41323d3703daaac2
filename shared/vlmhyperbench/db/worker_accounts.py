"""Accounts by which workers use the database: a role with a password of its own, and the rights of `RIGHTS` only."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from psycopg.errors import InsufficientPrivilege
from sqlalchemy import Connection, text
from sqlalchemy.engine import make_url
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncSession

from vlmhyperbench.db.connecting import connected
from vlmhyperbench.db.tables.rights import RIGHTS
from vlmhyperbench.errors import NotReady, Unavailable

_KNOWN = text("SELECT EXISTS (SELECT FROM pg_roles WHERE rolname = :name)")
_MAY_MAKE = text("SELECT rolsuper OR rolcreaterole FROM pg_roles WHERE rolname = current_user")
_TABLES = text("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")
_SESSIONS = text("SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE usename = :name")
_OWN = text(
    "SELECT prefix FROM join_token JOIN pg_roles ON rolname = prefix WHERE account = 'own' AND revoked_at IS NULL"
)
_FAILURE = "The account of a worker cannot be made"
_TURN = text("SELECT pg_advisory_xact_lock(hashtext('worker accounts'), 0)")
"""Grants of two transactions at once fail, because both change the rows of the same tables in the catalogue."""


async def make(session: AsyncSession, name: str, password: str) -> None:
    """Make an account, or give it its password and rights anew.

    Raises:
        NotReady: the platform's account may not make others (code `accounts_denied`).
    """
    try:
        await session.run_sync(lambda own: _make(own.connection(), name, password))
    except DBAPIError as error:
        raise _as_ours(error) from error


async def disable(session: AsyncSession, name: str) -> None:
    """Let nobody log in by an account any more, from the commit on; without such an account, do nothing."""
    if await session.scalar(_KNOWN, {"name": name}):
        await session.run_sync(lambda own: own.connection().exec_driver_sql(f"ALTER ROLE {_quoted(name)} NOLOGIN"))


async def remove(session: AsyncSession, name: str) -> int:
    """End the sessions of a disabled account and remove it; return how many sessions there were."""
    if not await session.scalar(_KNOWN, {"name": name}):
        return 0
    ended = int(await session.scalar(_SESSIONS, {"name": name}) or 0)
    await session.run_sync(lambda own: _remove(own.connection(), name))
    return ended


async def may_make(session: AsyncSession) -> bool:
    """Return whether the platform's account may make others."""
    return bool(await session.scalar(_MAY_MAKE))


def prepare(database_url: str, shared_url: str = "") -> None:
    """Give the accounts of joined workers the rights on the tables of this version, and make the shared account.

    Args:
        database_url: The database, by the account of the platform.
        shared_url: The database by the account that several workers share; without one, or with that of the platform,
            none is made.

    Raises:
        NotReady: the platform's account may not make others (code `accounts_denied`).
        Unavailable: the database does not answer.
    """
    try:
        with connected(database_url, failure=_FAILURE) as connection:
            connection.execute(_TURN)
            for name in connection.scalars(_OWN).all():
                _execute(connection, _grants(connection, name))
            shared = make_url(shared_url) if shared_url else None
            if shared is not None and shared.username not in (None, make_url(database_url).username):
                _make(connection, str(shared.username), str(shared.password or ""))
    except DBAPIError as error:
        raise _as_ours(error) from error


def _make(connection: Connection, name: str, password: str) -> None:
    connection.execute(_TURN)
    quoted = _quoted(name)
    is_known = connection.scalar(_KNOWN, {"name": name})
    # The server gets, and may log, only what the password is verified by.
    driver: Any = connection.connection.driver_connection
    verifier = driver.pgconn.encrypt_password(password.encode(), name.encode(), b"scram-sha-256").decode()
    verb = "ALTER" if is_known else "CREATE"  # a new role has no other rights than to log in
    _execute(connection, [f"{verb} ROLE {quoted} LOGIN PASSWORD '{verifier}'"])
    if not is_known and not connection.scalar(text("SELECT rolsuper FROM pg_roles WHERE rolname = current_user")):
        _execute(connection, [f"GRANT {quoted} TO CURRENT_USER"])  # only its members may end the sessions of a role
    _execute(connection, _grants(connection, name))


def _remove(connection: Connection, name: str) -> None:
    connection.execute(_TURN)
    quoted, database = _quoted(name), _quoted(str(connection.engine.url.database))
    statements = (
        f"REVOKE ALL ON ALL TABLES IN SCHEMA public FROM {quoted}",
        f"REVOKE ALL ON SCHEMA public FROM {quoted}",
        f"REVOKE ALL ON DATABASE {database} FROM {quoted}",
        f"DROP ROLE {quoted}",
    )
    _execute(connection, statements)


def _grants(connection: Connection, name: str) -> Iterator[str]:
    quoted, database = _quoted(name), _quoted(str(connection.engine.url.database))
    yield f"GRANT CONNECT ON DATABASE {database} TO {quoted}"
    yield f"GRANT USAGE ON SCHEMA public TO {quoted}"
    yield f"REVOKE ALL ON ALL TABLES IN SCHEMA public FROM {quoted}"
    for table in connection.scalars(_TABLES).all():
        if rights := RIGHTS.get(table):
            yield f"GRANT {', '.join(rights)} ON {_quoted(table)} TO {quoted}"


def _execute(connection: Connection, statements: Iterable[str]) -> None:
    for statement in statements:
        connection.exec_driver_sql(statement.replace("%", "%%"))


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _as_ours(error: DBAPIError) -> NotReady | Unavailable:
    if isinstance(error.orig, InsufficientPrivilege):
        return denied()
    return Unavailable(f"{_FAILURE}: {error.orig}.")


def denied() -> NotReady:
    """Return the error that the platform's account may not make those of workers."""
    return NotReady(
        "The account of VLMHB_DATABASE_URL may not make accounts of workers.",
        cure="Let it (ALTER ROLE … CREATEROLE), or let all joined workers share one account: "
        "VLMHB_WORKER_ACCOUNTS=shared, with VLMHB_WORKER_DATABASE_URL.",
        code="accounts_denied",
    )
