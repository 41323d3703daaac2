"""`/live`: the WebSocket that follows runs and experiments, each by its own cursor.

Events are read from Postgres; Redis only notifies that there are new ones. One Redis subscription serves the whole
process; while it delivers nothing, the followed streams are polled every two seconds.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Annotated, Any

from fastapi import APIRouter, WebSocket, WebSocketDisconnect
from pydantic import ValidationError

from vlmhyperbench.errors import InvalidInput, Unavailable
from vlmhyperbench.runtime import Runtime
from vlmhyperbench.wire.live import (
    BAD_MESSAGE,
    SLOW_CLIENT,
    UNAUTHORISED,
    Cursor,
    Subscribe,
)
from vlmhyperbench_api.bodies import parse
from vlmhyperbench_api.cookies import is_own_origin
from vlmhyperbench_api.dependencies import RuntimeOf
from vlmhyperbench_api.errors import Forbidden
from vlmhyperbench_api.feed import Feed
from vlmhyperbench_api.following import Following
from vlmhyperbench_api.security import Principal, requires
from vlmhyperbench_api.tails import Message

SEND_S = 5.0
MAX_MESSAGE_CHARACTERS = 64 * 1024
_TRY_AGAIN = 1013
"""Standard WebSocket close code "try again later"."""

router = APIRouter(tags=["live"])

Reader = Annotated[Principal, requires("run:read")]


@router.websocket("/live")
async def live(websocket: WebSocket, principal: Reader, runtime: RuntimeOf) -> None:
    """Follow runs and experiments: send `{"subscribe": [{"stream": id, "since": seq, "with": ["samples"]}]}`."""
    _check_origin(websocket)
    await websocket.accept()
    await Connection(websocket, runtime, websocket.app.state.feed, principal).serve()


class Connection:
    """A client's connection: its cursors, and the two tasks that read from and write to it."""

    def __init__(
        self, websocket: WebSocket, runtime: Runtime, feed: Feed, principal: Principal, *, send_s: float = SEND_S
    ) -> None:
        self._websocket = websocket
        self._feed = feed
        self._following = Following(runtime, feed, principal, self._send)
        self._send_s = send_s
        self._sending = asyncio.Lock()
        self._tasks: list[asyncio.Task[None]] = []
        self._ending: _Ended | None = None

    async def serve(self) -> None:
        """Serve until the client disconnects, is too slow, sends an invalid message, or may no longer read."""
        with self._feed.following(self._following.follower):
            async with asyncio.TaskGroup() as group:
                self._tasks = [group.create_task(self._until_end(part)) for part in (self._read, self._write)]
        code = self._ending.code if self._ending is not None else None
        if self._ending is not None and code is not None:
            with suppress(RuntimeError, TimeoutError):  # the client may be gone or not read the close
                async with asyncio.timeout(self._send_s):
                    await self._websocket.close(code, self._ending.reason)

    async def _until_end(self, part: Callable[[], Awaitable[None]]) -> None:
        """Run one of the two tasks; when it ends the connection, cancel the other."""
        try:
            await part()
        except _Ended as ending:
            self._ending = self._ending or ending
            for task in self._tasks:
                if task is not asyncio.current_task():
                    task.cancel()

    async def _read(self) -> None:
        """Handle subscriptions until the client disconnects."""
        while True:
            try:
                message = await self._websocket.receive_text()
            except (WebSocketDisconnect, KeyError) as error:  # KeyError: a binary message instead of text
                raise _Ended(None if isinstance(error, WebSocketDisconnect) else BAD_MESSAGE, "Send text.") from error
            for cursor in _parse(message):
                await self._subscribe(cursor)

    async def _write(self) -> None:
        """Send what is new until the client's key or session has ended."""
        await self._following.write()
        raise _Ended(UNAUTHORISED, "The key or the session has ended.")

    async def _subscribe(self, cursor: Cursor) -> None:
        try:
            await self._following.subscribe(cursor)
        except InvalidInput as error:
            raise _Ended(BAD_MESSAGE, error.message) from error
        except Unavailable as error:
            raise _Ended(_TRY_AGAIN, error.message[:100]) from error

    async def _send(self, message: Message[Any]) -> None:
        try:
            async with asyncio.timeout(self._send_s), self._sending:
                await self._websocket.send_text(message.text)
        except TimeoutError as error:
            raise _Ended(SLOW_CLIENT, "Too slow; reconnect with your cursors.") from error
        except (RuntimeError, WebSocketDisconnect) as error:
            raise _Ended(None, "") from error


class _Ended(Exception):
    """Ends the connection with a close code, or without one because the client has disconnected."""

    def __init__(self, code: int | None, reason: str) -> None:
        super().__init__(reason)
        self.code = code
        self.reason = reason


def _parse(message: str) -> list[Cursor]:
    if len(message) > MAX_MESSAGE_CHARACTERS:
        raise _Ended(BAD_MESSAGE, "The message is too long.")
    try:
        return Subscribe.model_validate(parse(message.encode("utf-8", "surrogatepass"))).subscribe
    except (InvalidInput, ValidationError) as error:
        raise _Ended(BAD_MESSAGE, 'Send {"subscribe": [{"stream": id, "since": seq}]}.') from error


def _check_origin(websocket: WebSocket) -> None:
    """Refuse web pages of other origins; browsers send the page's origin, other clients send none.

    Raises:
        Forbidden: the origin is not this API.
    """
    if not is_own_origin(websocket):
        raise Forbidden("Pages of another origin may not follow runs.", cure="Open the API's own address.")
