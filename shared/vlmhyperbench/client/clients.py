"""`Client` and `AsyncClient`: the same resources and calls, sent by blocking or asynchronous I/O."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from types import TracebackType
from typing import Any, Self, TypeVar
from uuid import UUID

import httpx2
import websockets.asyncio.client
import websockets.sync.client

from vlmhyperbench.client.call import Call
from vlmhyperbench.client.connection import Connection, resolve
from vlmhyperbench.client.live import (
    CONNECTION_ERRORS,
    FIRST_PAUSE_S,
    MAX_MESSAGE_BYTES,
    MAX_PAUSE_S,
    Cursors,
    Deadline,
    fatal_of,
    given_up,
    stack_ended,
)
from vlmhyperbench.client.resources import (
    Api,
    AsyncApi,
    AsyncEntries,
    AsyncExperiments,
    AsyncExports,
    AsyncLoads,
    AsyncPipelines,
    AsyncRuns,
    AsyncSessions,
    Entries,
    Experiments,
    Exports,
    Loads,
    Pipelines,
    Runs,
    Sessions,
)
from vlmhyperbench.client.steps import Steps, whole_id
from vlmhyperbench.client.trust import trusting, trusting_live
from vlmhyperbench.errors import Unavailable
from vlmhyperbench.wire.live import DetailKind, Live

T = TypeVar("T")

_PAUSES_S = (0.2, 0.5, 1.0, None)
"""Pauses between the attempts of a call; None after the last attempt."""
GIVE_UP_S = 300.0
"""How long reconnecting to the live feed is attempted before it raises."""


class Client(Api):
    """The blocking client; a context manager that closes its connections.

    An argument that is missing is read from `VLMHB_API_URL` or `VLMHB_API_KEY`, then from the embedded stack's files.
    """

    def __init__(
        self,
        url: str | None = None,
        api_key: str | None = None,
        *,
        timeout_s: float = 30.0,
        transport: httpx2.BaseTransport | None = None,
        has_ended: Callable[[], bool] = lambda: False,
    ) -> None:
        """Resolve the connection.

        Args:
            url: Address of the API.
            api_key: Key of the API.
            timeout_s: Longest time for one call.
            transport: What sends the calls.
            has_ended: Says whether the stack has ended for good, so that nobody waits for it to answer again.

        Raises:
            Unavailable, InvalidInput: as `resolve`.
        """
        super().__init__(self)
        self._has_ended = has_ended
        self.connection = resolve(url, api_key)
        self._http = httpx2.Client(timeout=timeout_s, transport=transport, **_options(self.connection))
        self.runs = Runs(self)
        self.experiments = Experiments(self)
        self.entries = Entries(self)
        self.loads = Loads(self)
        self.exports = Exports(self)
        self.sessions = Sessions(self)
        self.pipelines = Pipelines(self)

    def send(self, call: Call[T]) -> T:
        """Send a call. Transport errors are retried, which is safe because every POST carries an idempotency key.

        Raises:
            VlmHyperBenchError: the API refused the call, or does not respond.
        """
        for pause in _PAUSES_S:
            try:
                response = self._http.request(call.method, call.prefix + call.path, **_request(call))
                break
            except httpx2.TransportError as error:
                if pause is None:
                    raise _unreachable(self.connection, error) from error
            time.sleep(pause)
        return call.answer(response.status_code, response.content)

    def live(
        self,
        streams: Iterable[UUID | str],
        *,
        since: Mapping[UUID | str, int] | None = None,
        details: Iterable[DetailKind] = (),
        give_up_s: float = GIVE_UP_S,
        timeout_s: float | None = None,
    ) -> Iterator[Live]:
        """Follow runs or experiments until they end: a snapshot of each, then each event once, in order, and progress.

        A broken connection is reopened at the cursors. `since` gives, per stream, the last event already known.
        `details` names what else is sent of runs while they go on: their newest `samples`, `resources`, and `logs`.

        Raises:
            Unavailable: the feed could not be reached for `give_up_s` seconds, or the stack has ended.
            NotReady: some streams have not ended after `timeout_s` seconds.
            Denied: the API refused the key.
        """
        deadline = Deadline(timeout_s)
        cursors = Cursors([self.do(whole_id(stream)) for stream in streams], since, details)
        pause, failing_since = FIRST_PAUSE_S, None
        while True:
            try:
                with websockets.sync.client.connect(
                    self.connection.live_url,
                    additional_headers=self.connection.headers,
                    max_size=MAX_MESSAGE_BYTES,
                    proxy=None if self.connection.is_loopback else True,
                    ssl=trusting_live(self.connection),
                ) as socket:
                    socket.send(cursors.subscription())
                    while True:
                        text = socket.recv(timeout=deadline.left_s())
                        pause, failing_since = FIRST_PAUSE_S, None
                        if (message := cursors.accept(text)) is not None:
                            yield message
                        if cursors.is_over:
                            return
            except CONNECTION_ERRORS as error:
                deadline.left_s()
                if (fatal := fatal_of(error)) is not None:
                    raise fatal from error
                if self._has_ended():
                    raise stack_ended(error) from error
                failing_since = failing_since or time.monotonic()
                if time.monotonic() - failing_since > give_up_s:
                    raise given_up(error, give_up_s) from error
            time.sleep(pause)
            pause = min(pause * 2, MAX_PAUSE_S)

    def do(self, steps: Steps[T]) -> T:
        """Run a multi-call operation: send each call that it yields and pass the result back.

        Raises:
            VlmHyperBenchError: a call was refused, or its response cannot be used.
        """
        try:
            call = next(steps)
            while True:
                call = steps.send(self.send(call))
        except StopIteration as end:
            result: T = end.value
            return result

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
        self.entries = AsyncEntries(self)
        self.loads = AsyncLoads(self)
        self.exports = AsyncExports(self)
        self.sessions = AsyncSessions(self)
        self.pipelines = AsyncPipelines(self)

    async def send(self, call: Call[T]) -> T:
        """Send a call, as `Client.send` does.

        Raises:
            VlmHyperBenchError: the API refused the call, or does not respond.
        """
        for pause in _PAUSES_S:
            try:
                response = await self._http.request(call.method, call.prefix + call.path, **_request(call))
                break
            except httpx2.TransportError as error:
                if pause is None:
                    raise _unreachable(self.connection, error) from error
            await asyncio.sleep(pause)
        return call.answer(response.status_code, response.content)

    async def live(
        self,
        streams: Iterable[UUID | str],
        *,
        since: Mapping[UUID | str, int] | None = None,
        details: Iterable[DetailKind] = (),
        give_up_s: float = GIVE_UP_S,
        timeout_s: float | None = None,
    ) -> AsyncIterator[Live]:
        """Follow runs or experiments until they end, as `Client.live` does.

        Raises:
            Unavailable: the feed could not be reached for `give_up_s` seconds.
            NotReady: some streams have not ended after `timeout_s` seconds.
            Denied: the API refused the key.
        """
        deadline = Deadline(timeout_s)
        cursors = Cursors([await self.do(whole_id(stream)) for stream in streams], since, details)
        pause, failing_since = FIRST_PAUSE_S, None
        while True:
            try:
                async with websockets.asyncio.client.connect(
                    self.connection.live_url,
                    additional_headers=self.connection.headers,
                    max_size=MAX_MESSAGE_BYTES,
                    proxy=None if self.connection.is_loopback else True,
                    ssl=trusting_live(self.connection),
                ) as socket:
                    await socket.send(cursors.subscription())
                    while True:
                        text = await asyncio.wait_for(socket.recv(), deadline.left_s())
                        pause, failing_since = FIRST_PAUSE_S, None
                        if (message := cursors.accept(text)) is not None:
                            yield message
                        if cursors.is_over:
                            return
            except CONNECTION_ERRORS as error:
                deadline.left_s()
                if (fatal := fatal_of(error)) is not None:
                    raise fatal from error
                failing_since = failing_since or time.monotonic()
                if time.monotonic() - failing_since > give_up_s:
                    raise given_up(error, give_up_s) from error
            await asyncio.sleep(pause)
            pause = min(pause * 2, MAX_PAUSE_S)

    async def do(self, steps: Steps[T]) -> T:
        """Run a multi-call operation: send each call that it yields and pass the result back.

        Raises:
            VlmHyperBenchError: a call was refused, or its response cannot be used.
        """
        try:
            call = next(steps)
            while True:
                call = steps.send(await self.send(call))
        except StopIteration as end:
            result: T = end.value
            return result

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
        "verify": trusting(connection.ca_file),
    }


def _request(call: Call[T]) -> dict[str, Any]:
    return {"params": call.params, "content": call.body, "headers": dict(call.headers)}


def _unreachable(connection: Connection, error: httpx2.TransportError) -> Unavailable:
    return Unavailable(
        f"The API at {connection.url} does not answer: {error or type(error).__name__}.",
        cure="Start the stack with `vlmhyperbench up`, or check VLMHB_API_URL.",
    )
