"""Speak HTTP/1.1 to one engine over persistent connections, with minimal work between an event and its forwarding.

Addresses are fixed when the client is created: the caller checks and resolves a host name once.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Self

import httptools

from vlmhyperbench.errors import InvalidInput
from vlmhyperbench_gateway.errors import EngineFailed
from vlmhyperbench_sdk.net import Url

CONNECT_SECONDS = 10.0
MAX_HEAD_BYTES = 1024 * 1024
MAX_IDLE = 1024
_PIECE_BYTES = 256 * 1024


@dataclass(slots=True)
class _Connection:
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    is_used: bool = False
    """Whether it has carried an answer; the engine may have closed it since."""

    def close(self) -> None:
        self.writer.close()


class EngineResponse:
    """Status and headers of an answer; its body is read once, by `pieces` or `read`."""

    def __init__(self, connection: _Connection) -> None:
        self._connection = connection
        self._parser = httptools.HttpResponseParser(self)
        self._has_head = False
        self._has_ended = False
        self._may_persist = False
        self._arrived: list[bytes] = []
        self.status = 0
        self.headers: dict[str, str] = {}
        """Names in lower case."""
        self.is_complete = False
        """Whether the whole body was read, so that the connection can be used again."""

    def on_message_begin(self) -> None:
        """Refuse a second answer to one request, which would be taken for the answer to the next one."""
        if self._has_ended:
            raise ValueError("it answers one request twice")

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header from the parser; those behind a body mean nothing here."""
        if not self._has_head:
            self.headers[name.decode("latin-1").lower()] = value.decode("latin-1").strip()

    def on_headers_complete(self) -> None:
        """Take the end of a head from the parser; the one of an interim answer is skipped."""
        self.status = self._parser.get_status_code()
        if self.status >= 200:
            self._has_head = True
        else:
            self.headers.clear()

    def on_body(self, piece: bytes) -> None:
        """Take a piece of the body from the parser."""
        self._arrived.append(piece)

    def on_message_complete(self) -> None:
        """Take the end of an answer from the parser."""
        self._has_ended = self._has_head
        self._may_persist = self._parser.should_keep_alive()

    async def with_head(self) -> Self:
        """Read until the headers have arrived, perhaps with a part of the body, and return this.

        Raises:
            EngineFailed: what arrives is no answer in HTTP.
            EOFError: the connection ended before a byte arrived.
        """
        size = 0
        while not self._has_head:
            arrived = await self._connection.reader.read(_PIECE_BYTES)
            if not arrived:
                if size:
                    raise EngineFailed("The engine ended its answer within the headers.")
                raise EOFError
            size += len(arrived)
            try:
                self._parser.feed_data(arrived)
            except httptools.HttpParserError as error:
                raise EngineFailed("The engine does not speak HTTP/1.1.") from error
            if not self._has_head and size > MAX_HEAD_BYTES:
                raise EngineFailed("The engine's headers are too long.")
        return self

    async def pieces(self) -> AsyncIterator[bytes]:
        """Yield the body as it arrives; what arrived together is one piece.

        Raises:
            EngineFailed: the connection ended before the body did.
        """
        reader, arrived = self._connection.reader, self._arrived
        is_open_ended = not self.headers.keys() & {"content-length", "transfer-encoding"}
        try:
            while True:
                if arrived:
                    piece = arrived[0] if len(arrived) == 1 else b"".join(arrived)
                    arrived.clear()
                    yield piece
                if self._has_ended:
                    break
                if data := await reader.read(_PIECE_BYTES):
                    self._parser.feed_data(data)
                elif is_open_ended:
                    return
                else:
                    raise EngineFailed("The engine ended its answer early.")
        except (OSError, httptools.HttpParserError) as error:
            raise EngineFailed(f"The engine broke its answer off: {error}.") from error
        self.is_complete = self._may_persist

    async def read(self, limit: int = 256 * 1024 * 1024) -> bytes:
        """Return the whole body.

        Raises:
            EngineFailed: the body ended early, or is longer than `limit` bytes.
        """
        body = bytearray()
        async for piece in self.pieces():
            body += piece
            if len(body) > limit:
                raise EngineFailed(f"The engine's answer exceeds {limit} bytes.")
        return bytes(body)


class EngineClient:
    """A pool of connections to one engine; a header that would break the request raises `InvalidInput`."""

    def __init__(self, url: Url, addresses: Sequence[str], *, headers: Mapping[str, str] | None = None) -> None:
        self._url = url
        self._addresses = tuple(addresses)
        self._idle: list[_Connection] = []
        self._is_closed = False
        self._tls = ssl.create_default_context() if url.scheme == "https" else None
        host = f"[{url.host}]" if ":" in url.host else url.host
        lines = [f"host: {host}:{url.port}", "accept-encoding: identity", "user-agent: vlmhyperbench-gateway"]
        for name, value in (headers or {}).items():
            if not (value.isascii() and value.isprintable()):
                raise InvalidInput(
                    f"The value of the header {name} holds characters that a header cannot hold.",
                    cure="Use printable ASCII characters.",
                )
            lines.append(f"{name}: {value}")
        self._head = "\r\n".join(lines).encode("ascii")

    def close(self) -> None:
        """Close the idle connections; the others close when their answers end."""
        self._is_closed = True
        while self._idle:
            self._idle.pop().close()

    @asynccontextmanager
    async def request(self, method: str, path: str, body: bytes = b"") -> AsyncIterator[EngineResponse]:
        """Send a request below the URL's path and yield the answer once its headers have arrived.

        An idle connection that the engine has closed meanwhile is replaced by a new one.

        Raises:
            EngineFailed: the engine does not answer, or not in HTTP.
        """
        head = f"{method} {self._url.path}{path} HTTP/1.1\r\n".encode("ascii") + self._head
        if body:
            head += b"\r\ncontent-type: application/json\r\ncontent-length: %d" % len(body)
        response = await self._exchange(head + b"\r\n\r\n", body)
        connection = response._connection  # noqa: SLF001 - one module, two halves of one exchange
        try:
            yield response
        finally:
            if response.is_complete and not self._is_closed and len(self._idle) < MAX_IDLE:
                connection.is_used = True
                self._idle.append(connection)
            else:
                connection.close()

    async def _exchange(self, head: bytes, body: bytes) -> EngineResponse:
        while True:
            connection = await self._take()
            try:
                connection.writer.write(head + body if len(body) < _PIECE_BYTES else head)
                if len(body) >= _PIECE_BYTES:
                    connection.writer.write(body)
                await connection.writer.drain()
                return await EngineResponse(connection).with_head()
            except (OSError, EOFError) as error:
                connection.close()
                if not connection.is_used:
                    raise EngineFailed(f"The engine closed the connection: {error}.") from error
            except BaseException:
                connection.close()
                raise

    async def _take(self) -> _Connection:
        while self._idle:
            connection = self._idle.pop()
            if not connection.reader.at_eof() and not connection.writer.is_closing():
                return connection
            connection.close()
        failure: OSError | None = None
        for address in self._addresses:
            opened = await self._open(address)
            if isinstance(opened, _Connection):
                return opened
            failure = opened
        raise EngineFailed(f"The engine at {self._url} cannot be reached: {failure!r}.") from failure

    async def _open(self, address: str) -> _Connection | OSError:
        name = self._url.host if self._tls is not None else None
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                reader, writer = await asyncio.open_connection(
                    address, self._url.port, ssl=self._tls, server_hostname=name, limit=MAX_HEAD_BYTES
                )
        except OSError as error:  # TimeoutError and SSLError are among them
            return error
        return _Connection(reader, writer)
