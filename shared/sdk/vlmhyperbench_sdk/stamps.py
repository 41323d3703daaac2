"""Kernel receive timestamps: the wall-clock time at which bytes arrived, independent of when they are read."""

from __future__ import annotations

import socket
import struct
import sys
import time
from typing import NamedTuple

_SO_TIMESTAMPNS = 35
"""Linux constant that Python's `socket` does not define."""

_TIMESPEC = struct.Struct("@ll")
STAMP_SPACE = socket.CMSG_SPACE(_TIMESPEC.size) if hasattr(socket, "CMSG_SPACE") else 0
"""Size of the ancillary buffer of `recvmsg` for one timestamp."""

_READINGS = 5
_GOOD_READING_NS = 2_000


class Reading(NamedTuple):
    """Monotonic and wall clock at one instant."""

    monotonic_ns: int
    offset_ns: int
    """Wall clock minus monotonic clock."""


def read_clocks() -> Reading:
    """Read both clocks up to five times, until a reading took less than 2 µs; return the shortest reading."""
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


def stamp_of(ancillary: list[tuple[int, int, bytes]]) -> int:
    """Return the timestamp (wall clock, ns) in the ancillary data of `recvmsg`; 0 without one."""
    if not ancillary:
        return 0
    seconds, nanoseconds = _TIMESPEC.unpack(ancillary[0][2])
    stamped_ns: int = seconds * 1_000_000_000 + nanoseconds
    return stamped_ns


def ask_for_stamps(sock: socket.socket) -> bool:
    """Enable receive timestamps on a TCP socket; return whether the kernel supports them."""
    if sys.platform != "linux":
        return False
    try:
        sock.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
    except OSError:
        return False
    return True
