"""Real servers: one PostgreSQL and one Valkey per session, a database per module, an empty broker per test."""

from __future__ import annotations

import itertools
import os
import shutil
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import psycopg
import pytest
import redis
from sqlalchemy.engine import make_url

from tests.support.containers import ServerInContainer, postgres_in_container, valkey_in_container
from tests.support.processes import PATIENCE_S
from vlmhyperbench.db import migrations
from vlmhyperbench.db.engine import Database
from vlmhyperbench.local.postgres import Postgres
from vlmhyperbench.local.valkey import Valkey

POSTGRES_IMAGE = "VLMHB_TEST_POSTGRES_IMAGE"
"""Variable with an image of Postgres: the session's server then runs in a container of Docker."""
VALKEY_IMAGE = "VLMHB_TEST_VALKEY_IMAGE"
"""The same for Valkey."""
_TEMPLATE = "vlmhb_template"
_NUMBERS = itertools.count(1)


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """Run async tests on asyncio only."""
    return "asyncio"


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of a server that was made once and is stopped: others are copied from it."""
    folder = tmp_path_factory.mktemp("cluster") / "pg"
    server = Postgres(folder, is_durable=False)
    server.start()
    server.stop()
    return folder


@pytest.fixture(scope="session")
def postgres_server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Postgres | ServerInContainer]:
    """The session's PostgreSQL, shared: a test that stops its server takes `make_postgres`."""
    if image := os.environ.get(POSTGRES_IMAGE):
        with postgres_in_container(image) as contained:
            yield contained
        return
    server = _copy_server(request.getfixturevalue("cluster"), tmp_path_factory.mktemp("pg") / "pg")
    server.start()
    yield server
    server.stop()


@pytest.fixture(scope="session")
def valkey_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Valkey | ServerInContainer]:
    """The session's Valkey, shared: a test that stops its server takes `make_valkey`."""
    if image := os.environ.get(VALKEY_IMAGE):
        with valkey_in_container(image) as contained:
            yield contained
        return
    server = Valkey(tmp_path_factory.mktemp("vk"))
    server.start()
    yield server
    server.stop()


@pytest.fixture
def make_postgres(cluster: Path, tmp_path: Path) -> Iterator[Callable[[], Postgres]]:
    """Make a stopped server of the test's own; it is stopped at the end."""
    with ExitStack() as stack:

        def make() -> Postgres:
            server = _copy_server(cluster, tmp_path / f"pg{next(_NUMBERS)}")
            stack.callback(server.stop)
            return server

        yield make


@pytest.fixture
def make_valkey(tmp_path: Path) -> Iterator[Callable[[], Valkey]]:
    """Make a stopped server of the test's own; it is stopped at the end."""
    with ExitStack() as stack:

        def make() -> Valkey:
            server = Valkey(tmp_path / f"vk{next(_NUMBERS)}")
            stack.callback(server.stop)
            return server

        yield make


@pytest.fixture(scope="session")
def template_database(postgres_server: Postgres | ServerInContainer) -> str:
    """Name of a migrated database that others are copied from."""
    execute(postgres_server, f'CREATE DATABASE "{_TEMPLATE}"')
    migrations.upgrade(make_url(postgres_server.url).set(database=_TEMPLATE).render_as_string(hide_password=False))
    return _TEMPLATE


@pytest.fixture(scope="module")
def database_url(postgres_server: Postgres | ServerInContainer, template_database: str) -> Iterator[str]:
    """URL of a database that this module's tests share; they use ids of their own."""
    with _copy_of(postgres_server, template_database) as url:
        yield url


@pytest.fixture
def fresh_database_url(postgres_server: Postgres | ServerInContainer, template_database: str) -> Iterator[str]:
    """URL of a database that only this test uses."""
    with _copy_of(postgres_server, template_database) as url:
        yield url


@pytest.fixture
def empty_database_url(postgres_server: Postgres | ServerInContainer) -> Iterator[str]:
    """URL of a database without any table, for tests of migrations."""
    with _copy_of(postgres_server, "template1") as url:
        yield url


@pytest.fixture
async def database(database_url: str) -> AsyncIterator[Database]:
    """The module's database, through the product's own pool."""
    opened = Database(database_url, max_overflow=16, statement_timeout_s=PATIENCE_S)
    yield opened
    await opened.close()


@pytest.fixture
async def fresh_database(fresh_database_url: str) -> AsyncIterator[Database]:
    """A database that only this test uses, through the product's own pool."""
    opened = Database(fresh_database_url, max_overflow=16, statement_timeout_s=PATIENCE_S)
    yield opened
    await opened.close()


@pytest.fixture
def redis_url(valkey_server: Valkey | ServerInContainer) -> str:
    """URL of the session's Valkey, emptied for this test."""
    with redis.Redis.from_url(valkey_server.url) as client:
        client.flushall()
    return valkey_server.url


def execute(server: Postgres | ServerInContainer, statement: str) -> None:
    """Run one statement as the server's superuser, outside a transaction."""
    url = make_url(server.url).set(drivername="postgresql", database="postgres")
    with psycopg.connect(url.render_as_string(hide_password=False), autocommit=True) as connection:
        connection.execute(statement.encode())


def _copy_server(cluster: Path, folder: Path) -> Postgres:
    shutil.copytree(cluster, folder, ignore=shutil.ignore_patterns("run", "lock"))
    return Postgres(folder, is_durable=False)


@contextmanager
def _copy_of(server: Postgres | ServerInContainer, template: str) -> Iterator[str]:
    """Copy a database from a template; drop it at the end, even when clients are still connected."""
    name = f"test_{next(_NUMBERS)}"
    execute(server, f'CREATE DATABASE "{name}" TEMPLATE "{template}"')
    try:
        yield make_url(server.url).set(database=name).render_as_string(hide_password=False)
    finally:
        execute(server, f'DROP DATABASE "{name}" WITH (FORCE)')
