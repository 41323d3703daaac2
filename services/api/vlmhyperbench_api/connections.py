"""Timeouts of connections, so that a client cannot hold a socket for ever with an incomplete request.

uvicorn itself only closes idle connections. Here a request's head has a timeout, which begins with the connection, or
with the head's first byte on a reused connection, and which further bytes do not extend. The unread rest of a body has
the same timeout once the response is complete. A body that is still being read is bounded in `limits`.
"""

from __future__ import annotations

import asyncio
from typing import ClassVar

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

_TIMEOUT = b"HTTP/1.1 408 Request Timeout\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"


class BoundedProtocol(H11Protocol):
    """uvicorn's protocol with a timeout for incomplete requests."""

    request_s: ClassVar[float]
    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # uvicorn narrows it, too
        super().connection_made(transport)
        self._watch()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._watch()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        self._forget()
        super().connection_lost(exc)

    def _watch(self) -> None:
        """Start the timeout if the client owes data, else cancel it; further data does not extend it."""
        is_ours = self.transport.get_protocol() is self and not self.transport.is_closing()
        if not is_ours or not self._owes():  # a WebSocket has its own protocol, which sends pings
            self._forget()
        elif self._deadline is None:
            self._deadline = self.loop.call_later(self.request_s, self._end)

    def _owes(self) -> bool:
        """Return whether a head is awaited outside the keep-alive timeout, or an unread body remains."""
        if self.conn.their_state is h11.IDLE:
            return self.timeout_keep_alive_task is None
        is_answered = self.cycle is not None and self.cycle.response_complete
        return self.conn.their_state is h11.SEND_BODY and is_answered

    def _forget(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _end(self) -> None:
        self._deadline = None
        if self.conn.their_state is h11.IDLE:
            self.transport.write(_TIMEOUT)
        self.transport.close()
        self.loop.call_later(1, self.transport.abort)  # a client that does not read delays the close, too


def bounded_protocol(request_s: float) -> type[BoundedProtocol]:
    """Return the protocol class with its timeout; uvicorn creates an instance per connection."""
    return type("BoundedProtocol", (BoundedProtocol,), {"request_s": request_s})
