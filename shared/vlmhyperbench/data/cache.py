"""A host's cache of images: fetched from storage once, verified by hash, bounded, shared by all workers of the host."""

from __future__ import annotations

import fcntl
import hashlib
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from vlmhyperbench.data.images import image_key
from vlmhyperbench.errors import Conflict
from vlmhyperbench.files import write_whole

DEFAULT_MAX_BYTES: Final = 20 * 1024**3
IN_USE_S: Final = 6 * 3600.0
"""What was used so recently is not evicted, even over the bound: a worker may still hold its path."""


class Source(Protocol):
    """The part of storage that the cache needs."""

    def get(self, key: str) -> bytes: ...


@dataclass(frozen=True, slots=True)
class _Entry:
    path: Path
    size_bytes: int
    used_at: float


class DatasetCache:
    """Files named by the hash of their content. Safe for many processes: files appear whole, eviction is locked."""

    def __init__(self, root: Path, *, max_bytes: int = DEFAULT_MAX_BYTES, in_use_s: float = IN_USE_S) -> None:
        self._root = root
        self._max_bytes = max_bytes
        self._in_use_s = in_use_s
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._size_bytes = sum(entry.size_bytes for entry in self._entries())

    def fetch(self, storage: Source, sha256: str) -> Path:
        """Return the path of an image's bytes, whose hash has just been checked.

        Raises:
            NotFound: storage does not have it.
            Conflict: storage holds other bytes under this name.
            InvalidInput: something lies in its place that is no file.
            OSError: the cache cannot be written.
        """
        path = self._root / sha256[:2] / sha256
        if _hash_of(path) != sha256:
            data = storage.get(image_key(sha256))
            if hashlib.sha256(data).hexdigest() != sha256:
                raise Conflict(
                    f"Storage holds other bytes under {image_key(sha256)}.",
                    cure="Run `index` anew: submit the run again.",
                    code="wrong_hash",
                )
            self._make_room(len(data))
            path.parent.mkdir(mode=0o700, exist_ok=True)
            write_whole(path, data, mode=0o600)
            self._size_bytes += len(data)
        os.utime(path)
        return path

    def _make_room(self, size_bytes: int) -> None:
        """Remove what was used least recently, and not lately, until so many bytes fit."""
        if self._size_bytes + size_bytes <= self._max_bytes:
            return
        with self._locked():
            entries = sorted(self._entries(), key=lambda entry: entry.used_at)
            total = sum(entry.size_bytes for entry in entries)
            newest = time.time() - self._in_use_s
            for entry in entries:
                if total + size_bytes <= self._max_bytes or entry.used_at > newest:
                    break
                entry.path.unlink(missing_ok=True)
                total -= entry.size_bytes
            self._size_bytes = total

    @contextmanager
    def _locked(self) -> Iterator[None]:
        with (self._root / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def _entries(self) -> Iterator[_Entry]:
        for path in self._root.glob("??/*"):
            try:
                status = path.stat()
            except FileNotFoundError:  # another process has just evicted it
                continue
            yield _Entry(path, status.st_size, status.st_mtime)


def _hash_of(path: Path) -> str | None:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except FileNotFoundError:
        return None
