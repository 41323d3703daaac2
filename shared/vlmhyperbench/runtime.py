"""Start a service and open its resources: settings, database, bus and storage."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from importlib.metadata import version

from vlmhyperbench.bus import Bus
from vlmhyperbench.db.engine import Database
from vlmhyperbench.db.refusals import ACCOUNT_REFUSED
from vlmhyperbench.db.replica import ListDatabases
from vlmhyperbench.errors import NotReady, VlmHyperBenchError
from vlmhyperbench.logs import configure_logging
from vlmhyperbench.monitoring.exporting import beating, exporting
from vlmhyperbench.monitoring.tracing import tracing
from vlmhyperbench.settings import Settings
from vlmhyperbench.storage import Storage, StorageLocation, open_storage

CANNOT_START = 3
"""Exit code of a service that failed for a reason that its operator can fix."""
REFUSED = 7
"""Exit code of a worker whose account was refused: starting it again is in vain."""


@contextmanager
def service(name: str, about: str | None) -> Iterator[Settings]:
    """Handle `--help`, configure logging, load the settings, and open what operators watch; the body is the service.

    A service takes no arguments: its settings are environment variables. An error that its operator can fix ends the
    process with a message and exit code 3, whether it occurs at start-up or later.

    Args:
        name: Name of the service in its logs.
        about: Description of the service: the docstring of its `main`.
    """
    argparse.ArgumentParser(
        prog=f"python -m vlmhyperbench_{name.replace('-', '_')}",
        description=about,
        epilog="Its settings are environment variables, VLMHB_…; docs/configuration.md lists them.",
    ).parse_args()
    configure_logging(name)
    try:
        settings = Settings.load()
        with (
            exporting(settings.metrics_host, settings.metrics_port),
            tracing(name, settings.otlp_endpoint, version=version("vlmhyperbench")),
        ):
            yield settings
    except VlmHyperBenchError as error:
        print(error, file=sys.stderr)
        sys.exit(REFUSED if error.code == ACCOUNT_REFUSED else CANNOT_START)


@dataclass(frozen=True, slots=True, kw_only=True)
class Runtime:
    """The resources of a service; one per process and event loop."""

    settings: Settings
    database: Database
    lists: ListDatabases
    """What lists are read from: the database, or its replica."""
    bus: Bus
    storage: Storage


def storage_location(settings: Settings) -> StorageLocation:
    """Return where the storage of these settings is."""
    return StorageLocation(
        url=settings.storage_url,
        s3=settings.storage_s3,
        cache_folder=settings.storage_cache_dir,
        cache_max_bytes=settings.storage_cache_max_bytes,
    )


@asynccontextmanager
async def open_runtime(settings: Settings, *, name: str = "vlmhyperbench") -> AsyncIterator[Runtime]:
    """Open database, bus and storage; each connects on first use. `name` identifies the connections in Postgres.

    Raises:
        NotReady: the settings have no database URL or no Redis URL.
        InvalidInput: the storage URL is malformed.
        Unavailable: the storage cannot be used.
    """
    database_url = settings.database_url.get_secret_value()
    redis_url = settings.redis_url.get_secret_value()
    if not database_url or not redis_url:
        raise NotReady(
            f"No stack is known in {settings.home}.",
            cure="Start one with `vlmhyperbench up`, or set VLMHB_DATABASE_URL and VLMHB_REDIS_URL.",
        )
    storage = await asyncio.to_thread(open_storage, storage_location(settings))
    timeout_s = settings.timers.statement_timeout_s
    database = Database(database_url, statement_timeout_s=timeout_s, name=name)
    replica_url = settings.database_replica_url.get_secret_value()
    replica = Database(replica_url, statement_timeout_s=timeout_s, name=f"{name}-lists") if replica_url else None
    lists = ListDatabases(database, replica, wait_s=settings.database_replica_wait_s)
    bus = Bus(redis_url)
    try:
        async with beating():
            yield Runtime(settings=settings, database=database, lists=lists, bus=bus, storage=storage)
    finally:
        await bus.close()
        await lists.close()
        await database.close()
