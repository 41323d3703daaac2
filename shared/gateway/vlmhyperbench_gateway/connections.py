"""Connections of clients: httptools reads requests, and a request's head has a maximum length.

httptools parses in C, so a request reaches its engine sooner than with h11, which is written in Python; unlike h11 it
reads heads of any length, and does so before a key is checked.
"""

from __future__ import annotations

from typing import Final

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

MAX_HEAD_BYTES: Final = 64 * 1024
_TOO_LONG: Final = b"HTTP/1.1 431 Request Header Fields Too Large\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"


class BoundedHeads(HttpToolsProtocol):
    """uvicorn's protocol, which ends a connection whose head is too long."""

    _is_in_head = True
    _head_bytes = 0

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        # A piece in which the head ends has been read already, whatever its length.
        self._head_bytes = self._head_bytes + len(data) if self._is_in_head else 0
        if self._head_bytes > MAX_HEAD_BYTES and not self.transport.is_closing():
            self.transport.write(_TOO_LONG)
            self.transport.close()

    def on_message_begin(self) -> None:
        self._is_in_head = True
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._is_in_head = False
        super().on_headers_complete()
