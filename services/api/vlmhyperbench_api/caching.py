"""Conditional requests: a client that has the current body of a resource gets 304 instead of the same bytes again."""

from __future__ import annotations

import hashlib

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_REMEMBERED = ("etag", "cache-control", "vary", "content-location", "date", "expires")
"""Headers that a 304 has, as RFC 9110 says."""


class Conditional:
    """ASGI middleware: gives whole JSON bodies an ETag, and compares every ETag with If-None-Match.

    The tag is weak, because the same body may be sent compressed or plain.
    """

    def __init__(self, app: ASGIApp, *, prefix: str) -> None:
        """Serve the paths that begin with `prefix`."""
        self._app = app
        self._prefix = prefix

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "GET" or not scope["path"].startswith(self._prefix):
            await self._app(scope, receive, send)
            return
        await self._app(scope, receive, _Compared(send, _tags(Headers(scope=scope).get("if-none-match", ""))))


class _Compared:
    """The messages of one response, of which the start waits for the body, since the tag depends on it."""

    def __init__(self, send: Send, known: frozenset[str]) -> None:
        self._send = send
        self._known = known
        self._start: Message | None = None
        self._is_same = False

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start" and message["status"] == 200:
            self._start = message
            return
        if self._start is not None:
            start, self._start = self._start, None
            await self._send(self._begun(start, message))
        if self._is_same:
            if message["type"] == "http.response.body" and not message.get("more_body", False):
                await self._send({"type": "http.response.body", "body": b""})
            return
        await self._send(message)

    def _begun(self, start: Message, body: Message) -> Message:
        """Return the start of the response: 304 if the client has this body."""
        headers = MutableHeaders(raw=start["headers"])
        _mark(headers, body)
        tag = headers.get("etag")
        self._is_same = tag is not None and bool(self._known & {_plain(tag), "*"})
        if not self._is_same:
            return start
        kept = [(name, value) for name, value in start["headers"] if name.decode("latin-1").lower() in _REMEMBERED]
        return {"type": "http.response.start", "status": 304, "headers": kept}


def _mark(headers: MutableHeaders, message: Message) -> None:
    """Give a whole JSON body its tag, and ask caches to compare before they use it again."""
    is_whole = message["type"] == "http.response.body" and not message.get("more_body", False)
    if "etag" not in headers and is_whole and headers.get("content-type", "").startswith("application/json"):
        headers["ETag"] = f'W/"{hashlib.blake2b(message.get("body", b""), digest_size=16).hexdigest()}"'
    if "etag" in headers:
        headers.setdefault("Cache-Control", "private, no-cache")


def _tags(header: str) -> frozenset[str]:
    return frozenset(_plain(part.strip()) for part in header.split(",") if part.strip())


def _plain(tag: str) -> str:
    return tag.removeprefix("W/")
