"""Check once that a worker's machine reaches every part of its stack, so that what is missing is named at the start."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, datetime, timedelta
from typing import Final

from redis import Redis
from redis.exceptions import AuthenticationError, RedisError

from vlmhyperbench.db.engine import DATABASE_REFUSED, Database
from vlmhyperbench.db.refusals import is_refused, refusal
from vlmhyperbench.domain.clocks import CLOCK_CURE, clock_ahead, clock_warning
from vlmhyperbench.errors import Conflict, Damaged, Denied, Unavailable
from vlmhyperbench.logs import get_logger
from vlmhyperbench.runtime import storage_location
from vlmhyperbench.settings import Settings
from vlmhyperbench.storage import Storage, open_storage

_LOG = get_logger(__name__)
_ANSWER_S = 10.0


async def check_reachable(settings: Settings, *, proof: tuple[str, str] | None = None) -> None:
    """Check database, Redis and storage; `proof` is key and hash of a file that the stack has stored.

    Raises:
        Denied: a part refuses the account.
        InvalidInput: there is no such bucket.
        Unavailable: a part does not answer, or its certificate is not trusted.
    """
    for check in PARTS.values():
        await check(settings)
    if proof is None:
        return
    storage = await asyncio.to_thread(open_storage, storage_location(settings))
    try:
        await storage.open(*proof)
    except Damaged as error:
        raise Unavailable(
            f"This machine does not see the storage of the stack at {settings.storage_url}: {error.message}",
            cure="Let the stack store in S3 (VLMHB_STORAGE_URL=s3://BUCKET), or mount its folder here at the same "
            "path.",
            code="storage_not_shared",
        ) from error


async def check_database(settings: Settings) -> None:
    """Check that the database answers and has the tables.

    Raises:
        Unavailable: it does not.
    """
    async with _opened(settings) as database:
        await database.check()


async def check_redis(settings: Settings) -> None:
    """Check that Redis or Valkey answers.

    Raises:
        Denied: it refuses the password.
        Unavailable: it does not answer.
    """
    await asyncio.to_thread(_ping, settings.redis_url.get_secret_value())


async def check_storage(settings: Settings) -> None:
    """Check that files can be stored.

    Raises:
        VlmHyperBenchError: they cannot, see `Storage.check`.
    """
    storage = await asyncio.to_thread(open_storage, storage_location(settings))
    await asyncio.to_thread(storage.check)


async def refuse_unusable(storage: Storage) -> None:
    """Check the storage before a worker registers: with keys that are refused it would only fail the jobs it takes.

    A storage that does not answer may answer again, so that is only logged.

    Raises:
        Denied, InvalidInput: see `Storage.check`.
    """
    try:
        await asyncio.to_thread(storage.check)
    except Unavailable as error:
        _LOG.warning("worker.storage_away", message=str(error))


async def check_clock(settings: Settings) -> None:
    """Check that the clock of this machine is that of the database.

    Raises:
        Conflict: they differ by more than a few seconds; code `clock`.
        Unavailable: the database does not answer.
    """
    async with _opened(settings) as database:
        warning = clock_warning(await clock_ahead_of(database), other="the database")
    if warning is not None:
        raise Conflict(warning, cure=CLOCK_CURE, code="clock")


PARTS: Final[Mapping[str, Callable[[Settings], Coroutine[None, None, None]]]] = {
    "database": check_database,
    "Redis": check_redis,
    "storage": check_storage,
}
"""Part of a stack that a worker needs → its check."""


async def clock_ahead_of(database: Database) -> timedelta:
    """Return how far the clock of this machine is at least ahead of that of the database.

    Raises:
        Unavailable: the database does not answer.
    """
    await database.time()  # opening a connection is no part of the exchange
    sent = datetime.now(UTC)
    theirs = await database.time()
    return clock_ahead(sent=sent, theirs=theirs, received=datetime.now(UTC))


async def warn_of_clock(database: Database) -> None:
    """Log by how much the clock of this machine differs from that of the database, if it is too much.

    Raises:
        Unavailable: the database does not answer.
    """
    warning = clock_warning(await clock_ahead_of(database), other="the database")
    if warning is not None:
        _LOG.warning("worker.clock_differs", message=f"{warning} {CLOCK_CURE}")


@asynccontextmanager
async def _opened(settings: Settings) -> AsyncIterator[Database]:
    url = settings.database_url.get_secret_value()
    database = Database(url, name="check")
    try:
        with _named("database"):
            yield database
    except Unavailable:
        # Only the account of a worker that has joined ends with its token.
        if settings.server_url != "" and await asyncio.to_thread(is_refused, url):
            raise refusal(url) from None
        raise
    finally:
        await database.close()


def _ping(url: str) -> None:
    with _named("Redis"), Redis.from_url(url, socket_timeout=_ANSWER_S, socket_connect_timeout=_ANSWER_S) as client:
        try:
            client.ping()
        except AuthenticationError as error:
            cure = "Correct the password in VLMHB_REDIS_URL; a machine that has joined a stack joins again."
            raise Denied("Redis refuses the password.", cure=cure, code="redis") from error
        except (RedisError, OSError) as error:
            raise Unavailable(f"Redis is not available: {error}.") from error


@contextmanager
def _named(part: str) -> Iterator[None]:
    """Add to an error what can be done about the connection of a part."""
    try:
        yield
    except Unavailable as error:
        if error.code == DATABASE_REFUSED:  # it names its cure
            raise
        raise Unavailable(error.message, cure=_cure(part, error.message), code=f"{part.lower()}_unreachable") from error


def _cure(part: str, message: str) -> str:
    lowered = message.lower()
    if "certificate" in lowered or "verify failed" in lowered:
        return (
            "The server's certificate must be signed by the authority in VLMHB_TLS_CA_FILE and name the host of the "
            "URL; check also the clock of this machine."
        )
    if "does not support ssl" in lowered or "wrong version number" in lowered or "ssl" in lowered:
        return f"The {part} does not speak TLS at this address: correct its URL, or let it speak TLS."
    if "password" in lowered or "role" in lowered:
        return "Correct the account in the URL, or join again with a new token."
    return f"Check the address of the {part}, and the firewall between the machines."
