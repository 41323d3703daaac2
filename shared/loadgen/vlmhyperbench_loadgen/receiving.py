"""The compiled receiver: takes streamed answers in without waking Python for every read. `receiving.c` says how.

It is compiled when the package is built, where there is a C compiler; without it everything is read in Python, which
records the same and costs more.
"""

from __future__ import annotations

import ctypes
import os
from array import array
from functools import cache
from pathlib import Path
from typing import NamedTuple

LIBRARY = Path(__file__).with_name("libreceiving.so")
INTERPRETED = "VLMHYPERBENCH_INTERPRETED_RECEIVER"
"""Environment variable: where it is set, the compiled receiver is not used."""

_MOST_EVENTS = 256
"""`MOST_EVENTS` of `receiving.c`."""

_FOR_EVER_NS = -1


class Heard(NamedTuple):
    """What several reads brought."""

    data: bytes
    ends: list[int]
    """Length of `data` after each read."""
    times: list[int]
    """Instant of each read, in this process."""
    stamps: list[int]
    """The kernel's, on the wall clock; 0 where it said nothing."""


class _View(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("length", ctypes.c_uint64),
        ("readings", ctypes.c_void_p),
        ("count", ctypes.c_uint64),
    )


_FIELDS = 3
_READING_BYTES = 8 * _FIELDS


class Receiver:
    """Waits for descriptors, and hears those that it is told to listen to meanwhile."""

    def __init__(self, library: ctypes.CDLL, poll_fd: int) -> None:
        self._library = library
        self._poll_fd = poll_fd
        self._self = library.receiver_new()
        if not self._self:
            raise MemoryError
        self._out = (ctypes.c_uint64 * (_MOST_EVENTS + 1))()
        self._view = _View()

    def listen(self, fd: int, tail: bytes, limit: int) -> None:
        """Read `fd` from now on, until an empty line ends what came, or `limit` bytes are exceeded.

        Args:
            fd: A socket that does not block, watched for reading by the poll that is waited with.
            tail: The last bytes that came before, three at least.
            limit: So many more may come.
        """
        if self._library.receiver_listen(self._self, fd, int.from_bytes(tail[-4:], "big"), limit):
            raise MemoryError

    def take(self, fd: int) -> Heard:
        """End listening and return what was heard."""
        view = self._view
        self._library.receiver_take(self._self, fd, ctypes.byref(view))
        data = ctypes.string_at(view.data, view.length) if view.length else b""
        readings = array("q", ctypes.string_at(view.readings, _READING_BYTES * view.count) if view.count else b"")
        return Heard(data, *(readings[field::_FIELDS].tolist() for field in range(_FIELDS)))

    def forget(self, fd: int) -> None:
        """Listen no more; what was heard is lost."""
        self._library.receiver_forget(self._self, fd)

    def wait(self, timeout_s: float | None, *, gather_ns: int, due_ns: int) -> tuple[list[tuple[int, int]], int]:
        """Return descriptors with their events, and how often others were heard that nobody has to look at.

        Args:
            timeout_s: So long is waited for the first of them; None: until one comes.
            gather_ns: So much passes before each look, unless `due_ns` is near.
            due_ns: The next instant that must not be missed; 0: there is none.
        """
        out = self._out
        timeout_ns = _FOR_EVER_NS if timeout_s is None else round(timeout_s * 1e9)
        count = self._library.receiver_wait(self._self, self._poll_fd, timeout_ns, gather_ns, due_ns, out)
        if count < 0:
            raise OSError(-count, os.strerror(-count))
        return [(one & 0xFFFFFFFF, one >> 32) for one in out[1 : count + 1]], out[0]

    def close(self) -> None:
        """Free what was heard."""
        self._library.receiver_free(self._self)
        self._self = None


def make_receiver(poll_fd: int) -> Receiver | None:
    """Return a compiled receiver that waits with an epoll, where there is one for this machine."""
    library = None if os.environ.get(INTERPRETED) else _load()
    return Receiver(library, poll_fd) if library is not None else None


@cache
def _load() -> ctypes.CDLL | None:
    try:
        library = ctypes.CDLL(str(LIBRARY), use_errno=False)
    except OSError:
        # Not compiled, or for another kind of machine.
        return None
    handle, number, instant = ctypes.c_void_p, ctypes.c_int, ctypes.c_int64
    for name, result, arguments in (
        ("new", handle, ()),
        ("free", None, (handle,)),
        ("listen", number, (handle, number, ctypes.c_uint32, ctypes.c_uint64)),
        ("take", None, (handle, number, ctypes.POINTER(_View))),
        ("forget", None, (handle, number)),
        ("wait", number, (handle, number, instant, instant, instant, ctypes.POINTER(ctypes.c_uint64))),
    ):
        function = getattr(library, f"receiver_{name}")
        function.restype, function.argtypes = result, arguments
    return library
