"""Say when a request reached this machine, not when the server came to read it: those of one instant are read in turn.

asyncio reads a connection by its socket's `recv`; the one here also keeps what the kernel says of the bytes.
"""

from __future__ import annotations

import socket
import time
from typing import Any

from vlmhyperbench_sdk.stamps import STAMP_SPACE, ask_for_stamps, read_clocks, stamp_of

_LONGEST_NS = 1_000_000_000
"""What lay longer than this was stamped before the wall clock was set."""


class StampedSocket(socket.socket):
    """A TCP socket that keeps when the bytes that it read last had arrived; what it accepts does the same."""

    arrived: dict[int, int]
    """Descriptor → instant on the monotonic clock, ns. Shared by a listening socket and what it accepts."""

    def accept(self) -> tuple[StampedSocket, Any]:
        plain, address = super().accept()
        accepted = StampedSocket(plain.family, plain.type, plain.proto, fileno=plain.detach())
        accepted.arrived = self.arrived
        return accepted, address

    def recv(self, bufsize: int, flags: int = 0, /) -> bytes:
        data, said, _, _ = self.recvmsg(bufsize, STAMP_SPACE, flags)
        stamp_ns = stamp_of(said)
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
    # What is accepted inherits both. asyncio would see to the first, had the socket been told its protocol by name.
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    ask_for_stamps(listening)
    return listening


def _to_monotonic(stamp_ns: int) -> int:
    now = read_clocks()
    lay_ns = now.monotonic_ns + now.offset_ns - stamp_ns
    return now.monotonic_ns - lay_ns if 0 <= lay_ns <= _LONGEST_NS else now.monotonic_ns
