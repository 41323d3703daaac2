"""The role of a worker: every table has decided rights, and an account without superuser rights can make and end it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from uuid import uuid4

import psycopg
import pytest
from sqlalchemy.engine import URL, make_url

from vlmhyperbench.db import worker_accounts
from vlmhyperbench.db.engine import Database
from vlmhyperbench.db.refusals import is_refused
from vlmhyperbench.db.tables import metadata
from vlmhyperbench.db.tables.rights import RIGHTS
from vlmhyperbench.errors import NotReady

pytestmark = pytest.mark.anyio


def test_the_rights_of_workers_are_decided_for_every_table() -> None:
    assert set(RIGHTS) == {*metadata.tables, "alembic_version"}


@pytest.fixture
def platform(fresh_database_url: str) -> Iterator[URL]:
    """A platform whose account owns the tables and may make roles, but is no superuser."""
    url = make_url(fresh_database_url)
    name = f"platform_{uuid4().hex[:8]}"
    with psycopg.connect(shown(url), autocommit=True) as connection:
        connection.execute(f"CREATE ROLE {name} LOGIN CREATEROLE PASSWORD 'secret'".encode())
        tables = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'").fetchall()
        for (table,) in tables:
            connection.execute(f'ALTER TABLE "{table}" OWNER TO {name}'.encode())
        connection.execute(f'ALTER DATABASE "{url.database}" OWNER TO {name}'.encode())
        connection.execute(f"ALTER SCHEMA public OWNER TO {name}".encode())
        yield url.set(username=name, password="secret")
        connection.execute(f"REASSIGN OWNED BY {name} TO CURRENT_USER".encode())
        connection.execute(f"DROP OWNED BY {name}".encode())
        connection.execute(f"DROP ROLE {name}".encode())


def shown(url: URL) -> str:
    return url.set(drivername="postgresql").render_as_string(hide_password=False)


async def test_an_account_that_may_make_roles_makes_and_ends_those_of_workers(platform: URL) -> None:
    database = Database(platform.render_as_string(hide_password=False))
    name = f"worker_{uuid4().hex[:8]}"
    worker = platform.set(username=name, password='it\'s-"100%"-secret')
    try:
        for _ in range(2):
            async with database.transaction() as session:
                assert await worker_accounts.may_make(session)
                await worker_accounts.make(session, name, str(worker.password))
        worker_accounts.prepare(platform.render_as_string(hide_password=False))
        connection = psycopg.connect(shown(worker), autocommit=True)
        assert connection.execute("SELECT count(*) FROM job").fetchone() == (0,)
        async with database.transaction() as session:
            await worker_accounts.disable(session, name)
        async with database.transaction() as session:
            assert await worker_accounts.remove(session, name) == 1
        with pytest.raises(psycopg.errors.AdminShutdown):
            connection.execute("SELECT 1")
        assert is_refused(worker.render_as_string(hide_password=False))
        async with database.transaction() as session:
            assert await worker_accounts.remove(session, name) == 0
    finally:
        await database.close()


async def test_machines_that_join_at_once_all_get_their_accounts(platform: URL) -> None:
    database = Database(platform.render_as_string(hide_password=False))
    names = [f"worker_{uuid4().hex[:8]}" for _ in range(6)]

    async def make_and_remove(name: str) -> int:
        async with database.transaction() as session:
            await worker_accounts.make(session, name, "secret")
        async with database.transaction() as session:
            return await worker_accounts.remove(session, name)

    try:
        assert await asyncio.gather(*map(make_and_remove, names)) == [0] * len(names)
    finally:
        await database.close()


async def test_a_refusal_is_told_from_a_server_that_does_not_answer(platform: URL) -> None:
    good = platform.render_as_string(hide_password=False)
    assert not is_refused(good)
    assert is_refused(platform.set(password="wrong").render_as_string(hide_password=False))
    assert is_refused(good.replace(":secret@", "@"))
    assert not is_refused(platform.set(query={"host": "/nowhere"}).render_as_string(hide_password=False))
    assert not is_refused(platform.set(database="absent").render_as_string(hide_password=False))


def test_the_shared_account_is_made_where_a_url_names_one(fresh_database_url: str) -> None:
    url = make_url(fresh_database_url)
    shared = url.set(username=f"shared_{uuid4().hex[:8]}", password="one")
    for changed in (shared, shared.set(password="two")):
        worker_accounts.prepare(fresh_database_url, changed.render_as_string(hide_password=False))
        with psycopg.connect(shown(changed)) as connection, pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute("SELECT * FROM api_key")
    worker_accounts.prepare(fresh_database_url, url.set(username=None).render_as_string(hide_password=False))
    with pytest.raises(NotReady) as refused:
        worker_accounts.prepare(
            changed.render_as_string(hide_password=False), url.set(username="another").render_as_string(False)
        )
    assert refused.value.code == "accounts_denied"
    with psycopg.connect(shown(url), autocommit=True) as connection:
        connection.execute(f'DROP OWNED BY "{shared.username}"'.encode())
        connection.execute(f'DROP ROLE "{shared.username}"'.encode())
