"""Bound the folders of what a dataset needed on this machine: images at URLs, and the content of archives.

The least recently used entries make way, as in the caches of models and of storage, but none that is in use.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import stat
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Final

IN_USE_S: Final = 600.0
"""An image that was used within this time is not evicted, even over the bound: it may be read again."""
MAKING: Final = ".making-"
"""Beginning of the name of a folder that is being filled or deleted."""
_STALE_S: Final = 24 * 3600.0
_LOCKS: Final = ".locks"


class ImageRoom:
    """The bound of the folder of images; a pass over the folder is due after a twentieth of the bound was written."""

    def __init__(self, folder: Path, max_bytes: int, *, in_use_s: float = IN_USE_S) -> None:
        """Hold the bound; the first image that is added asks for a pass."""
        self._folder, self._max_bytes, self._in_use_s = folder, max_bytes, in_use_s
        self._left_bytes = 0
        self._lock = threading.Lock()

    def add(self, size_bytes: int) -> None:
        """Count an image that was stored, and evict others if the folder may be too large."""
        with self._lock:
            self._left_bytes -= size_bytes
            if self._left_bytes < 0:
                slack = self._max_bytes // 20
                self._left_bytes = max(self._max_bytes - self._evict(self._max_bytes - slack), slack)

    def _evict(self, wanted_bytes: int) -> int:
        """Evict until this size is reached, and return what remains."""
        files = [(path, status) for path in self._folder.glob("??/*") if (status := _status(path)) is not None]
        total = sum(status.st_size for _, status in files)
        newest = time.time() - self._in_use_s
        for path, status in sorted(files, key=lambda file: file[1].st_mtime):
            if total <= wanted_bytes or status.st_mtime > newest:
                break
            path.unlink(missing_ok=True)
            total -= status.st_size
        return total


@cache
def image_room(folder: Path, max_bytes: int) -> ImageRoom:
    """Return the one bound of a folder in this process, whose threads share it."""
    return ImageRoom(folder, max_bytes)


@contextmanager
def in_use(folder: Path) -> Iterator[None]:
    """Keep the content of an archive from being evicted by any process; it counts as used now."""
    with _lock_of(folder).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_SH)
        os.utime(lock.name)
        yield


def make_room(home: Path, max_bytes: int, *, size_bytes: int = 0) -> None:
    """Evict the least recently used folders until these bytes fit, and what killed processes have left half made.

    What is in use stays, also above the bound.
    """
    folders = [path for path in home.iterdir() if path.is_dir() and path.name != _LOCKS]
    for path in [path for path in folders if path.name.startswith(MAKING)]:
        folders.remove(path)
        status = _status(path)
        if status is not None and status.st_mtime < time.time() - _STALE_S:
            shutil.rmtree(path, ignore_errors=True)
    sizes = {path: _size_of(path) for path in folders}
    total = sum(sizes.values())
    for path in sorted(folders, key=_used_at):
        if total + size_bytes <= max_bytes:
            return
        if _delete(path):
            total -= sizes[path]


def _delete(folder: Path) -> bool:
    """Delete a folder, unless a process uses it; it is renamed first, so that no half of it is ever taken for whole."""
    with _lock_of(folder).open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        away = Path(tempfile.mkdtemp(prefix=MAKING, dir=folder.parent))
        if folder.is_dir():
            folder.rename(away / folder.name)
    shutil.rmtree(away, ignore_errors=True)
    return True


def _lock_of(folder: Path) -> Path:
    """Return the lock of a folder; the empty files stay, because others may hold them."""
    locks = folder.parent / _LOCKS
    folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    locks.mkdir(mode=0o700, exist_ok=True)
    return locks / folder.name


def _used_at(folder: Path) -> float:
    status = _status(_lock_of(folder))
    return status.st_mtime if status is not None else 0.0


def _size_of(folder: Path) -> int:
    statuses = (status for path in folder.rglob("*") if (status := _status(path)) is not None)
    return sum(status.st_size for status in statuses if stat.S_ISREG(status.st_mode))


def _status(path: Path) -> os.stat_result | None:
    try:
        return path.lstat()
    except FileNotFoundError:  # another process has just evicted it
        return None
