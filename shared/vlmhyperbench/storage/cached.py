"""A store on another machine behind a bounded folder of local copies, which all processes of this host share.

This makes a `Store` of an object store such as S3; a folder needs no copies, because its files are read in place.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from vlmhyperbench.files import replace, temporary_sibling
from vlmhyperbench.storage.hashing import content_hash
from vlmhyperbench.storage.holds import holds_of
from vlmhyperbench.storage.stores import Listed, Stored

DEFAULT_MAX_BYTES: Final = 20 * 1024**3
IN_USE_S: Final = 600.0
"""A copy used within this time is not evicted, even over the limit: who holds none may be about to open its path."""
_COUNT_S: Final = 60.0
"""Age at which a count of the copies is out of date: other processes add to the folder, too."""
_COUNT_SHARE: Final = 16
"""A process counts again, too, once it has added this fraction of the limit itself."""
_DOWNLOADS: Final = 2
"""Downloads of a file until its content counts as damaged: it may have been damaged on its way."""


class RemoteStore(Protocol):
    """Bytes under keys on another machine. Calls block."""

    def put(self, key: str, data: bytes | Path, media_type: str, /) -> Stored:
        """As `Store.put`."""
        ...

    def download(self, key: str, target: Path, /) -> bool:
        """Write the stored content to a new file; return False if there is none.

        Raises:
            Unavailable: the store does not answer.
            OSError: the file cannot be written.
        """
        ...

    def exists(self, key: str, /) -> bool:
        """As `Store.exists`."""
        ...

    def delete(self, key: str, /) -> None:
        """As `Store.delete`."""
        ...

    def listed(self, prefix: str, /) -> Iterator[Listed]:
        """As `Store.listed`."""
        ...

    def check(self) -> None:
        """As `Store.check`."""
        ...


@dataclass(frozen=True, slots=True)
class _Copy:
    path: Path
    size_bytes: int
    used_at: float


class CachedStore:
    """Local copies, named by the hash of their content. A copy appears only once it is complete; one process evicts."""

    def __init__(
        self, remote: RemoteStore, folder: Path, *, max_bytes: int = DEFAULT_MAX_BYTES, in_use_s: float = IN_USE_S
    ) -> None:
        self._remote = remote
        self._folder = folder
        self._max_bytes = max_bytes
        self._in_use_s = in_use_s
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._holds = holds_of(folder.resolve())
        self._size_bytes = self._added_bytes = 0
        self._count()

    def put(self, key: str, data: bytes | Path, media_type: str, /) -> Stored:
        return self._remote.put(key, data, media_type)

    def exists(self, key: str, /) -> bool:
        return self._remote.exists(key)

    def delete(self, key: str, /) -> None:
        """Delete the stored file; its local copy is evicted when nobody has used it for long."""
        self._remote.delete(key)

    def listed(self, prefix: str, /) -> Iterator[Listed]:
        return self._remote.listed(prefix)

    def check(self) -> None:
        self._remote.check()

    def local(self, key: str, sha256: str, /) -> Path | None:
        with self._holds.held(sha256):
            return self._local(key, sha256)

    def _local(self, key: str, sha256: str) -> Path | None:
        path = self._folder / sha256[:2] / sha256
        if not _has_content(path, sha256) and not self._copied(key, path, sha256):
            return None
        # The access time records the last use of a copy; the modification time stays that of its content.
        os.utime(path, ns=(time.time_ns(), path.stat().st_mtime_ns))
        return path

    def _copied(self, key: str, path: Path, sha256: str) -> bool:
        """Download to `path`, replacing a damaged copy; return False if nothing is stored.

        Only one process of this machine downloads a file; the others wait, and then find its copy.
        """
        path.parent.mkdir(mode=0o700, exist_ok=True)
        temporary = temporary_sibling(path)
        with _locked(self._folder / "locks" / sha256[:2]):
            if _has_content(path, sha256):
                return True
            try:
                for _ in range(_DOWNLOADS):
                    if not self._remote.download(key, temporary):
                        return False
                    if _has_content(temporary, sha256):
                        break
                size_bytes = temporary.stat().st_size
                self._make_room(size_bytes)
                replace(temporary, path)
                self._size_bytes += size_bytes
                self._added_bytes += size_bytes
            finally:
                temporary.unlink(missing_ok=True)
        return True

    def _make_room(self, size_bytes: int) -> None:
        """Evict the least recently used copies until this many bytes fit, but none that a process reads or may read."""
        if self._added_bytes > self._max_bytes / _COUNT_SHARE or time.monotonic() - self._counted_s > _COUNT_S:
            self._count()
        if self._size_bytes + size_bytes <= self._max_bytes:
            return
        with _locked(self._folder / "lock"):
            copies = sorted(self._copies(), key=lambda copy: copy.used_at)
            total = sum(copy.size_bytes for copy in copies)
            newest = time.time() - self._in_use_s
            for copy in copies:
                if total + size_bytes <= self._max_bytes or copy.used_at > newest:
                    break
                with self._holds.unused(copy.path.name) as is_unused:
                    if is_unused:
                        copy.path.unlink(missing_ok=True)
                        total -= copy.size_bytes
            self._size_bytes = total

    def _count(self) -> None:
        self._size_bytes, self._added_bytes = sum(copy.size_bytes for copy in self._copies()), 0
        self._counted_s = time.monotonic()

    def _copies(self) -> Iterator[_Copy]:
        for path in self._folder.glob("??/[!.]*"):
            try:
                status = path.stat()
            except FileNotFoundError:  # another process has just evicted it
                continue
            yield _Copy(path, status.st_size, status.st_atime)


def _has_content(path: Path, sha256: str) -> bool:
    try:
        return content_hash(path) == sha256
    except FileNotFoundError:
        return False


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    path.parent.mkdir(mode=0o700, exist_ok=True)
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
