"""What `doctor` checks of a stack: whether this machine reaches every part, and whether workers get their accounts."""

from __future__ import annotations

import asyncio
import importlib.util
from collections.abc import Coroutine, Iterator
from dataclasses import dataclass
from urllib.parse import urlsplit

from vlmhyperbench.errors import VlmHyperBenchError
from vlmhyperbench.local.supervisor import control
from vlmhyperbench.local.supervisor.home import Home
from vlmhyperbench.settings import Settings, stored_path


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """The result of one check."""

    name: str
    is_ok: bool
    detail: str
    cure: str = ""


def stack_checks(settings: Settings, home: Home) -> Iterator[Check]:
    """Ask each part of the stack that this machine uses; of an own stack that is down, nothing is asked."""
    has_none = not settings.database_url.get_secret_value() or not settings.redis_url.get_secret_value()
    is_own_and_down = stored_path(settings.home).exists() and not settings.server_url and not control.is_up(home)
    if has_none or is_own_and_down or importlib.util.find_spec("sqlalchemy") is None:
        return
    from vlmhyperbench.worker.reachability import PARTS, check_clock

    is_database_there = True
    for name, check in PARTS.items():
        answer = _asked(name, check(settings), "answers")
        is_database_there = is_database_there and (answer.is_ok or name != "database")
        yield answer
    if is_database_there:
        yield _asked("clock", check_clock(settings), "that of the database")
        yield _accounts(settings)
        yield from _replica(settings)


def _replica(settings: Settings) -> Iterator[Check]:
    url = settings.database_replica_url.get_secret_value()
    if url:
        from vlmhyperbench.db.replica import check_replica

        database_url = settings.database_url.get_secret_value()
        checking = check_replica(database_url, url, wait_s=settings.database_replica_wait_s)
        yield _asked("replica", checking, "lists are read from it")


def _accounts(settings: Settings) -> Check:
    if settings.server_url:
        name = urlsplit(settings.database_url.get_secret_value()).username
        return Check(name="accounts", is_ok=True, detail=f"{settings.server_url} accepts {name}")
    if settings.worker_accounts == "shared":
        return Check(name="accounts", is_ok=True, detail="joined workers share one (VLMHB_WORKER_ACCOUNTS=shared)")
    from vlmhyperbench.accounts.keeping import check_may_make

    try:
        asyncio.run(
            check_may_make(settings.database_url.get_secret_value(), redis_url=settings.redis_url.get_secret_value())
        )
    except VlmHyperBenchError as error:
        return Check(name="accounts", is_ok=False, detail=error.message, cure=error.cure)
    return Check(name="accounts", is_ok=True, detail="each join token gets one of its own in Postgres and Redis")


def _asked(name: str, asking: Coroutine[None, None, None], good: str) -> Check:
    try:
        asyncio.run(asking)
    except VlmHyperBenchError as error:
        return Check(name=name, is_ok=False, detail=error.message, cure=error.cure)
    return Check(name=name, is_ok=True, detail=good)
