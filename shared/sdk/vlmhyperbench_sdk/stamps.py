"""Kernel receive stamps: when bytes reached this machine, on the wall clock, whatever their reader was doing then."""

from __future__ import annotations

import socket
import struct
import sys
import time
from typing import NamedTuple

_SO_TIMESTAMPNS = 35
"""Linux; Python has no name for it."""

_TIMESPEC = struct.Struct("@ll")
STAMP_SPACE = socket.CMSG_SPACE(_TIMESPEC.size) if hasattr(socket, "CMSG_SPACE") else 0
"""Room for one stamp beside the bytes that `recvmsg` reads."""

_READINGS = 5
_GOOD_READING_NS = 2_000


class Reading(NamedTuple):
    """Both clocks at one instant."""

    monotonic_ns: int
    offset_ns: int
    """Wall minus monotonic."""


def read_clocks() -> Reading:
    """Read both clocks; where a reading was interrupted, the best of a few counts."""
    best_ns, best = 1 << 62, Reading(0, 0)
    for _ in range(_READINGS):
        before_ns = time.monotonic_ns()
        wall_ns = time.time_ns()
        took_ns = time.monotonic_ns() - before_ns
        if took_ns < best_ns:
            middle_ns = before_ns + took_ns // 2
            best_ns, best = took_ns, Reading(middle_ns, wall_ns - middle_ns)
        if took_ns < _GOOD_READING_NS:
            break
    return best


def stamp_of(said: list[tuple[int, int, bytes]]) -> int:
    """Return the wall clock's ns in what `recvmsg` got beside its bytes; 0 where there is no stamp."""
    if not said:
        return 0
    seconds, nanoseconds = _TIMESPEC.unpack(said[0][2])
    stamped_ns: int = seconds * 1_000_000_000 + nanoseconds
    return stamped_ns


def ask_for_stamps(sock: socket.socket) -> bool:
    """Ask the kernel to stamp what a TCP socket receives; say whether it will."""
    if sys.platform != "linux":
        return False
    try:
        sock.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
    except OSError:
        return False
    return True
