"""One keep-alive connection and the HTTP response on it: non-blocking, over TCP, TLS or a Unix socket."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from ssl import SSLSocket, SSLWantReadError, SSLWantWriteError
from typing import Literal

from vlmhyperbench_loadgen.clocks import to_monotonic
from vlmhyperbench_loadgen.eventloop import READ, WRITE
from vlmhyperbench_loadgen.http1 import Body, Chunks, Head, NotHttp, read_body, read_head
from vlmhyperbench_loadgen.receiving import Received
from vlmhyperbench_loadgen.target import Target
from vlmhyperbench_sdk.stamps import STAMP_SPACE, Reading, ask_for_stamps, stamp_of

READ_BYTES = 16_384
_JOINED_BYTES = 16_384
"""Up to this size of the body, joining head and body for one `send` is faster than one `sendmsg` of both."""


class Response:
    """The received bytes of a response and the instants of their reads; `add` runs for every read."""

    __slots__ = (
        "_chunks",
        "_needed",
        "began",
        "ends",
        "head",
        "is_stamped",
        "is_whole",
        "received",
        "stamps",
        "times",
    )

    def __init__(self, began: Reading | None = None) -> None:
        self.received = bytearray()
        self.ends: list[int] = []
        """Length of `received` after each read."""
        self.times: list[int] = []
        """Instant of each read, in this process."""
        self.stamps: list[int] = []
        """The kernel's instants of the reads, on the wall clock, if it stamps the socket."""
        self.began = began
        """The clocks shortly before the request was sent."""
        self.is_stamped = False
        """Whether `times` are the kernel's instants."""
        self.head: Head | None = None
        self.is_whole = False
        self._chunks: Chunks | None = None
        self._needed = 0

    def add(self, data: bytes, at_ns: int, stamp_ns: int = 0) -> bool:
        """Add the bytes of one read; return whether the response is whole.

        Raises:
            NotHttp: the bytes are no HTTP response.
        """
        self.received += data
        self.ends.append(len(self.received))
        self.times.append(at_ns)
        if stamp_ns:
            self.stamps.append(stamp_ns)
        return self._check_end()

    def add_received(self, received: Received) -> bool:
        """Add the bytes of several reads; otherwise like `add`."""
        before = len(self.received)
        self.received += received.data
        self.ends.extend([before + end for end in received.ends])
        self.times.extend(received.times)
        self.stamps.extend(filter(None, received.stamps))
        return self._check_end()

    @property
    def ends_in_empty_line(self) -> bool:
        """Whether the response ends in an empty line."""
        return self._chunks is not None

    def _check_end(self) -> bool:
        received, head = self.received, self.head
        if head is None:
            head = self.head = read_head(received)
            if head is None:
                return False
            self._needed = head.body_start + head.content_length
            if head.framing == "chunked":
                self._chunks = Chunks(head.body_start)
        if self._chunks is not None:
            # Every chunked body ends in an empty line; parsing the chunks decides whether this line is its end.
            if received.endswith(b"\r\n\r\n"):
                self.is_whole = self._chunks.walk(received)
        elif head.framing == "length":
            self.is_whole = len(received) >= self._needed
        return self.is_whole

    def use_kernel_times(self, ended: Reading) -> None:
        """Replace this process's instants by the kernel's where those can be trusted; `ended`: clocks after the end."""
        if self.began is not None and len(self.stamps) == len(self.times):
            arrived = to_monotonic(self.stamps, self.times, self.began, ended)
            if arrived is not None:
                self.times, self.is_stamped = arrived, True
        self.stamps = []

    def end(self) -> bool:
        """Note that the connection has ended; return whether that makes the response whole."""
        self.is_whole = self.head is not None and self.head.framing == "close"
        return self.is_whole

    def read_body(self) -> Body:
        """Return the payload without its frames, as far as it was received.

        Raises:
            NotHttp: the frames are broken, or the head is not there yet.
        """
        if self.head is None:
            raise NotHttp("no head was received")
        return read_body(self.received, self.head, self._chunks)

    @property
    def leaves_connection_usable(self) -> bool:
        """Whether another request may follow on the same connection."""
        end = self._chunks.next_offset if self._chunks is not None else self._needed
        return self.is_whole and self.head is not None and self.head.keeps_alive and len(self.received) == end


