"""The compiled receiver, `receiving.c`: it receives streamed answers without waking Python for every read.

It is compiled at the first start, if there is a C compiler. Without it everything is read in Python, which records the
same and takes more CPU time.
"""

from __future__ import annotations

import ctypes
import os
from array import array
from functools import cache
from typing import NamedTuple

from vlmhyperbench_loadgen.compiling import library as compiled_library

INTERPRETED = "VLMHYPERBENCH_INTERPRETED_RECEIVER"
"""Environment variable: if it is set, the compiled receiver is not used."""

MAX_EVENTS = 256
"""Maximum number of events of a wait; the same as `MAX_EVENTS` of `receiving.c`."""

_NO_TIMEOUT_NS = -1


class Received(NamedTuple):
    """The bytes and instants of several reads."""

    data: bytes
    ends: list[int]
    """Length of `data` after each read."""
    times: list[int]
    """Instant of each read, in this process."""
    stamps: list[int]
    """The kernel's instant of each read, on the wall clock; 0 without a stamp."""


class WaitResult(NamedTuple):
    """The result of a wait."""

    events: list[tuple[int, int]]
    """Descriptors and their epoll masks, for the caller to handle."""
    reads: int
    """Number of reads of started descriptors that the caller need not handle."""


class _View(ctypes.Structure):
    """`struct received` of `receiving.c`."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("length", ctypes.c_uint64),
        ("readings", ctypes.c_void_p),
        ("reading_count", ctypes.c_uint64),
    )


_FIELDS = 3
_READING_BYTES = 8 * _FIELDS
"""Number of fields of `struct reading`, and its size."""


class Receiver:
    """Waits for descriptors, and meanwhile reads those that are started into receive buffers."""

    def __init__(self, library: ctypes.CDLL, epoll_fd: int) -> None:
        self._library = library
        self._epoll_fd = epoll_fd
        self._handle = library.receiver_new()
        if not self._handle:
            raise MemoryError
        self._out = (ctypes.c_uint64 * (MAX_EVENTS + 1))()
        self._view = _View()

    def start(self, fd: int, tail: bytes, max_bytes: int) -> None:
        """Read `fd` from now on, until the received bytes end in an empty line or are more than `max_bytes`.

        Args:
            fd: A non-blocking socket, registered for reading with the epoll of this receiver.
            tail: The last bytes received before, at least three.
            max_bytes: Maximum number of bytes to receive.
        """
        if self._library.receiver_start(self._handle, fd, int.from_bytes(tail[-4:], "big"), max_bytes):
            raise MemoryError

    def stop(self, fd: int) -> Received:
        """Stop reading and return what was received."""
        view = self._view
        self._library.receiver_stop(self._handle, fd, ctypes.byref(view))
        data = ctypes.string_at(view.data, view.length) if view.length else b""
        readings = ctypes.string_at(view.readings, _READING_BYTES * view.reading_count) if view.reading_count else b""
        values = array("q", readings)
        return Received(data, *(values[field::_FIELDS].tolist() for field in range(_FIELDS)))

    def release(self, fd: int) -> None:
        """Stop reading a descriptor that is about to be closed; the received bytes are dropped."""
        self._library.receiver_release(self._handle, fd)

    def wait(self, timeout_s: float | None, *, coalesce_ns: int = 0, deadline_ns: int = 0) -> WaitResult:
        """Wait for events that the caller has to handle, reading started descriptors meanwhile.

        Args:
            timeout_s: How long to wait for an event or a read, None: without limit; every read restarts it.
            coalesce_ns: Sleep this long before each poll, so that several reads share one wake-up.
            deadline_ns: The next instant that must not be missed; 0: there is none.

        Raises:
            OSError: the wait failed.
        """
        out = self._out
        timeout_ns = _NO_TIMEOUT_NS if timeout_s is None else round(timeout_s * 1e9)
        count = self._library.receiver_wait(self._handle, self._epoll_fd, timeout_ns, coalesce_ns, deadline_ns, out)
        if count < 0:
            raise OSError(-count, os.strerror(-count))
        return WaitResult([(event & 0xFFFFFFFF, event >> 32) for event in out[1 : 1 + count]], out[0])

    def close(self) -> None:
        """Free the receive buffers."""
        self._library.receiver_free(self._handle)
        self._handle = None


def make_receiver(epoll_fd: int) -> Receiver | None:
    """Return a compiled receiver that waits with an epoll; None where `load_library` returns None."""
    library = load_library()
    return Receiver(library, epoll_fd) if library is not None else None


def load_library() -> ctypes.CDLL | None:
    """Load the compiled receiver; None where it cannot be compiled or loaded, or is turned off by `INTERPRETED`.

    The parent calls this before it forks measuring processes, so that the library is compiled and loaded once.
    """
    return None if os.environ.get(INTERPRETED) else _load()


@cache
def _load() -> ctypes.CDLL | None:
    file = compiled_library()
    try:
        library = ctypes.CDLL(str(file)) if file is not None else None
    except OSError:  # for instance a file system that is mounted without the right to execute
        return None
    if library is None:
        return None
    handle, number, size, instant = ctypes.c_void_p, ctypes.c_int, ctypes.c_uint64, ctypes.c_int64
    for name, result, arguments in (
        ("new", handle, ()),
        ("free", None, (handle,)),
        ("start", number, (handle, number, ctypes.c_uint32, size)),
        ("stop", None, (handle, number, ctypes.POINTER(_View))),
        ("release", None, (handle, number)),
        ("wait", number, (handle, number, *[instant] * 3, ctypes.POINTER(size))),
    ):
        function = getattr(library, f"receiver_{name}")
        function.restype, function.argtypes = result, arguments
    return library
