"""What a service works with, opened from settings as one context: database, bus and storage."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from vlmhyperbench.bus import Bus
from vlmhyperbench.db.engine import Database
from vlmhyperbench.errors import NotReady
from vlmhyperbench.settings import Settings
from vlmhyperbench.storage import Storage, open_storage


@dataclass(frozen=True, slots=True, kw_only=True)
class Runtime:
    """One per process and event loop."""

    settings: Settings
    database: Database
    bus: Bus
    storage: Storage


@asynccontextmanager
async def open_runtime(settings: Settings, *, name: str = "vlmhyperbench") -> AsyncIterator[Runtime]:
    """Open database, bus and storage; nothing is connected before it is used. `name` is shown in Postgres.

    Raises:
        NotReady: the settings name no database or no Redis.
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
    storage = await asyncio.to_thread(open_storage, settings.storage_url)
    database = Database(database_url, statement_timeout_s=settings.timers.statement_timeout_s, name=name)
    bus = Bus(redis_url)
    try:
        yield Runtime(settings=settings, database=database, bus=bus, storage=storage)
    finally:
        await bus.close()
        await database.close()
