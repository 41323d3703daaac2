"""Forward chat completions: translate and send the request, then pass the answer on with `performance` added."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Coroutine, Mapping
from contextlib import AsyncExitStack

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from vlmhyperbench.errors import NotFound, OutOfMemory
from vlmhyperbench.logs import process_masker
from vlmhyperbench_gateway.adapters import to_bytes, write_json
from vlmhyperbench_gateway.counters import Counters
from vlmhyperbench_gateway.errors import Busy, ClientLeft, EngineFailed, TooLarge
from vlmhyperbench_gateway.host import EngineHost, Serving
from vlmhyperbench_gateway.images import inline_images
from vlmhyperbench_gateway.settings import GatewaySettings
from vlmhyperbench_gateway.streams import EventSplitter, Meter, Passage, bad_answer, error_event
from vlmhyperbench_gateway.transport import EngineResponse
from vlmhyperbench_sdk.chat import asked_choices
from vlmhyperbench_sdk.completions import BadAnswer, only_asked, parse_document, read_completion
from vlmhyperbench_sdk.jsontext import parse_object
from vlmhyperbench_sdk.out_of_memory import says_out_of_memory
from vlmhyperbench_sdk.types import JsonValue

CHAT_PATH = "/v1/chat/completions"
_MAX_ERROR_BYTES = 1024 * 1024


class Relay:
    """The data plane of one gateway."""

    def __init__(self, settings: GatewaySettings, host: EngineHost, counters: Counters) -> None:
        self._settings = settings
        self._host = host
        self._counters = counters

    async def chat(self, request: Request) -> Response:
        """Answer one chat completion, as a stream or as one body.

        Raises:
            NotReady: no model is loaded.
            Busy: the maximum of requests is in flight.
            InvalidInput: the request is malformed, or asks for something that the engine cannot do.
            NotFound: it names another model than the loaded one.
            EngineFailed: the engine does not answer.
            OutOfMemory: the engine ran out of memory.
            ClientLeft: the client left before the answer had begun, or, where it is one body, before it was whole.
        """
        meter = Meter(received_ns=time.monotonic_ns())
        serving = self._host.serving()
        if self._counters.in_flight >= self._settings.max_in_flight:
            raise Busy(f"{self._settings.max_in_flight} requests are in flight.", cure="Try again in a moment.")
        async with AsyncExitStack() as stack:
            stack.enter_context(self._counters.request(meter))
            parsed = parse_object(await read_body(request, self._settings.max_body_bytes), what="The body")
            if parsed.get("model", serving.model) != serving.model:
                raise NotFound(
                    f"The model that is loaded is {serving.model}.",
                    cure="GET /v1/models lists it.",
                    code="model_not_found",
                )
            body = to_bytes(serving.adapter, inline_images(parsed, self._settings.data_root))
            asked = asked_choices(parsed)
            meter.sent_ns = time.monotonic_ns()
            return await _unless_left(request.receive, self._answer(serving, body, meter, asked, stack))

    async def _answer(self, serving: Serving, body: bytes, meter: Meter, asked: int, stack: AsyncExitStack) -> Response:
        answer = await self._send(serving, body, stack)
        if answer.status != 200:
            return await self._refusal(answer)
        if "text/event-stream" in answer.headers.get("content-type", ""):
            return _StreamedAnswer(self, serving, answer, meter, asked, stack.pop_all())
        return await self._whole(serving, answer, meter, asked)

    async def _send(self, serving: Serving, body: bytes, stack: AsyncExitStack) -> EngineResponse:
        try:
            async with asyncio.timeout(self._settings.request_timeout_s):
                return await stack.enter_async_context(serving.client.request("POST", CHAT_PATH, body))
        except TimeoutError as error:
            raise EngineFailed("The engine did not answer in time.", code="engine_timeout") from error
        except EngineFailed as error:
            raise await self._host.explain(error) from error

    async def _refusal(self, answer: EngineResponse) -> Response:
        """Pass an error of the engine on, with its status, secrets masked; out of memory becomes `OutOfMemory`."""
        text = process_masker.mask((await answer.read(_MAX_ERROR_BYTES)).decode("utf-8", "replace"))
        if says_out_of_memory(text):
            raise OutOfMemory(f"The engine ran out of memory: {text[:500]}")
        headers = {name: answer.headers[name] for name in ("retry-after",) if name in answer.headers}
        try:
            is_openai = isinstance(json.loads(text), dict)
        except ValueError:
            is_openai = False
        content = (
            text.encode() if is_openai else write_json({"error": {"message": text[:2000], "code": "engine_error"}})
        )
        return Response(content, answer.status, headers, media_type="application/json")

    async def _whole(self, serving: Serving, answer: EngineResponse, meter: Meter, asked: int) -> Response:
        try:
            async with asyncio.timeout(self._settings.request_timeout_s):
                body = await answer.read()
        except TimeoutError as error:
            raise EngineFailed("The engine did not answer in time.", code="engine_timeout") from error
        except EngineFailed as error:
            raise await self._host.explain(error) from error
        now_ns = time.monotonic_ns()
        parsed = _read_whole(body, asked)
        meter.note_usage(parsed)
        memory = serving.vram.block(meter.received_ns, now_ns)
        performance = meter.performance(now_ns, memory)
        content = write_json({**parsed, "performance": performance})
        return Response(content, 200, _headers(performance), media_type="application/json")

    async def events(self, serving: Serving, answer: EngineResponse, meter: Meter, asked: int) -> AsyncIterator[bytes]:
        """Yield the whole events of a stream, as many at a time as arrived together."""
        passage = Passage(meter, asked=asked, memory=lambda end_ns: serving.vram.block(meter.received_ns, end_ns))
        try:
            async with asyncio.timeout(self._settings.request_timeout_s):
                async for events in _whole_events(answer):
                    if data := passage.take(events, time.monotonic_ns()):
                        yield data
                    if passage.state == "failed":
                        return
                if data := passage.end():
                    yield data
        except TimeoutError:
            yield error_event(EngineFailed("The engine did not answer in time.", code="engine_timeout"))
        except EngineFailed as error:
            yield error_event(await self._host.explain(error))


class _StreamedAnswer(Response):
    """Sends a stream as it arrives; a client that disconnects ends the engine's request too."""

    media_type = "text/event-stream"

    def __init__(
        self,
        relay: Relay,
        serving: Serving,
        answer: EngineResponse,
        meter: Meter,
        asked: int,
        stack: AsyncExitStack,
    ) -> None:
        super().__init__()
        del self.headers["content-length"]
        self._relay, self._serving, self._answer = relay, serving, answer
        self._meter, self._asked, self._stack = meter, asked, stack

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002 -- ASGI's signature
        async with self._stack, asyncio.TaskGroup() as group:
            sending = group.create_task(self._send(send))
            disconnected = group.create_task(_wait_disconnect(receive))
            await asyncio.wait([sending, disconnected], return_when=asyncio.FIRST_COMPLETED)
            sending.cancel()
            disconnected.cancel()

    async def _send(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        async for piece in self._relay.events(self._serving, self._answer, self._meter, self._asked):
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _whole_events(answer: EngineResponse) -> AsyncIterator[list[bytes]]:
    """Yield the events that arrived together; the rest at the end is an event even without its blank line."""
    splitter = EventSplitter()
    async for piece in answer.pieces():
        if events := splitter.feed(piece):
            yield events
    if rest := splitter.end():
        yield [rest + b"\n\n"]


def _read_whole(body: bytes, asked: int) -> dict[str, JsonValue]:
    """Read a whole answer and return it with the requested choices only.

    Raises:
        EngineFailed: it is an error, or not an answer by the protocol.
    """
    try:
        parsed = parse_document(body).document
        if stated := parsed.get("error"):
            message = stated.get("message") if isinstance(stated, dict) else stated
            raise EngineFailed(f"The engine answered with an error: {str(message)[:2000]}", code="engine_error")
        read_completion(parsed, asked)
        return only_asked(parsed, range(asked))
    except BadAnswer as error:
        raise bad_answer(error) from error


async def read_body(request: Request, limit: int) -> bytes:
    """Read a request's body; the stated length is checked before the body is read.

    Raises:
        TooLarge: the body exceeds the limit.
    """
    stated = request.headers.get("content-length", "0")
    if not stated.isdigit() or int(stated) > limit:
        raise TooLarge(f"A body has at most {limit} bytes.")
    body = bytearray()
    async for piece in request.stream():
        body += piece
        if len(body) > limit:
            raise TooLarge(f"A body has at most {limit} bytes.")
    return bytes(body)


async def _unless_left(receive: Receive, answering: Coroutine[object, object, Response]) -> Response:
    """Return the answer; if the client leaves before, cancel it, which closes the connection to the engine.

    Raises:
        ClientLeft: the client has left.
    """
    answer = asyncio.ensure_future(answering)
    leaving = asyncio.ensure_future(_wait_disconnect(receive))
    try:
        await asyncio.wait([answer, leaving], return_when=asyncio.FIRST_COMPLETED)
        if not answer.done():
            raise ClientLeft("The client has left.")
        return await answer
    finally:
        answer.cancel()
        leaving.cancel()
        await asyncio.wait([answer, leaving])


async def _wait_disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _headers(performance: Mapping[str, JsonValue]) -> dict[str, str]:
    headers = {"x-latency-ms": f"{performance['latency_ms']:.3f}"}
    if isinstance(performance["vram_peak_mb"], (int, float)):
        headers["x-peak-memory-mb"] = f"{performance['vram_peak_mb']:.1f}"
    return headers
