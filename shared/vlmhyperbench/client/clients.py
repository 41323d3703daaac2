"""`Client` and `AsyncClient`: the same resources over the same calls; only how a call is sent differs."""

from __future__ import annotations

import asyncio
import functools
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator, Mapping
from types import TracebackType
from typing import Any, Generic, ParamSpec, Protocol, Self, TypeVar
from uuid import UUID

import httpx2
import websockets.asyncio.client
import websockets.sync.client

from vlmhyperbench.client import calls
from vlmhyperbench.client.calls import Call
from vlmhyperbench.client.connection import Connection, resolve
from vlmhyperbench.client.live import (
    CONNECTION_ERRORS,
    FIRST_PAUSE_S,
    LONGEST_PAUSE_S,
    MAX_MESSAGE_BYTES,
    Cursors,
    Live,
    fatal_of,
    given_up,
)
from vlmhyperbench.errors import Unavailable

P = ParamSpec("P")
T = TypeVar("T")

_PREFIX = "/api/v1"
_PAUSES_S = (0.2, 0.5, 1.0, None)
"""Between tries of a call; None after the last."""
GIVE_UP_S = 60.0
"""How long a live feed is tried again before it raises."""


class _SendsNow(Protocol):
    def send(self, call: Call[T]) -> T: ...


class _SendsLater(Protocol):
    async def send(self, call: Call[T]) -> T: ...


class _Now(Generic[P, T]):
    """A method that sends a call and returns its answer."""

    def __init__(self, build: Callable[P, Call[T]]) -> None:
        self._build = build

    def __get__(self, resource: _Resource, owner: type) -> Callable[P, T]:
        @functools.wraps(self._build)
        def method(*args: P.args, **kwargs: P.kwargs) -> T:
            return resource.client.send(self._build(*args, **kwargs))

        return method


class _Later(Generic[P, T]):
    """A coroutine method that sends a call and returns its answer."""

    def __init__(self, build: Callable[P, Call[T]]) -> None:
        self._build = build

    def __get__(self, resource: _AsyncResource, owner: type) -> Callable[P, Coroutine[Any, Any, T]]:
        @functools.wraps(self._build)
        async def method(*args: P.args, **kwargs: P.kwargs) -> T:
            return await resource.client.send(self._build(*args, **kwargs))

        return method


class _Resource:
    def __init__(self, client: _SendsNow) -> None:
        self.client = client


class _AsyncResource:
    def __init__(self, client: _SendsLater) -> None:
        self.client = client


class Runs(_Resource):
    """Runs."""

    create = _Now(calls.create_run)
    rescore = _Now(calls.rescore_run)
    rerun = _Now(calls.rerun_run)
    import_ = _Now(calls.import_run)
    get = _Now(calls.get_run)
    list = _Now(calls.list_runs)
    cancel = _Now(calls.cancel_run)
    pause = _Now(calls.pause_run)
    resume = _Now(calls.resume_run)


class AsyncRuns(_AsyncResource):
    """Runs."""

    create = _Later(calls.create_run)
    rescore = _Later(calls.rescore_run)
    rerun = _Later(calls.rerun_run)
    import_ = _Later(calls.import_run)
    get = _Later(calls.get_run)
    list = _Later(calls.list_runs)
    cancel = _Later(calls.cancel_run)
    pause = _Later(calls.pause_run)
    resume = _Later(calls.resume_run)


class Experiments(_Resource):
    """Experiments."""

    create = _Now(calls.create_experiment)
    get = _Now(calls.get_experiment)
    list = _Now(calls.list_experiments)
    cancel = _Now(calls.cancel_experiment)
    pause = _Now(calls.pause_experiment)
    resume = _Now(calls.resume_experiment)


class AsyncExperiments(_AsyncResource):
    """Experiments."""

    create = _Later(calls.create_experiment)
    get = _Later(calls.get_experiment)
    list = _Later(calls.list_experiments)
    cancel = _Later(calls.cancel_experiment)
    pause = _Later(calls.pause_experiment)
    resume = _Later(calls.resume_experiment)


class Api(_Resource):
    """Everything that has one or two calls."""

    health = _Now(calls.health)
    ready = _Now(calls.ready)
    identify = _Now(calls.identify)
    results = _Now(calls.list_results)
    evaluation = _Now(calls.get_evaluation)
    workers = _Now(calls.list_workers)
    registry = _Now(calls.list_registry)
    registry_entry = _Now(calls.get_registry_entry)
    upload_answers = _Now(calls.upload_answers)
    artifacts = _Now(calls.list_artifacts)
    artifact_content = _Now(calls.artifact_content)
    report = _Now(calls.get_report)


class AsyncApi(_AsyncResource):
    """Everything that has one or two calls."""

    health = _Later(calls.health)
    ready = _Later(calls.ready)
    identify = _Later(calls.identify)
    results = _Later(calls.list_results)
    evaluation = _Later(calls.get_evaluation)
    workers = _Later(calls.list_workers)
    registry = _Later(calls.list_registry)
    registry_entry = _Later(calls.get_registry_entry)
    upload_answers = _Later(calls.upload_answers)
    artifacts = _Later(calls.list_artifacts)
    artifact_content = _Later(calls.artifact_content)
    report = _Later(calls.get_report)


