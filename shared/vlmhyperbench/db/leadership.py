"""Leader election by an advisory lock on a dedicated connection; two leaders at once would do no harm."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import psycopg
from psycopg.conninfo import make_conninfo
from sqlalchemy import text
from sqlalchemy.engine import make_url
from sqlalchemy.ext.asyncio import AsyncSession

from vlmhyperbench.db.engine import KEPT_ALIVE, unavailable

LEADER_KEY = 0x766C6D6862  # "vlmhb"
HOUSEKEEPER_KEY = 0x766C6D6863
"""Lock of the one process that moves and deletes stored data."""
_ANSWER_S = 5.0
_UNLOCK_S = 1.0

_LED = text(
    "SELECT EXISTS (SELECT FROM pg_locks JOIN pg_database d ON d.oid = database WHERE d.datname = current_database()"
    " AND locktype = 'advisory' AND granted AND objsubid = 1"
    " AND classid::bigint = :key >> 32 AND objid::bigint = :key & 4294967295)"
)


async def is_led(session: AsyncSession) -> bool:
    """Return whether a scheduler leads now."""
    return bool(await session.scalar(_LED, {"key": LEADER_KEY}))


class Leadership:
    """Holds a connection of its own, since the advisory lock ends with the session that took it."""

    def __init__(self, database_url: str, *, key: int = LEADER_KEY, name: str = "scheduler-leader") -> None:
        url = make_url(database_url).set(drivername="postgresql")
        self._url = make_conninfo(url.render_as_string(hide_password=False), **KEPT_ALIVE)
        self._key = key
        self._name = name
        self._connection: psycopg.AsyncConnection | None = None
        self._is_held = False

    async def hold(self) -> bool:
        """Return whether this process leads, after trying to take a free lead.

        Raises:
            Unavailable: the database does not answer, or refuses the account (code `database_refused`); the lead is
                lost with the connection.
        """
        try:
            async with asyncio.timeout(_ANSWER_S):
                if self._connection is None:
                    self._connection = await psycopg.AsyncConnection.connect(
                        self._url, autocommit=True, application_name=self._name
                    )
                if self._is_held:
                    await self._connection.execute("SELECT 1")
                else:
                    answer = await self._connection.execute("SELECT pg_try_advisory_lock(%s)", (self._key,))
                    row = await answer.fetchone()
                    self._is_held = row is not None and bool(row[0])
        except (psycopg.Error, TimeoutError, OSError) as error:
            await self.close()
            raise unavailable(error, failure="The database does not answer") from error
        return self._is_held

    async def close(self) -> None:
        """Release the lead, so that another process can take it at once, and close the connection."""
        connection, self._connection = self._connection, None
        is_held, self._is_held = self._is_held, False
        if connection is None:
            return
        with suppress(psycopg.Error, TimeoutError, OSError):
            async with asyncio.timeout(_UNLOCK_S):
                if is_held and not connection.broken:
                    await connection.execute("SELECT pg_advisory_unlock(%s)", (self._key,))
        await connection.close()
