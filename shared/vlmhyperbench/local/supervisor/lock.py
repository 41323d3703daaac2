"""The supervisor's lock file, one per home: it holds the owner's pid; the kernel releases it when the owner ends."""

from __future__ import annotations

import fcntl
import os
import time
from pathlib import Path

_PATIENCE_S = 1.0
"""How long a starting supervisor retries: a process that only checks the lock holds it for an instant."""


class StackLock:
    """A lock file that the supervisor holds for its whole life."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._fd: int | None = None

    def acquire(self) -> bool:
        """Acquire the lock and write this process's pid into it; return whether it was free."""
        fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        deadline = time.monotonic() + _PATIENCE_S
        while not _try(fd, fcntl.LOCK_EX):
            if time.monotonic() > deadline:
                os.close(fd)
                return False
            time.sleep(0.02)
        os.ftruncate(fd, 0)
        os.pwrite(fd, str(os.getpid()).encode(), 0)
        self._fd = fd
        return True

    def release(self) -> None:
        """Release the lock."""
        if self._fd is not None:
            os.ftruncate(self._fd, 0)
            os.close(self._fd)
            self._fd = None


def holder(path: Path) -> int | None:
    """Return the pid of the supervisor that holds the lock, or None if it is free."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        if _try(fd, fcntl.LOCK_SH):
            return None
        text = os.pread(fd, 32, 0).decode("ascii", "replace").strip()
        return int(text) if text.isdigit() else None
    finally:
        os.close(fd)


def _try(fd: int, kind: int) -> bool:
    try:
        fcntl.flock(fd, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
