"""Kernel receive stamps: when bytes reached this machine, on the wall clock, whatever their reader was doing then."""

from __future__ import annotations

import socket
import struct
import sys

_SO_TIMESTAMPNS = 35
"""Linux; Python has no name for it."""

TIMESPEC = struct.Struct("@ll")
"""A stamp's seconds and nanoseconds."""

STAMP_SPACE = socket.CMSG_SPACE(TIMESPEC.size) if hasattr(socket, "CMSG_SPACE") else 0
"""Room for one stamp beside the bytes that `recvmsg` reads."""


def ask_for_stamps(sock: socket.socket) -> bool:
    """Ask the kernel to stamp what a TCP socket receives; say whether it will."""
    if sys.platform != "linux":
        return False
    try:
        sock.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
    except OSError:
        return False
    return True
