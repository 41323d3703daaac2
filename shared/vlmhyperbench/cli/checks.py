"""Checks of the stack that this machine uses, and how checks are printed."""

from __future__ import annotations

import asyncio
import importlib.util
from collections.abc import Iterable, Iterator
from importlib.metadata import version

from vlmhyperbench.addresses import S3
from vlmhyperbench.cli.output import say
from vlmhyperbench.local.supervisor import control
from vlmhyperbench.local.supervisor.home import Home
from vlmhyperbench.settings import Settings, stored_path
from vlmhyperbench.worker.checks import Check


def stack_checks(settings: Settings, home: Home) -> Iterator[Check]:
    """Ask each part of the stack that this machine uses; of one that is down or not there yet, only its bucket."""
    has_none = not settings.database_url.get_secret_value() or not settings.redis_url.get_secret_value()
    is_up = control.is_up(home)
    is_own_and_down = stored_path(settings.home).exists() and not settings.server_url and not is_up
    if importlib.util.find_spec("sqlalchemy") is None:
        return
    if not has_none and not is_own_and_down:
        yield from asyncio.run(_asked(settings, has_fleet=is_up))
    elif settings.storage_url.startswith(S3):
        from vlmhyperbench.worker.diagnosis import storage_check

        yield asyncio.run(storage_check(settings))


def print_checks(checks: Iterable[Check]) -> None:
    """Print each check on a line, and below one that failed its cure."""
    for check in checks:
        say(f"{'ok  ' if check.is_ok else 'FAIL'}  {check.name}: {check.detail}")
        if not check.is_ok and check.cure:
            say(f"      {check.cure}")


async def _asked(settings: Settings, *, has_fleet: bool) -> list[Check]:
    from vlmhyperbench.db.engine import Database
    from vlmhyperbench.worker.diagnosis import fleet_checks, part_checks

    checks = await part_checks(settings)
    if not has_fleet or not all(check.is_ok for check in checks if check.name == "database"):
        return checks
    database = Database(settings.database_url.get_secret_value(), name="doctor")
    try:
        return [*checks, *await fleet_checks(database, settings, version=version("vlmhyperbench"))]
    finally:
        await database.close()
