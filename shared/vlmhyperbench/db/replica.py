"""Choose the server of a list: a streaming replica that has everything the primary has committed, else the primary."""

from __future__ import annotations

import asyncio
import time
from typing import Final, Literal

from sqlalchemy import text

from vlmhyperbench.db.engine import Database
from vlmhyperbench.logs import get_logger
from vlmhyperbench.monitoring.recording import count
from vlmhyperbench_sdk.errors import Conflict, Unavailable

__all__ = ["ListDatabases", "check_replica"]

AWAY_S: Final = 10.0
"""How long a replica that failed is not asked again: lists must not wait for its connection each time."""
BEHIND_S: Final = 1.0
"""The same of a replica that was too far behind."""
_LOOK_S: Final = 0.01

_CLUSTER = text("SELECT system_identifier FROM pg_control_system()")
_POSITION = text("SELECT pg_current_wal_flush_lsn()::text")
_HAS_REPLAYED = text("SELECT pg_last_wal_replay_lsn() >= CAST(:position AS pg_lsn)")
"""NULL on a server that is no replica, or no longer one."""

_LOG = get_logger(__name__)

Cause = Literal["current", "behind", "away", "other"]


class ListDatabases:
    """The servers that lists are read from.

    A list shows everything that was committed before it was asked for, whoever committed it: the replica is read only
    once it has replayed what the primary had flushed by then.
    """

    def __init__(self, primary: Database, replica: Database | None, *, wait_s: float) -> None:
        """Read from the replica if it catches up within `wait_s`."""
        self._primary = primary
        self._replica = replica
        self._wait_s = wait_s
        self._rests_until = 0.0
        self._is_known = False
        self._cause: Cause = "current"

    async def current(self) -> Database:
        """Return the server to read a list from.

        Raises:
            Unavailable: the primary does not answer.
        """
        if self._replica is None:
            return self._primary
        if time.monotonic() >= self._rests_until:
            self._note(*await self._look(self._replica))
        count("list_reads_total", server="replica" if self._cause == "current" else "primary", cause=self._cause)
        return self._replica if self._cause == "current" else self._primary

    def failed(self, database: Database, reason: str) -> bool:
        """Note that a read has failed; return whether it was of the replica, and can be repeated."""
        if database is not self._replica:
            return False
        self._note("away", reason)
        return True

    async def check(self) -> None:
        """Check that lists are read from the replica.

        Raises:
            Conflict: it is not a replica of the primary; code `replica_other`.
            Unavailable: it does not answer (code `replica_away`), or is behind (code `replica_behind`).
        """
        if self._replica is None:
            return
        cause, reason = await self._look(self._replica)
        code = f"replica_{cause}"
        match cause:
            case "other":
                cure = "Write the URL of a streaming replica of VLMHB_DATABASE_URL into VLMHB_DATABASE_REPLICA_URL."
                raise Conflict(f"The replica of the database is not read. {reason}", cure=cure, code=code)
            case "away":
                cure = "Start it, or correct VLMHB_DATABASE_REPLICA_URL; until then lists are read from the database."
                raise Unavailable(f"The replica of the database is not read. {reason}", cure=cure, code=code)
            case "behind":
                cure = (
                    "Look at its load and its network; VLMHB_DATABASE_REPLICA_WAIT_S is how long a list waits for it."
                )
                raise Unavailable(f"The replica of the database is not read. {reason}", cure=cure, code=code)

    async def close(self) -> None:
        """Close the connections to the replica; those to the primary are not this object's."""
        if self._replica is not None:
            await self._replica.close()

    async def _look(self, replica: Database) -> tuple[Cause, str]:
        """Return whether the replica has what the primary has now, and why not."""
        async with self._primary.transaction() as session:
            position: str = (await session.execute(_POSITION)).scalar_one()
            cluster: int | None = None if self._is_known else (await session.execute(_CLUSTER)).scalar_one()
        try:
            async with replica.transaction() as session:
                if cluster is not None and (await session.execute(_CLUSTER)).scalar_one() != cluster:
                    return "other", "It is not a replica of the server in VLMHB_DATABASE_URL."
                deadline = time.monotonic() + self._wait_s
                while True:
                    has_replayed = (await session.execute(_HAS_REPLAYED, {"position": position})).scalar_one()
                    if has_replayed:
                        return "current", ""
                    if has_replayed is None:
                        return "other", "It is not a replica, or was promoted."
                    if time.monotonic() >= deadline:
                        return "behind", f"It has not replayed {position} within {self._wait_s:g} s."
                    await asyncio.sleep(_LOOK_S)
        except Unavailable as error:
            return "away", error.message

    def _note(self, cause: Cause, reason: str) -> None:
        if cause != self._cause:
            if cause == "current":
                _LOG.info("replica.current", message="Lists are read from the replica again.")
            else:
                _LOG.warning(f"replica.{cause}", message=f"Lists are read from the primary. {reason}")
        self._cause = cause
        self._is_known = cause in {"current", "behind"}
        if cause != "current":
            self._rests_until = time.monotonic() + (BEHIND_S if cause == "behind" else AWAY_S)


async def check_replica(database_url: str, replica_url: str, *, wait_s: float) -> None:
    """Check a replica once, as `ListDatabases.check` does."""
    primary = Database(database_url, pool_size=1, name="check")
    lists = ListDatabases(primary, Database(replica_url, pool_size=1, name="check"), wait_s=wait_s)
    try:
        await lists.check()
    finally:
        await lists.close()
        await primary.close()
