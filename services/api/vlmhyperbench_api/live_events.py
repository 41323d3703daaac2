"""`GET /live`: the twin of the WebSocket for clients that only listen, as server-sent events; `id` is the cursor.

`EventSource` reconnects by itself and sends the id of the last event that it has seen, so nothing is lost or repeated.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import suppress
from typing import Annotated, Any

from fastapi import APIRouter, Header, Query, Request
from fastapi.responses import StreamingResponse

from vlmhyperbench.errors import NotFound
from vlmhyperbench.runtime import Runtime
from vlmhyperbench.wire.live import MAX_SEQ, Cursor, LiveEvent, LiveRefusal
from vlmhyperbench_api.bodies import StrictRoute
from vlmhyperbench_api.dependencies import RuntimeOf
from vlmhyperbench_api.feed import Feed
from vlmhyperbench_api.following import Following
from vlmhyperbench_api.ids import StreamId
from vlmhyperbench_api.security import Principal, requires
from vlmhyperbench_api.tails import Message

SEND_S = 5.0
"""How long a client may take to read; then it is sent nothing more, and comes back with its cursor."""
MAX_WAITING = 256
KEEP_ALIVE_S = 15.0
"""A comment is sent when nothing else was, so that both ends notice a connection that has died."""
RETRY_MS = 1000

router = APIRouter(tags=["live"], route_class=StrictRoute)

Reader = Annotated[Principal, requires("run:read")]
_KINDS = "samples|resources|logs"
Seq = Annotated[int, Query(ge=0, le=MAX_SEQ)]


@router.get("/live", response_class=StreamingResponse, responses={200: {"content": {"text/event-stream": {}}}})
async def follow_by_events(
    request: Request,
    stream: StreamId,
    principal: Reader,
    runtime: RuntimeOf,
    since: Seq = 0,
    with_: Annotated[str | None, Query(alias="with", pattern=rf"^({_KINDS})(,({_KINDS}))*$")] = None,
    last_event_id: Annotated[str | None, Header(pattern=r"^\d{1,18}$")] = None,
) -> StreamingResponse:
    """Follow a run or an experiment: a snapshot, then the events after `since`, or after the header Last-Event-ID.

    Each message is JSON with a `type`, as on the WebSocket. `with` names details of a run that are sent too:
    `samples,resources,logs`.
    """
    details = with_.split(",") if with_ else []
    asked = {"stream": stream, "since": int(last_event_id or since), "with": details}
    messages = _messages(runtime, request.app.state.feed, principal, Cursor.model_validate(asked))
    first = await anext(messages)
    if first is not None and isinstance(first.body, LiveRefusal):
        await messages.aclose()
        raise NotFound(first.body.message, cure="List the runs to see which there are.")
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return StreamingResponse(_written(first, messages), media_type="text/event-stream", headers=headers)


async def _messages(
    runtime: Runtime, feed: Feed, principal: Principal, cursor: Cursor
) -> AsyncGenerator[Message[Any] | None]:
    """Yield what a client gets, and None where nothing has come for a while.

    It ends when the client is too slow, or its key or session has ended.
    """
    waiting = asyncio.Queue[Message[Any] | None](MAX_WAITING)

    async def put(message: Message[Any]) -> None:
        async with asyncio.timeout(SEND_S):
            await waiting.put(message)

    def wake(_: asyncio.Task[None]) -> None:
        if waiting.empty():
            waiting.put_nowait(None)

    following = Following(runtime, feed, principal, put)
    with feed.following(following.follower):
        await following.subscribe(cursor)
        writing = asyncio.create_task(following.write(), name="write-events")
        writing.add_done_callback(wake)
        try:
            while not (writing.done() and (waiting.empty() or following.follower.is_refused)):
                yield await _next(waiting)
        finally:
            writing.cancel()
            with suppress(asyncio.CancelledError, TimeoutError):
                await writing


async def _next(waiting: asyncio.Queue[Message[Any] | None]) -> Message[Any] | None:
    try:
        async with asyncio.timeout(KEEP_ALIVE_S):
            return await waiting.get()
    except TimeoutError:
        return None


async def _written(first: Message[Any] | None, messages: AsyncIterator[Message[Any] | None]) -> AsyncIterator[str]:
    yield f"retry: {RETRY_MS}\n\n"
    yield _event(first)
    async for message in messages:
        yield _event(message)


def _event(message: Message[Any] | None) -> str:
    """Write a message; those that are no event leave the client's cursor as it is."""
    if message is None:
        return ": nothing new\n\n"
    name = f"id: {message.body.seq}\n" if isinstance(message.body, LiveEvent) else ""
    return f"{name}data: {message.text}\n\n"
