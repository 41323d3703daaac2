"""Notifications over Redis: new events of a stream, progress, scheduler wake-ups. Any may be lost, or Redis be down."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from datetime import datetime
from typing import Annotated, Final, Literal, TypeVar
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError
from redis.asyncio import Redis
from redis.exceptions import AuthenticationError, NoPermissionError, RedisError

from vlmhyperbench.addresses import KEEP_ALIVE
from vlmhyperbench.logs import get_logger
from vlmhyperbench.monitoring.recording import count
from vlmhyperbench.wire.live import Resources, Speeds

T = TypeVar("T")

CHANNEL: Final = "vlmhb:live"
WAKE: Final = "vlmhb:scheduler.wake"
PROGRESS: Final = "vlmhb:progress:"
"""Beginning of the key of a run's progress."""
_WAKE_LENGTH = 64
_PROGRESS_TTL_S = 60
_CALL_S = 1.0
"""Timeout of a call while Redis accepts connections but does not respond."""
_REST_S = 1.0
"""After a failure no call is attempted for this long: callers get their fallback at once."""
_RESUBSCRIBE_S = 1.0
_CHANNELS_S = 0.25
"""How long a change of the channels that a subscriber wants waits for the next message."""

_LOG = get_logger(__name__)


class Progress(BaseModel):
    """Progress of a run's stage. Conflated: only the newest is kept, and it is never a durable record."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    run_id: UUID
    """The run; or, for a job without a run, its experiment."""
    stage: str
    done: int = Field(ge=0)
    total: int | None = Field(default=None, ge=0)
    unit: Literal["bytes"] | None = None
    """What `done` and `total` count; None: samples, or what the stage has instead of them."""
    failed: int = Field(default=0, ge=0)
    rate_per_s: float | None = None
    eta_s: float | None = None
    speeds: Speeds | None = None
    resources: Resources | None = None
    at: datetime


class StreamAdvanced(BaseModel):
    """An event stream has events up to `seq`; readers fetch them from the database."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    kind: Literal["events"] = "events"
    stream_id: UUID
    seq: int = Field(ge=1)


class ProgressMade(BaseModel):
    """New progress of a run."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    kind: Literal["progress"] = "progress"
    progress: Progress


DetailKind = Literal["samples", "resources", "logs"]
DETAILS: Final[tuple[DetailKind, ...]] = ("samples", "resources", "logs")
MAX_SAMPLES: Final = 50
"""Of one message; a worker sends about one a second."""
MAX_LINES: Final = 200
"""Of one message."""
MAX_LINE_CHARACTERS: Final = 2000


class DoneSample(BaseModel):
    """A request that was answered or has failed."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    key: str
    """Of the sample in its dataset."""
    phase: int
    ordinal: int
    status: str
    error_code: str | None = None
    latency_ms: float | None = None
    ttft_ms: float | None = None
    output_tokens: int | None = None


class SamplesDone(BaseModel):
    """The newest requests of a run that ended; never a durable record."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    kind: Literal["samples"] = "samples"
    run_id: UUID
    samples: Annotated[list[DoneSample], Field(max_length=MAX_SAMPLES)]
    left_out: int = Field(default=0, ge=0)
    """Number of further requests that ended and are not named."""


class ResourcesSampled(BaseModel):
    """The newest sample of a claim's devices."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    kind: Literal["resources"] = "resources"
    run_id: UUID
    at: datetime
    resources: Resources


class LogLine(BaseModel):
    """A line of a log, without secrets."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    source: Literal["engine", "gateway", "worker"]
    no: int = Field(ge=0)
    """Counts the lines of a source that a claim has read; a line that is sent again keeps its number."""
    text: Annotated[str, Field(max_length=MAX_LINE_CHARACTERS)]


class LinesLogged(BaseModel):
    """New lines of the logs of a claim."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    kind: Literal["logs"] = "logs"
    run_id: UUID
    claim_id: UUID
    lines: Annotated[list[LogLine], Field(max_length=MAX_LINES)]
    left_out: int = Field(default=0, ge=0)
    """Number of lines that were written too fast to be sent; the log's artifact has them."""


