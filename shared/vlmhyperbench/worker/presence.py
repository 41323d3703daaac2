"""A worker's sign of life: a locked file of its own, which its successor on the same machine finds free once it died.

The kernel frees the lock with the process, however it ends, and never before: a worker that is stopped, swapped out or
asleep keeps it. Nobody but its worker ever makes the file, so one that is missing says nothing: the worker may live on
another machine, or under another home.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import UUID


@contextmanager
def present(home: Path, worker_id: UUID) -> Iterator[None]:
    """Hold the lock of a worker; its file goes with it."""
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
    """Whether a worker of this home is known to be dead."""
    try:
        descriptor = os.open(_path(home, worker_id), os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)  # two that look do not mistake each other for it
    except BlockingIOError:
        return False
    finally:
        os.close(descriptor)
    return True


def forget(home: Path, worker_id: UUID) -> None:
    """Remove what a dead worker left."""
    _path(home, worker_id).unlink(missing_ok=True)


def _path(home: Path, worker_id: UUID) -> Path:
    return home / "locks" / "workers" / f"{worker_id}.lock"
