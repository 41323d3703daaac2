"""The part of HTTP/1.1 that gateway and load generators use, on asyncio: bodies with a length, answers in chunks."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

MAX_HEAD_BYTES = 64 * 1024
MAX_BODY_BYTES = 512 * 1024 * 1024
_REASONS = {200: "OK", 400: "Bad Request", 404: "Not Found", 413: "Content Too Large", 429: "Too Many Requests"}


@dataclass(frozen=True, kw_only=True)
class HttpRequest:
    """A request with its whole body."""

    method: str
    path: str
    headers: Mapping[str, str]
    """Names in lower case."""
    body: bytes


@dataclass(frozen=True, kw_only=True)
class HttpResponse:
    """An answer: a whole body, or events as they come."""

    status: int = 200
    body: bytes = b""
    events: AsyncIterator[bytes] | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    on_end: Callable[[], None] = lambda: None
    """Is called once when the answer is sent, or its client has left."""


Handler = Callable[[HttpRequest], Awaitable[HttpResponse]]


class BadRequest(Exception):
    """What came is not a request that this server reads."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


async def serve(handler: Handler, *, host: str, port: int) -> asyncio.Server:
    """Answer requests until the server is closed; each connection is a task, which ends when its client leaves."""

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await _Connection(handler, reader, writer).run()
        except (ConnectionError, asyncio.IncompleteReadError):
            return  # the client has left
        finally:
            writer.close()

    return await asyncio.start_server(connected, host, port, limit=MAX_HEAD_BYTES, backlog=1024)


def json_response(body: Mapping[str, Any], status: int = 200, headers: Mapping[str, str] | None = None) -> HttpResponse:
    """Return an answer in JSON."""
    return HttpResponse(status=status, body=json.dumps(body).encode(), headers=headers or {})


class _Connection:
    """One connection: its requests are answered one after another."""

    def __init__(self, handler: Handler, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._handler, self._reader, self._writer = handler, reader, writer
        self._early = b""
        """What the client sent while its last request was still answered."""

    async def run(self) -> None:
        """Answer requests until the client leaves or asks to close."""
        while True:
            try:
                request = await self._read()
            except BadRequest as error:
                body = {"error": {"message": str(error), "type": "invalid_request_error", "code": "bad_request"}}
                await _write(self._writer, json_response(body, error.status, {"connection": "close"}))
                return
            if request is None or not await self._answer(request):
                return
            if request.headers.get("connection", "").lower() == "close":
                return

    async def _answer(self, request: HttpRequest) -> bool:
        """Answer a request, and return whether the client is still there; one that leaves cancels the handler."""

        async def answer() -> None:
            response = await self._handler(request)
            try:
                await _write(self._writer, response)
            finally:
                response.on_end()

        answering, listening = asyncio.ensure_future(answer()), asyncio.ensure_future(self._reader.read(1))
        try:
            await asyncio.wait([answering, listening], return_when=asyncio.FIRST_COMPLETED)
            if not listening.done() or listening.result():
                await answering
        finally:
            answering.cancel()
            listening.cancel()
            await asyncio.gather(answering, listening, return_exceptions=True)
        if not listening.cancelled():
            self._early = listening.result()
        return listening.cancelled() or bool(self._early)

    async def _read(self) -> HttpRequest | None:
        try:
            head = self._early + await self._reader.readuntil(b"\r\n\r\n")
        except asyncio.IncompleteReadError as error:
            if error.partial:
                raise BadRequest(400, "The request ended within its headers.") from error
            return None
        except asyncio.LimitOverrunError as error:
            raise BadRequest(400, "The headers are too long.") from error
        self._early = b""
        first, *lines = head.decode("latin-1").split("\r\n")
        words = first.split(" ")
        if len(words) != 3 or not words[2].startswith("HTTP/1."):
            raise BadRequest(400, "The first line is not one of HTTP/1.1.")
        pairs = (line.partition(":") for line in lines if line)
        headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
        length = headers.get("content-length", "0")
        if "transfer-encoding" in headers or not length.isdigit():
            raise BadRequest(400, "A body needs content-length.")
        if int(length) > MAX_BODY_BYTES:
            raise BadRequest(413, f"A body has at most {MAX_BODY_BYTES} bytes.")
        if headers.get("expect", "").lower() == "100-continue":
            self._writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        body = await self._reader.readexactly(int(length))
        return HttpRequest(method=words[0], path=words[1].partition("?")[0], headers=headers, body=body)


async def _write(writer: asyncio.StreamWriter, response: HttpResponse) -> None:
    is_stream = response.events is not None
    kind = "text/event-stream" if is_stream else "application/json"
    size = "transfer-encoding: chunked" if is_stream else f"content-length: {len(response.body)}"
    lines = [f"HTTP/1.1 {response.status} {_REASONS.get(response.status, 'Status')}", f"content-type: {kind}", size]
    lines += [f"{name}: {value}" for name, value in response.headers.items()]
    writer.write("\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + response.body)
    await writer.drain()
    if response.events is None:
        return
    async for data in response.events:
        writer.write(b"%x\r\n%b\r\n" % (len(data), data))
        await writer.drain()
    writer.write(b"0\r\n\r\n")
    await writer.drain()
