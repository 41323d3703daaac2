"""Limits on requests, applied before or while they are read: body size and timeout, packed bodies, NUL in URLs."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from types import MappingProxyType

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from vlmhyperbench.errors import InvalidInput, VlmHyperBenchError
from vlmhyperbench_api.errors import TooLarge, TooSlow, UnsupportedMedia, problem_of, respond

MAX_BODY_BYTES = 1024 * 1024
MAX_ANSWERS_BYTES = 1024**3
MIN_BYTES_PER_S = 64 * 1024
_PLAIN = frozenset({b"", b"identity"})
"""Content-Encodings of bodies that are read: a packed one may unpack to any size."""


class Limits:
    """ASGI middleware: responds 413 by Content-Length before reading, or by the bytes counted while reading.

    A body that takes longer than `body_s` seconds, plus a second for every `MIN_BYTES_PER_S` received, gets a 408.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        body_s: float,
        max_body_bytes: int = MAX_BODY_BYTES,
        larger: Mapping[str, int] = MappingProxyType({}),
    ) -> None:
        """Set the limits; `larger` maps paths with streamed bodies to their own size limits."""
        self._app = app
        self._body_s = body_s
        self._max = max_body_bytes
        self._larger = larger

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        limit = self._larger.get(scope["path"], self._max)
        error = self._refuse(scope, limit)
        if error is not None:
            await respond(problem_of(error))(scope, receive, send)
            return
        await self._app(scope, self._counted(receive, limit), send)

    def _refuse(self, scope: Scope, limit: int) -> VlmHyperBenchError | None:
        if "\x00" in scope["path"] or b"%00" in scope.get("query_string", b""):
            return InvalidInput("The address contains a NUL character.", cure="Remove it.")
        headers = dict(scope["headers"])
        coding = headers.get(b"content-encoding", b"identity").strip().lower()
        if coding not in _PLAIN:
            shown = coding[:40].decode("latin-1")
            return UnsupportedMedia(f"The body is packed with {shown!r}.", cure="Send it without Content-Encoding.")
        announced = headers.get(b"content-length", b"0")
        if not announced.isdigit():
            return InvalidInput("Content-Length is not a number.", cure="Send the body's length in bytes.")
        return _too_large(limit) if int(announced[:20]) > limit else None

    def _counted(self, receive: Receive, limit: int) -> Receive:
        seen, reading_s, is_whole = 0, 0.0, False

        async def counted() -> Message:
            nonlocal seen, reading_s, is_whole
            if is_whole:  # the next message is the client's disconnect
                return await receive()
            begun = time.monotonic()
            allowed_s = self._body_s + seen / MIN_BYTES_PER_S - reading_s
            try:
                async with asyncio.timeout(max(allowed_s, 0)):
                    message = await receive()
            except TimeoutError as error:
                raise TooSlow("The body does not arrive.", cure="Send the whole body, and faster.") from error
            reading_s += time.monotonic() - begun  # counts only the time that the application waits for the client
            is_whole = message["type"] != "http.request" or not message.get("more_body", False)
            if message["type"] == "http.request":
                seen += len(message.get("body", b""))
                if seen > limit:
                    raise _too_large(limit)
            return message

        return counted


def _too_large(limit: int) -> TooLarge:
    return TooLarge(f"The body is larger than {limit} bytes.", cure="Send less at once.")
