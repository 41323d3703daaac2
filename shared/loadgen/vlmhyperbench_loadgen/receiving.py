"""The compiled receiver: takes streamed answers in without waking Python for every read. `receiving.c` says how.

It is compiled at the first start, where there is a C compiler; without it everything is read in Python, which records
the same and costs more.
"""

from __future__ import annotations

import ctypes
import os
from array import array
from functools import cache
from typing import NamedTuple

from vlmhyperbench_loadgen.compiling import library as compiled_library

INTERPRETED = "VLMHYPERBENCH_INTERPRETED_RECEIVER"
"""Environment variable: where it is set, the compiled receiver is not used."""

MOST_EVENTS = 256
"""Of one look; `MOST_EVENTS` of `receiving.h`."""

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


class Waited(NamedTuple):
    """What came of a wait."""

    ready: list[tuple[int, int]]
    """Descriptors and their events."""
    heard: int
    """How often others were heard that nobody has to look at."""
    relayed: int = 0
    """Answers that have ended; where requests were left, the next one followed."""


class _View(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("length", ctypes.c_uint64),
        ("readings", ctypes.c_void_p),
        ("count", ctypes.c_uint64),
    )


_FIELDS = 3
READING_BYTES = 8 * _FIELDS
_COUNTS = 2
"""Numbers that `receiver_wait` gives before the events."""


class Receiver:
    """Waits for descriptors, and hears those that it is told to listen to meanwhile."""

    def __init__(self, library: ctypes.CDLL, poll_fd: int) -> None:
        self.library = library
        self._poll_fd = poll_fd
        self.handle = library.receiver_new()
        if not self.handle:
            raise MemoryError
        self._out = (ctypes.c_uint64 * (MOST_EVENTS + _COUNTS))()
        self._view = _View()

    def listen(self, fd: int, tail: bytes, limit: int) -> None:
        """Read `fd` from now on, until an empty line ends what came, or `limit` bytes are exceeded.

        Args:
            fd: A socket that does not block, watched for reading by the poll that is waited with.
            tail: The last bytes that came before, three at least.
            limit: So many more may come.
        """
        if self.library.receiver_listen(self.handle, fd, int.from_bytes(tail[-4:], "big"), limit):
            raise MemoryError

    def take(self, fd: int) -> Heard:
        """End listening and return what was heard."""
        view = self._view
        self.library.receiver_take(self.handle, fd, ctypes.byref(view))
        data = ctypes.string_at(view.data, view.length) if view.length else b""
        return to_heard(data, ctypes.string_at(view.readings, READING_BYTES * view.count) if view.count else b"")

    def forget(self, fd: int) -> None:
        """Listen no more; what was heard is lost."""
        self.library.receiver_forget(self.handle, fd)

    def wait(self, timeout_s: float | None, *, gather_ns: int = 0, due_ns: int = 0) -> Waited:
        """Wait for what somebody has to look at, hearing and relaying meanwhile.

        Args:
            timeout_s: So long is waited while nothing comes, None: for ever; what is heard begins it anew.
            gather_ns: So much passes before each look, unless `due_ns` is near.
            due_ns: The next instant that must not be missed; 0: there is none.

        Raises:
            OSError: the poll cannot be waited for.
        """
        out = self._out
        timeout_ns = _FOR_EVER_NS if timeout_s is None else round(timeout_s * 1e9)
        count = self.library.receiver_wait(self.handle, self._poll_fd, timeout_ns, gather_ns, due_ns, out)
        if count < 0:
            raise OSError(-count, os.strerror(-count))
        return Waited([(one & 0xFFFFFFFF, one >> 32) for one in out[_COUNTS : _COUNTS + count]], *out[:_COUNTS])

    def close(self) -> None:
        """Free what was heard."""
        self.library.receiver_free(self.handle)
        self.handle = None


def to_heard(data: bytes, readings: bytes) -> Heard:
    """Lay out what C keeps as one `struct reading` after the other."""
    values = array("q", readings)
    return Heard(data, *(values[field::_FIELDS].tolist() for field in range(_FIELDS)))


def make_receiver(poll_fd: int) -> Receiver | None:
    """Return a compiled receiver that waits with an epoll, where there is one for this machine."""
    library = load_library()
    return Receiver(library, poll_fd) if library is not None else None


def load_library() -> ctypes.CDLL | None:
    """Load the compiled receiver, once; None where it cannot be had or is not wanted.

    Call it before measuring processes are forked: it may have to be compiled, and they share it.
    """
    return None if os.environ.get(INTERPRETED) else _load()


@cache
def _load() -> ctypes.CDLL | None:
    file = compiled_library()
    try:
        library = ctypes.CDLL(str(file)) if file is not None else None
    except OSError:  # for instance on a file system that runs nothing
        return None
    if library is None:
        return None
    handle, number, instant, text = ctypes.c_void_p, ctypes.c_int, ctypes.c_int64, ctypes.c_char_p
    numbers, size = ctypes.c_void_p, ctypes.c_uint64
    for name, result, arguments in (
        ("new", handle, ()),
        ("free", None, (handle,)),
        ("listen", number, (handle, number, ctypes.c_uint32, ctypes.c_uint64)),
        ("take", None, (handle, number, ctypes.POINTER(_View))),
        ("forget", None, (handle, number)),
        ("wait", number, (handle, number, *[instant] * 3, ctypes.POINTER(size))),
        ("begin_relaying", number, (handle, text, text, size, numbers, numbers, size)),
        ("end_relaying", None, (handle,)),
        ("take_next", instant, (handle,)),
        ("drain", instant, (handle,)),
        ("set_answer_head", number, (handle, text, size)),
        ("add_likeness", number, (handle, text, size, numbers, size)),
        ("relay", number, (handle, number, size, instant, numbers)),
        ("state", instant, (handle, number, numbers)),
        ("log", handle, (handle, number, ctypes.POINTER(size))),
    ):
        function = getattr(library, f"receiver_{name}")
        function.restype, function.argtypes = result, arguments
    return library
