"""Connections to Postgres: one pool per process, one transaction per request or step of a job."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Any, Final, TypeVar

import psycopg
from psycopg.abc import PQGen
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine

from vlmhyperbench_sdk.errors import Unavailable

__all__ = ["DATABASE_REFUSED", "AsyncSession", "Database", "unavailable"]

DATABASE_REFUSED: Final = "database_refused"
"""Code of an error because the database does not know the account or its password: waiting does not help."""

T = TypeVar("T")

_CONNECT_TIMEOUT_S = 5
_POOL_TIMEOUT_S = 10.0
_IDLE_IN_TRANSACTION_S = 60
_REFUSALS = ("password authentication failed", "no pg_hba.conf entry", "no password supplied")
"""What Postgres answers to a wrong account; an error of a connection that was never made has no code of SQL."""
_LATE_S = 5.0
"""How much later than the limit of a statement, which the server watches, its answer may arrive."""
_CANCEL_S = 1.0
"""How long the server may take to accept that a statement is cancelled, before its connection is given up."""
KEPT_ALIVE: Final[Mapping[str, int]] = {
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 10_000,
}
"""Parameters of libpq by which a connection over a network that is cut fails within seconds, not within a quarter of an
hour: a worker must be back as soon as its network is. They have no effect on a socket of this machine."""


class Database:
    """A pool of connections for one event loop; the first transaction opens the first connection."""

    def __init__(
        self,
        url: str,
        *,
        statement_timeout_s: float = 5.0,
        pool_size: int = 4,
        max_overflow: int = 8,
        name: str = "vlmhyperbench",
    ) -> None:
        options = (
            f"-c statement_timeout={round(statement_timeout_s * 1000)}"
            f" -c idle_in_transaction_session_timeout={_IDLE_IN_TRANSACTION_S * 1000}"
            " -c timezone=UTC"
            # The server notices that this machine has vanished, and frees the locks of its transaction.
            " -c tcp_keepalives_idle=10 -c tcp_keepalives_interval=5 -c tcp_keepalives_count=3"
            " -c tcp_user_timeout=15000"
        )
        self._engine = create_async_engine(
            url,
            pool_size=pool_size,
            max_overflow=max_overflow,
            pool_timeout=_POOL_TIMEOUT_S,
            pool_pre_ping=True,
            connect_args={
                "connect_timeout": _CONNECT_TIMEOUT_S,
                **KEPT_ALIVE,
                "options": options,
                "application_name": name,
                "async_creator_fn": _connecting(statement_timeout_s + _LATE_S),
            },
        )

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[AsyncSession]:
        """Open a transaction: committed when the block ends, rolled back when it raises.

        Raises:
            Unavailable: Postgres does not answer, closed the connection, ran into a timeout or a full disk, or resolved
                a deadlock. Repeating may help; if the connection broke during the commit, the outcome is unknown.
        """
        try:
            async with AsyncSession(self._engine, expire_on_commit=False) as session, session.begin():
                yield session
        except (OperationalError, InterfaceError, PoolTimeoutError) as error:
            raise unavailable(error) from error
        except DBAPIError as error:
            if not error.connection_invalidated:
                raise
            raise unavailable(error) from error

    @asynccontextmanager
    async def snapshot(self) -> AsyncIterator[AsyncSession]:
        """Open a transaction that only reads, and in which all statements see the database as of the first of them.

        Raises:
            Unavailable: as in `transaction`.
        """
        async with self.transaction() as session:
            await session.execute(text("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY"))
            yield session

    async def check(self) -> None:
        """Check that Postgres answers and has the tables.

        Raises:
            Unavailable: Postgres does not answer, as in `transaction`.
        """
        async with self.transaction() as session:
            await session.execute(text("SELECT 1 FROM run LIMIT 1"))

    async def time(self) -> datetime:
        """Return the time of Postgres' clock.

        Raises:
            Unavailable: Postgres does not answer, as in `transaction`.
        """
        async with self.transaction() as session:
            instant: datetime = (await session.execute(text("SELECT clock_timestamp()"))).scalar_one()
        return instant

    async def close(self) -> None:
        """Close every connection."""
        await self._engine.dispose()


class _Connection(psycopg.AsyncConnection[Any]):
    """A connection that waits for no answer longer than a limit: a server that hangs cannot end its statements."""

    limit_s = _CONNECT_TIMEOUT_S + _LATE_S

    async def wait(self, gen: PQGen[T], interval: float = 0.1, timeout: float | None = None) -> T:
        """Wait for an answer.

        Raises:
            psycopg.OperationalError: none arrived in time; the connection is closed.
        """
        try:
            return await super().wait(gen, interval, timeout=timeout or self.limit_s)
        except psycopg.errors._WaitTimeout as error:  # noqa: SLF001 - psycopg has no other name for it
            self.pgconn.finish()
            raise psycopg.OperationalError(f"no answer within {self.limit_s:g} s") from error

    async def cancel_safe(self, *, timeout: float = 30.0) -> None:
        """Cancel the running statement, at the latest within `_CANCEL_S`: a worker must fence itself in time."""
        await super().cancel_safe(timeout=min(timeout, _CANCEL_S))


def _connecting(limit_s: float) -> Callable[..., Awaitable[_Connection]]:
    async def connect(*words: Any, **given: Any) -> _Connection:
        connection = await _Connection.connect(*words, **given)
        connection.limit_s = limit_s
        return connection

    return connect


def unavailable(error: Exception, *, failure: str = "The database is not available") -> Unavailable:
    """Return the error that a statement or a connection failed; `failure` begins it, unless the account is refused."""
    lines = str(getattr(error, "orig", None) or error).strip().splitlines()
    reason = lines[0].rstrip(".") if lines else type(error).__name__
    if any(sign in reason for sign in _REFUSALS):
        cure = "Correct the account in VLMHB_DATABASE_URL; a worker of another machine joins again with a new token."
        return Unavailable(f"The database refuses the account: {reason}.", cure=cure, code=DATABASE_REFUSED)
    if isinstance(getattr(error, "orig", None), psycopg.errors.DiskFull):
        cure = "Free space on it, or move ended runs to cheaper tiers (docs/deploy/sizing.md); nothing stored is lost."
        return Unavailable(f"The disk of the database is full: {reason}.", cure=cure, code="database_full")
    return Unavailable(
        f"{failure}: {reason}.",
        cure="Try again when it answers: `vlmhyperbench status` and `vlmhyperbench doctor` say what is missing.",
    )
