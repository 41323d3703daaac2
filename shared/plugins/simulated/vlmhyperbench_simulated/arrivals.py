"""Sockets that record when a request reached this machine; asyncio reads it later, after other requests.

asyncio reads a connection by the `recv` of its socket. Here `recv` also records the kernel's receive timestamp.
"""

from __future__ import annotations

import socket
import time
from typing import Any

from vlmhyperbench_sdk.stamps import STAMP_SPACE, ask_for_stamps, read_clocks, stamp_of

_MAX_AGE_NS = 1_000_000_000
"""A stamp that seems older than this was made before the wall clock was set."""


class StampedSocket(socket.socket):
    """A TCP socket that records when the bytes of its last read arrived, as do the sockets that it accepts."""

    arrived: dict[int, int]
    """Descriptor → instant on the monotonic clock, ns. Shared by a listening socket and the sockets that it accepts."""

    def accept(self) -> tuple[StampedSocket, Any]:
        plain, address = super().accept()
        accepted = StampedSocket(plain.family, plain.type, plain.proto, fileno=plain.detach())
        accepted.arrived = self.arrived
        return accepted, address

    def recv(self, bufsize: int, flags: int = 0, /) -> bytes:
        data, control, _, _ = self.recvmsg(bufsize, STAMP_SPACE, flags)
        stamp_ns = stamp_of(control)
        self.arrived[self.fileno()] = _to_monotonic(stamp_ns) if stamp_ns else time.monotonic_ns()
        return data


def listen(host: str, port: int) -> StampedSocket:
    """Bind a listening socket, to a port of the system's choice where it is 0.

    Raises:
        OSError: the port is in use.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    plain = socket.create_server((host, port), family=family)
    listening = StampedSocket(plain.family, plain.type, plain.proto, fileno=plain.detach())
    listening.arrived = {}
    # Accepted sockets inherit both options. asyncio sets TCP_NODELAY only on sockets whose protocol number is given.
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    ask_for_stamps(listening)
    return listening


def _to_monotonic(stamp_ns: int) -> int:
    now = read_clocks()
    age_ns = now.monotonic_ns + now.offset_ns - stamp_ns
    return now.monotonic_ns - age_ns if 0 <= age_ns <= _MAX_AGE_NS else now.monotonic_ns
