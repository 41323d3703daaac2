"""The database of a home or of the settings: the running one, or the home's own, started for a while."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from vlmhyperbench.errors import NotReady
from vlmhyperbench.local.postgres import Postgres
from vlmhyperbench.local.supervisor.home import Home
from vlmhyperbench.local.supervisor.lock import StackLock, holder
from vlmhyperbench.settings import Settings


def is_external() -> bool:
    """Return whether the environment names a database, so that the home has none of its own."""
    return bool(os.environ.get("VLMHB_DATABASE_URL"))


@contextmanager
def open_database(home: Home, settings: Settings) -> Iterator[str]:
    """Yield the URL of the platform's database; that of a stack that is down is started for the block.

    Raises:
        NotReady: no database is known.
        Unavailable: it does not start.
    """
    if is_external() or holder(home.lock_file) is not None:
        yield settings.database_url.get_secret_value()
        return
    if not (home.root / "postgres").is_dir():
        raise NotReady(
            f"There is no database in {home.root}.",
            cure="Set VLMHB_HOME or VLMHB_DATABASE_URL to those of the platform.",
        )
    with hold(home), own_database(home) as url:
        yield url


@contextmanager
def own_database(home: Home) -> Iterator[str]:
    """Start the home's own database for the block and yield its URL."""
    server = Postgres(home.root / "postgres")
    try:
        yield server.start()
    finally:
        server.stop()


@contextmanager
def hold(home: Home) -> Iterator[None]:
    """Keep stacks from starting in a home while the block runs.

    Raises:
        NotReady: a stack runs in it.
    """
    home.run.mkdir(mode=0o700, parents=True, exist_ok=True)
    lock = StackLock(home.lock_file)
    if not lock.acquire():
        raise NotReady(f"A stack runs in {home.root}.", cure="Stop it with `vlmhyperbench down`.", code="stack_runs")
    try:
        yield
    finally:
        lock.release()