class Connection:
    """A socket whose states are `closed → connecting → handshaking → open → closed`."""

    __slots__ = (
        "_address",
        "_is_broken",
        "_out",
        "_receive",
        "_target",
        "_tried",
        "fd",
        "requests",
        "sock",
        "stamp_ns",
        "state",
        "wants",
    )

    def __init__(self, target: Target) -> None:
        self._target = target
        self._out: list[memoryview] = []
        self._is_broken = False
        self._tried = 0
        self._address = 0
        self.sock: socket.socket
        """Set by `open`; after `close` it is closed, and its use raises OSError."""
        self.fd = -1
        self.stamp_ns = 0
        """The kernel's instant of the last read, on the wall clock; 0 without a stamp."""
        self._receive: Callable[[int, int], tuple[bytes, list[tuple[int, int, bytes]], int, object]] | None = None
        self.state: Literal["closed", "connecting", "handshaking", "open"] = "closed"
        self.wants = READ
        """What the event loop should wait for."""
        self.requests = 0
        """Number of requests that were sent on this connection."""

    @property
    def is_stamped(self) -> bool:
        """Whether the kernel stamps what the socket receives."""
        return self._receive is not None

    @property
    def is_plain(self) -> bool:
        """Whether the socket receives the response itself, not TLS records."""
        return self._target.tls is None

    @property
    def is_sending(self) -> bool:
        """Whether part of a request is not sent yet."""
        return bool(self._out)

    @property
    def is_usable(self) -> bool:
        """Whether the whole request was sent and the connection works."""
        return not self._out and not self._is_broken

    def open(self) -> None:
        """Begin to connect, first to the address that accepted the last connection.

        Raises:
            OSError: every address refuses at once.
        """
        self._tried = 0
        self._address = self._target.preferred
        self._connect()

    def _connect(self) -> None:
        while True:
            address = self._target.addresses[self._address]
            sock = socket.socket(address.family, socket.SOCK_STREAM)
            sock.setblocking(False)
            if address.family != socket.AF_UNIX:
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self._receive = sock.recvmsg if self._target.tls is None and ask_for_stamps(sock) else None
            self.sock, self.fd = sock, sock.fileno()
            self.state, self.wants, self.requests, self._is_broken = "connecting", WRITE, 0, False
            try:
                sock.connect(address.sockaddr)
            except BlockingIOError:
                return
            except OSError:
                self.close()
                if not self._has_another_address():
                    raise
            else:
                return

    def _has_another_address(self) -> bool:
        self._tried += 1
        self._address = (self._address + 1) % len(self._target.addresses)
        return self._tried < len(self._target.addresses)

    def go_on_opening(self) -> bool:
        """Take the next step once the socket is ready; return whether the connection is open.

        Where another address is tried, `fd` is another descriptor afterwards.

        Raises:
            OSError: no address accepts the connection, or TLS failed (`ssl.SSLError`).
        """
        sock = self.sock
        if not isinstance(sock, SSLSocket):
            failure = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            if failure:
                self.close()
                if self._has_another_address():
                    self._connect()
                    return False
                raise OSError(failure, os.strerror(failure))
            self._target.preferred = self._address
            if self._target.tls is None:
                self.state, self.wants = "open", READ
                return True
            self.sock = sock = self._target.tls.wrap_socket(
                sock, server_hostname=self._target.server_name, do_handshake_on_connect=False
            )
            self.state = "handshaking"
        try:
            sock.do_handshake()
        except SSLWantReadError:
            self.wants = READ
            return False
        except SSLWantWriteError:
            self.wants = WRITE
            return False
        self.state, self.wants = "open", READ
        return True

    def send(self, body: memoryview) -> None:
        """Begin to send a request.

        Raises:
            OSError: the connection is gone.
        """
        self.requests += 1
        if len(body) <= _JOINED_BYTES and self._target.tls is None:
            data = b"".join((self._head_of(body), body))
            try:
                sent = self.sock.send(data)
            except BlockingIOError:
                sent = 0
            if sent == len(data):
                self.wants = READ
            else:
                self._out, self.wants = [memoryview(data)[sent:]], READ | WRITE
            return
        self._out = [memoryview(self._head_of(body)), body]
        self.go_on_sending()

    def _head_of(self, body: memoryview) -> bytes:
        return b"%b%d\r\n\r\n" % (self._target.head, len(body))

    def go_on_sending(self) -> None:
        """Send as much as the socket takes.

        Raises:
            OSError: the connection is gone.
        """
        sock, out = self.sock, self._out
        try:
            while out:
                sent = sock.send(out[0]) if isinstance(sock, SSLSocket) else sock.sendmsg(out)
                while out and sent >= len(out[0]):
                    sent -= len(out.pop(0))
                if sent:
                    out[0] = out[0][sent:]
        except (BlockingIOError, SSLWantWriteError):
            self.wants = READ | WRITE
        except SSLWantReadError:
            self.wants = READ
        else:
            self.wants = READ

    def give_up_sending(self) -> None:
        """Send no more of the request, because the server has stopped reading."""
        self._out, self._is_broken, self.wants = [], True, READ

    def receive(self) -> bytes | None:
        """Read once: the bytes, `b""` at the end of input, None where there is nothing to read.

        Raises:
            OSError: the connection is gone.
        """
        try:
            if self._receive is not None:
                data, control, _, _ = self._receive(READ_BYTES, STAMP_SPACE)
                self.stamp_ns = stamp_of(control)
                return data
            return self.sock.recv(READ_BYTES)
        except (BlockingIOError, SSLWantReadError, SSLWantWriteError):
            return None

    @property
    def has_buffered(self) -> bool:
        """Whether TLS holds decrypted bytes, for which the socket will not become readable."""
        return isinstance(self.sock, SSLSocket) and self.sock.pending() > 0

    def close(self) -> None:
        """Close at once; closing twice is no error."""
        if self.fd != -1:
            self.sock.close()
        self.fd, self.state, self.wants = -1, "closed", READ
        self._receive, self.stamp_ns = None, 0
        self._out = []