Detail = SamplesDone | ResourcesSampled | LinesLogged
"""What a worker sends of a run only while somebody listens."""
BusMessage = StreamAdvanced | ProgressMade | SamplesDone | ResourcesSampled | LinesLogged
_MESSAGE: TypeAdapter[BusMessage] = TypeAdapter(BusMessage)


class Bus:
    """A process's connection to Redis. No call raises or blocks for long when Redis fails."""

    def __init__(self, url: str) -> None:
        self._redis: Redis = Redis.from_url(
            url,
            socket_timeout=_CALL_S,
            socket_connect_timeout=_CALL_S,
            socket_keepalive=True,
            socket_keepalive_options=KEEP_ALIVE,
            health_check_interval=5,
            retry=None,
        )
        self._waiting: Redis = Redis.from_url(
            url,
            socket_connect_timeout=_CALL_S,
            socket_keepalive=True,
            socket_keepalive_options=KEEP_ALIVE,
            retry=None,
        )
        self._silent_until = 0.0
        self._is_down = False

    async def publish(self, stream_id: UUID, seq: int) -> None:
        """Say that a stream has events up to `seq`; call it after the commit."""
        await self._send(StreamAdvanced(stream_id=stream_id, seq=seq))

    async def publish_progress(self, run_id: UUID, progress: Progress) -> None:
        """Say how far a run is, to who listens now and to who asks within a minute."""
        snapshot = (_progress_key(run_id), progress.model_dump_json(), _PROGRESS_TTL_S)
        await self._send(ProgressMade(progress=progress), snapshot)

    async def progress(self, run_id: UUID) -> Progress | None:
        """Return the newest progress of a run, or None if it is unknown."""
        snapshot = await self._call(self._redis.get(_progress_key(run_id)), None)
        try:
            return None if snapshot is None else Progress.model_validate_json(snapshot)
        except ValidationError:
            return None

    async def publish_detail(self, detail: Detail) -> None:
        """Send a detail of a run to who listens to it."""

        async def send() -> None:
            await self._redis.publish(detail_channel(detail.run_id, detail.kind), detail.model_dump_json())

        await self._call(send(), None)

    async def listeners(self, run_id: UUID) -> dict[DetailKind, int]:
        """Return how many processes listen to each kind of details of a run; those without a listener are left out."""
        channels = {detail_channel(run_id, kind): kind for kind in DETAILS}

        async def ask() -> dict[DetailKind, int]:
            try:
                counted = await self._redis.pubsub_numsub(*channels)
            except NoPermissionError:  # the account of a worker that joined before details existed
                return {}
            named = [(name.decode() if isinstance(name, bytes) else name, number) for name, number in counted]
            return {channels[name]: number for name, number in named if number}

        return await self._call(ask(), {})

    async def take_once(self, name: str, *, ttl_s: int) -> bool | None:
        """Claim a name for `ttl_s`; True if it was free, False if it was taken, None if Redis is not available."""
        taken = await self._call(self._redis.set(f"vlmhb:taken:{name}", "1", nx=True, ex=ttl_s), False)
        return None if taken is False else bool(taken)

    async def push_wake(self) -> None:
        """Wake the scheduler; a lost wake-up delays it by one tick."""

        async def push() -> None:
            async with self._redis.pipeline(transaction=False) as pipe:
                pipe.lpush(WAKE, "1")
                pipe.ltrim(WAKE, 0, _WAKE_LENGTH - 1)
                await pipe.execute()

        await self._call(push(), None)

    async def wait_wake(self, timeout_s: float) -> bool:
        """Wait up to `timeout_s` for a wake-up of the scheduler; several count as one. Return whether one arrived."""
        deadline = time.monotonic() + timeout_s

        async def pop() -> bool:
            woken = await self._waiting.blpop([WAKE], timeout=timeout_s)
            if woken is not None:
                await self._waiting.delete(WAKE)
            return woken is not None

        if await self._call(pop(), False, limit_s=timeout_s + _CALL_S):
            return True
        await asyncio.sleep(max(0.0, deadline - time.monotonic()))
        return False

    async def subscribe(self, details: Callable[[], AbstractSet[str]] = frozenset) -> AsyncIterator[BusMessage]:
        """Yield messages published from now on, without end; resubscribe after Redis was unavailable.

        `details` returns the channels of details (`detail_channel`) that are wanted now; it is called all the time.

        Messages published while Redis is unavailable are lost, so the caller must also poll the database.
        """
        while True:
            try:
                async with self._waiting.pubsub(ignore_subscribe_messages=True) as channel:
                    await channel.subscribe(CHANNEL)
                    self._answered()
                    joined: AbstractSet[str] = frozenset()
                    while True:
                        wanted = frozenset(details())
                        if added := wanted - joined:
                            await channel.subscribe(*added)
                        if left := joined - wanted:
                            await channel.unsubscribe(*left)
                        joined = wanted
                        with _cancellable():
                            message = await channel.get_message(timeout=_CHANNELS_S)
                        parsed = None if message is None else _parse(message["data"])
                        if parsed is not None:
                            yield parsed
            except (RedisError, OSError, TimeoutError) as error:  # noqa: PERF203 - once per outage
                self._failed(error)
                await asyncio.sleep(_RESUBSCRIBE_S)

    async def is_up(self) -> bool:
        """Return whether Redis responds now."""
        self._silent_until = 0.0
        return bool(await self._call(self._redis.ping(), False))

    async def close(self) -> None:
        """Close all connections."""
        await self._redis.aclose()
        await self._waiting.aclose()

    async def _send(self, message: BusMessage, snapshot: tuple[str, str, int] | None = None) -> None:
        async def send() -> None:
            async with self._redis.pipeline(transaction=False) as pipe:
                if snapshot is not None:
                    key, value, ttl_s = snapshot
                    pipe.set(key, value, ex=ttl_s)
                pipe.publish(CHANNEL, message.model_dump_json())
                await pipe.execute()

        await self._call(send(), None)

    async def _call(self, call: Awaitable[T], fallback: T, *, limit_s: float = 2 * _CALL_S) -> T:
        """Await a call to Redis; return the fallback if Redis is down or failed within the last `_REST_S`."""
        if time.monotonic() < self._silent_until:
            _discard(call)
            return fallback
        try:
            async with asyncio.timeout(limit_s):
                with _cancellable():
                    answer = await call
        except (RedisError, OSError, TimeoutError) as error:
            self._failed(error)
            return fallback
        self._answered()
        return answer

    def _failed(self, error: Exception) -> None:
        self._silent_until = time.monotonic() + _REST_S
        if not self._is_down:
            self._is_down = True
            count("redis_outages_total")
            reason = str(error) or type(error).__name__
            if isinstance(error, AuthenticationError):
                cure = "Correct the account in VLMHB_REDIS_URL; until then jobs are found by polling, seconds later."
                _LOG.error("bus.refused", reason=reason, cure=cure)
            else:
                _LOG.warning("bus.away", reason=reason)

    def _answered(self) -> None:
        if self._is_down:
            self._is_down = False
            _LOG.info("bus.back")


@contextmanager
def _cancellable() -> Iterator[None]:
    """Raise a cancellation of the task that the client swallows, as it may where a time-out of its own is due too."""
    task = asyncio.current_task()
    before = task.cancelling() if task else 0
    try:
        yield
    finally:
        if task and task.cancelling() > before:
            raise asyncio.CancelledError


def _discard(call: Awaitable[object]) -> None:
    close = getattr(call, "close", None)
    if close is not None:
        close()


def _parse(data: object) -> BusMessage | None:
    """Parse a message; None if it is invalid: the channel is not trusted."""
    try:
        return _MESSAGE.validate_json(data if isinstance(data, (str, bytes)) else b"")
    except ValidationError:
        return None


def detail_channel(run_id: UUID, kind: DetailKind) -> str:
    """Return the channel of a kind of details of a run."""
    return f"{CHANNEL}:{run_id}:{kind}"


def _progress_key(run_id: UUID) -> str:
    return f"{PROGRESS}{run_id}"
