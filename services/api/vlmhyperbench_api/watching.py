"""What operators learn of requests: counts and times by route, and the trace under which one was sent."""

from __future__ import annotations

import time

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from vlmhyperbench.monitoring.recording import count, observe
from vlmhyperbench.monitoring.trace_context import incoming, valid_traceparent

_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_UNKNOWN = "unknown"


class Watching:
    """ASGI middleware around all others. A label is the route's pattern, never the address that was asked for."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        token = incoming.set(_traceparent(scope))
        status, begun = "aborted", time.perf_counter()

        async def watched(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = str(message["status"])
            await send(message)

        try:
            await self._app(scope, receive, watched)
        finally:
            incoming.reset(token)
            route = getattr(scope.get("route"), "path", _UNKNOWN)
            method = scope["method"] if scope["method"] in _METHODS else _UNKNOWN
            count("http_requests_total", method=method, route=route, status=status)
            observe("http_request_duration_seconds", time.perf_counter() - begun, route=route)


def _traceparent(scope: Scope) -> str | None:
    headers = [value for name, value in scope["headers"] if name == b"traceparent"]
    return valid_traceparent(headers[0].decode("latin-1")) if len(headers) == 1 else None
