from __future__ import annotations

import os
import signal
from collections.abc import Callable

import psutil
import pytest
from sqlalchemy import text

from vlmhyperbench.db.engine import Database
from vlmhyperbench.local.postgres import Postgres
from vlmhyperbench_sdk.errors import Unavailable

pytestmark = pytest.mark.anyio


async def test_a_transaction_commits_at_its_end(fresh_database: Database) -> None:
    async with fresh_database.transaction() as session:
        await session.execute(text("CREATE TABLE probe (a int)"))
        await session.execute(text("INSERT INTO probe VALUES (1)"))
    async with fresh_database.transaction() as session:
        assert (await session.execute(text("SELECT a FROM probe"))).scalar_one() == 1


async def test_a_transaction_that_raises_is_rolled_back(fresh_database: Database) -> None:
    async def fail_half_way() -> None:
        async with fresh_database.transaction() as session:
            await session.execute(text("CREATE TABLE probe (a int)"))
            raise KeyError

    with pytest.raises(KeyError):
        await fail_half_way()
    async with fresh_database.transaction() as session:
        assert (await session.execute(text("SELECT to_regclass('probe')"))).scalar_one() is None


async def test_a_statement_that_takes_too_long_is_cancelled(fresh_database_url: str) -> None:
    database = Database(fresh_database_url, statement_timeout_s=0.05)
    with pytest.raises(Unavailable, match="statement timeout"):
        async with database.transaction() as session:
            await session.execute(text("SELECT pg_sleep(30)"))
    await database.close()


async def test_a_full_disk_of_the_database_has_a_code_and_a_cure(fresh_database: Database) -> None:
    full = "DO $$ BEGIN RAISE 'could not extend file: No space left on device' USING ERRCODE = 'disk_full'; END $$"
    with pytest.raises(Unavailable, match=r"^The disk of the database is full: could not extend") as raised:
        async with fresh_database.transaction() as session:
            await session.execute(text(full))
    assert (raised.value.code, "Free space" in str(raised.value.cure)) == ("database_full", True)


async def test_the_database_can_be_used_again_after_the_server_was_down(make_postgres: Callable[[], Postgres]) -> None:
    server = make_postgres()
    database = Database(server.start())
    async with database.transaction() as session:
        await session.execute(text("SELECT 1"))
    server.stop()
    with pytest.raises(Unavailable):
        async with database.transaction() as session:
            await session.execute(text("SELECT 1"))
    server.start()
    async with database.transaction() as session:
        assert (await session.execute(text("SELECT 2"))).scalar_one() == 2
    await database.close()


async def test_a_server_that_hangs_is_not_available_within_a_limit(make_postgres: Callable[[], Postgres]) -> None:
    server = make_postgres()
    database = Database(server.start(), statement_timeout_s=0.5)
    async with database.transaction() as session:
        await session.execute(text("SELECT 1"))
    assert server.pid is not None
    own = psutil.Process(server.pid)
    stopped = [own.pid, *(child.pid for child in own.children(recursive=True))]
    for pid in stopped:
        os.kill(pid, signal.SIGSTOP)
    try:
        with pytest.raises(Unavailable):  # on the connection that is open, and on a new one
            await _select(database)
        with pytest.raises(Unavailable):
            await _select(database)
    finally:
        for pid in stopped:
            os.kill(pid, signal.SIGCONT)
    await _select(database)
    await database.close()


async def _select(database: Database) -> None:
    async with database.transaction() as session:
        await session.execute(text("SELECT 1"))
