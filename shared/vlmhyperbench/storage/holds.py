"""Hold local copies while they are read: the lock of a byte per copy, which the kernel frees when its process ends.

One file of a cache is locked by every process that uses it, each copy at the byte that its hash chooses. Two copies of
one byte only hold each other.
"""

from __future__ import annotations

import fcntl
import os
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from functools import cache
from pathlib import Path

_BYTE_DIGITS = 15
"""Hex digits of a hash that choose its byte: what fits a file's largest offset."""
_SCOPE: ContextVar[ExitStack | None] = ContextVar("holds", default=None)


@contextmanager
def holding() -> Iterator[None]:
    """Hold every copy that is opened in this block, by its threads and tasks too, until the block ends."""
    with ExitStack() as stack:
        token = _SCOPE.set(stack)
        try:
            yield
        finally:
            _SCOPE.reset(token)


class Holds:
    """What this process holds of one cache; the locks of a process are one, so there is one object per folder."""

    def __init__(self, path: Path) -> None:
        # The locks of a process end when it closes any descriptor of the file, so this is its only one.
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._counts: Counter[int] = Counter()
        self._lock = threading.Lock()

    @contextmanager
    def held(self, sha256: str) -> Iterator[None]:
        """Hold a copy during the block, and until the end of the `holding` block around it."""
        with self._one(sha256):
            scope = _SCOPE.get()
            if scope is not None:
                scope.enter_context(self._one(sha256))
            yield

    @contextmanager
    def unused(self, sha256: str) -> Iterator[bool]:
        """Yield whether no process holds a copy; then none can begin to until the block ends."""
        place = _place(sha256)
        with self._lock:
            is_free = not self._counts[place] and self._try_alone(place)
            try:
                yield is_free
            finally:
                if is_free:
                    fcntl.lockf(self._descriptor, fcntl.LOCK_UN, 1, place)

    @contextmanager
    def _one(self, sha256: str) -> Iterator[None]:
        place = _place(sha256)
        with self._lock:
            if not self._counts[place]:
                fcntl.lockf(self._descriptor, fcntl.LOCK_SH, 1, place)
            self._counts[place] += 1
        try:
            yield
        finally:
            with self._lock:
                self._counts[place] -= 1
                if not self._counts[place]:
                    del self._counts[place]
                    fcntl.lockf(self._descriptor, fcntl.LOCK_UN, 1, place)

    def _try_alone(self, place: int) -> bool:
        try:
            fcntl.lockf(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, place)
        except (BlockingIOError, PermissionError):
            return False
        return True


@cache
def holds_of(folder: Path) -> Holds:
    """Return the holds of this process in the cache of a folder."""
    locks = folder / "locks"
    locks.mkdir(mode=0o700, exist_ok=True)
    return Holds(locks / "held")


def _place(sha256: str) -> int:
    return int(sha256[:_BYTE_DIGITS], 16)


os.register_at_fork(after_in_child=holds_of.cache_clear)  # a child inherits no lock
