"""The presence lock of a worker: a locked file, by which its successor on the same machine detects that it has died.

The kernel releases the lock when the process ends, in whatever way, and never before: a worker that is stopped or
swapped out holds it. Only the worker creates its file, so a missing file proves nothing: the worker may run on another
machine, or with another home.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import UUID


@contextmanager
def hold_presence(home: Path, worker_id: UUID) -> Iterator[None]:
    """Hold the presence lock of a worker during the block, then remove its file."""
    path = _path(home, worker_id)
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        path.unlink(missing_ok=True)
        os.close(descriptor)


def has_died(home: Path, worker_id: UUID) -> bool:
    """Return whether a worker of this home has died for certain."""
    try:
        descriptor = os.open(_path(home, worker_id), os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)  # a shared lock, so that two observers do not interfere
    except BlockingIOError:
        return False
    finally:
        os.close(descriptor)
    return True


def remove_presence(home: Path, worker_id: UUID) -> None:
    """Remove the file of a dead worker."""
    _path(home, worker_id).unlink(missing_ok=True)


def _path(home: Path, worker_id: UUID) -> Path:
    return home / "locks" / "workers" / f"{worker_id}.lock"
