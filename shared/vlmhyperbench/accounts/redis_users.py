"""The account of a worker in Redis: a user of its access control list, who hears and says only what a worker must."""

from __future__ import annotations

import asyncio
from typing import Final

from redis import Redis
from redis.exceptions import NoPermissionError, RedisError, ResponseError

from vlmhyperbench.bus import CHANNEL, PROGRESS, WAKE
from vlmhyperbench.domain.steps import WorkerKind
from vlmhyperbench.errors import NotReady, Unavailable
from vlmhyperbench.queues.contracts import KEY_PREFIX, queue_of

_ANSWER_S: Final = 10.0
_COMMANDS: Final = (
    *("ping", "select", "client|setinfo", "client|setname", "client|id"),
    *("brpop", "llen", "sadd", "smembers"),  # the doorbell's own queue
    *("lpush", "ltrim"),  # a wake-up of the scheduler
    *("publish", "get", "set"),  # progress
    "pubsub|numsub",  # whether somebody listens to details of a run
    *("multi", "exec"),
)


def rules(password_sha256: str, kind: WorkerKind | None) -> list[str]:
    """Return the rules of the user of a worker of this kind (None: of any)."""
    queues = queue_of(kind, "*") if kind is not None else queue_of("*", "*")
    keys = (WAKE, f"{PROGRESS}*", f"{KEY_PREFIX}{queues}", f"{KEY_PREFIX}_kombu.binding*.{queues}")
    commands = [f"+{command}" for command in _COMMANDS]
    channels = (CHANNEL, f"{CHANNEL}:*")
    rights = [*(f"~{key}" for key in keys), *(f"&{channel}" for channel in channels)]
    return ["reset", "on", f"#{password_sha256}", *rights, "-@all", *commands]


async def make(redis_url: str, name: str, password_sha256: str, kind: WorkerKind | None) -> None:
    """Make the user, or give it its password and rights anew.

    Raises:
        NotReady: the platform's account may not make others (code `accounts_denied`).
        Unavailable: Redis does not answer.
    """
    await _asked(redis_url, "SETUSER", name, *rules(password_sha256, kind))


async def remove(redis_url: str, name: str) -> None:
    """Remove the user, which ends its connections.

    Raises:
        NotReady, Unavailable: see `make`.
    """
    await _asked(redis_url, "DELUSER", name)


async def users(redis_url: str) -> frozenset[str]:
    """Return the names of all users.

    Raises:
        NotReady, Unavailable: see `make`.
    """
    listed = await _asked(redis_url, "USERS")
    names = listed if isinstance(listed, list) else []
    return frozenset(name.decode() if isinstance(name, bytes) else str(name) for name in names)


async def check_may_make(redis_url: str) -> None:
    """Check that the platform's account may make others; nothing is made.

    Raises:
        NotReady, Unavailable: see `make`.
    """
    name = await _asked(redis_url, "WHOAMI")
    own = name.decode() if isinstance(name, bytes) else str(name)
    reply = await _asked(redis_url, "DRYRUN", own, "ACL", "SETUSER", own)
    if reply not in (b"OK", "OK"):
        raise _denied(f"User {own} has no permissions to run the 'acl|setuser' command")


async def _asked(redis_url: str, *words: str) -> object:
    return await asyncio.to_thread(_ask, redis_url, *words)


def _ask(redis_url: str, *words: str) -> object:
    try:
        with Redis.from_url(redis_url, socket_timeout=_ANSWER_S, socket_connect_timeout=_ANSWER_S) as client:
            return client.execute_command("ACL", *words)
    except (NoPermissionError, ResponseError) as error:
        raise _denied(str(error)) from error
    except (RedisError, OSError) as error:
        raise Unavailable(f"Redis is not available: {error}.") from error


def _denied(reason: str) -> NotReady:
    return NotReady(
        f"The account of VLMHB_REDIS_URL may not make accounts of workers: {reason}.",
        cure="Let it (ACL SETUSER … +acl), or let all joined workers share one account: "
        "VLMHB_WORKER_ACCOUNTS=shared, with VLMHB_WORKER_REDIS_URL.",
        code="accounts_denied",
    )