class Client(Api):
    """The blocking client; a context manager that closes its connections.

    Where neither argument is given, `VLMHB_API_URL` and `VLMHB_API_KEY` are read, then the embedded stack's files.
    """

    def __init__(
        self,
        url: str | None = None,
        api_key: str | None = None,
        *,
        timeout_s: float = 30.0,
        transport: httpx2.BaseTransport | None = None,
    ) -> None:
        super().__init__(self)
        self.connection = resolve(url, api_key)
        self._http = httpx2.Client(timeout=timeout_s, transport=transport, **_options(self.connection))
        self.runs = Runs(self)
        self.experiments = Experiments(self)

    def send(self, call: Call[T]) -> T:
        """Send a call; what may help is tried again, which is safe since every POST carries an idempotency key.

        Raises:
            VlmHyperBenchError: the API refused, or does not answer.
        """
        for pause in _PAUSES_S:
            try:
                response = self._http.request(call.method, _PREFIX + call.path, **_request(call))
                break
            except httpx2.TransportError as error:
                if pause is None:
                    raise _silent(self.connection, error) from error
            time.sleep(pause)
        return call.answer(response.status_code, response.content)

    def live(
        self,
        streams: Iterable[UUID | str],
        *,
        since: Mapping[UUID | str, int] | None = None,
        give_up_s: float = GIVE_UP_S,
    ) -> Iterator[Live]:
        """Follow runs or experiments for ever: a snapshot of each, then every event once, in order, and progress.

        A broken connection is opened anew with the cursors; `since` starts after events that are known.

        Raises:
            Unavailable: the feed has not answered for `give_up_s` seconds.
            Denied: the key is refused.
        """
        cursors = Cursors(streams, since)
        pause, failing_since = FIRST_PAUSE_S, None
        while True:
            try:
                with websockets.sync.client.connect(
                    self.connection.live_url,
                    additional_headers=self.connection.headers,
                    max_size=MAX_MESSAGE_BYTES,
                    proxy=None if self.connection.is_loopback else True,
                ) as socket:
                    socket.send(cursors.subscription())
                    for text in socket:
                        pause, failing_since = FIRST_PAUSE_S, None
                        if (message := cursors.accept(text)) is not None:
                            yield message
            except CONNECTION_ERRORS as error:
                if (fatal := fatal_of(error)) is not None:
                    raise fatal from error
                failing_since = failing_since or time.monotonic()
                if time.monotonic() - failing_since > give_up_s:
                    raise given_up(error, give_up_s) from error
            time.sleep(pause)
            pause = min(pause * 2, LONGEST_PAUSE_S)

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


class AsyncClient(AsyncApi):
    """The asynchronous client; an asynchronous context manager that closes its connections."""

    def __init__(
        self,
        url: str | None = None,
        api_key: str | None = None,
        *,
        timeout_s: float = 30.0,
        transport: httpx2.AsyncBaseTransport | None = None,
    ) -> None:
        super().__init__(self)
        self.connection = resolve(url, api_key)
        self._http = httpx2.AsyncClient(timeout=timeout_s, transport=transport, **_options(self.connection))
        self.runs = AsyncRuns(self)
        self.experiments = AsyncExperiments(self)

    async def send(self, call: Call[T]) -> T:
        """Send a call, as `Client.send` does.

        Raises:
            VlmHyperBenchError: the API refused, or does not answer.
        """
        for pause in _PAUSES_S:
            try:
                response = await self._http.request(call.method, _PREFIX + call.path, **_request(call))
                break
            except httpx2.TransportError as error:
                if pause is None:
                    raise _silent(self.connection, error) from error
            await asyncio.sleep(pause)
        return call.answer(response.status_code, response.content)

    async def live(
        self,
        streams: Iterable[UUID | str],
        *,
        since: Mapping[UUID | str, int] | None = None,
        give_up_s: float = GIVE_UP_S,
    ) -> AsyncIterator[Live]:
        """Follow runs or experiments, as `Client.live` does.

        Raises:
            Unavailable: the feed has not answered for `give_up_s` seconds.
            Denied: the key is refused.
        """
        cursors = Cursors(streams, since)
        pause, failing_since = FIRST_PAUSE_S, None
        while True:
            try:
                async with websockets.asyncio.client.connect(
                    self.connection.live_url,
                    additional_headers=self.connection.headers,
                    max_size=MAX_MESSAGE_BYTES,
                    proxy=None if self.connection.is_loopback else True,
                ) as socket:
                    await socket.send(cursors.subscription())
                    async for text in socket:
                        pause, failing_since = FIRST_PAUSE_S, None
                        if (message := cursors.accept(text)) is not None:
                            yield message
            except CONNECTION_ERRORS as error:
                if (fatal := fatal_of(error)) is not None:
                    raise fatal from error
                failing_since = failing_since or time.monotonic()
                if time.monotonic() - failing_since > give_up_s:
                    raise given_up(error, give_up_s) from error
            await asyncio.sleep(pause)
            pause = min(pause * 2, LONGEST_PAUSE_S)

    async def aclose(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        await self.aclose()


def _options(connection: Connection) -> dict[str, Any]:
    return {
        "base_url": connection.url,
        "headers": connection.headers,
        "trust_env": not connection.is_loopback,
        "follow_redirects": False,
    }


def _request(call: Call[T]) -> dict[str, Any]:
    return {"params": call.params, "content": call.body, "headers": dict(call.headers)}


def _silent(connection: Connection, error: httpx2.TransportError) -> Unavailable:
    return Unavailable(
        f"The API at {connection.url} does not answer: {error or type(error).__name__}.",
        cure="Start the stack with `vlmhyperbench up`, or check VLMHB_API_URL.",
    )
