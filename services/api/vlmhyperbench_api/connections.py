"""Connections that end: whoever sends half a request does not hold a socket for ever.

uvicorn itself only ends connections on which nothing is under way. Here a head has its time from the connection, or
from its first byte on one that is used again, however slowly it trickles in; what is left of a body when its answer is
out has its time, too. A body that is still read is bounded where it is read, in `limits`.
"""

from __future__ import annotations

import asyncio
from typing import ClassVar

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

_TIMEOUT = b"HTTP/1.1 408 Request Timeout\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"


class BoundedProtocol(H11Protocol):
    """uvicorn's protocol, with a time in which what the client sends must be whole."""

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
        """Let the time run while the client owes something, and else stop it; more bytes win no time."""
        is_ours = self.transport.get_protocol() is self and not self.transport.is_closing()
        if not is_ours or not self._owes():  # a WebSocket has its own protocol, which pings
            self._forget()
        elif self._deadline is None:
            self._deadline = self.loop.call_later(self.request_s, self._end)

    def _owes(self) -> bool:
        """Say whether a head is awaited that the keep-alive time does not cover, or a body that nobody reads."""
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
        self.loop.call_later(1, self.transport.abort)  # a client that reads nothing holds the close, too


def bounded_protocol(request_s: float) -> type[BoundedProtocol]:
    """Return the protocol with its time set, as uvicorn makes one per connection."""
    return type("BoundedProtocol", (BoundedProtocol,), {"request_s": request_s})
