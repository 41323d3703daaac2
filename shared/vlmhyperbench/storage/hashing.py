"""The hash of a file's content, cached while the file is unchanged, so that large files are not read each time."""

from __future__ import annotations

import time
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from vlmhyperbench.folders import file_sha256

MAX_CACHED = 65_536
_SETTLED_NS = 100_000_000
"""Two changes within one tick of the file system's clock give the same time, so a younger file is always read."""


class _Version(NamedTuple):
    """The state of a file when it was hashed; a replaced or changed file differs in one of these values."""

    path: Path
    device: int
    inode: int
    size_bytes: int
    mtime_ns: int
    ctime_ns: int
    """Unlike the modification time, it cannot be set to an earlier time."""


def content_hash(path: Path) -> str:
    """Return the SHA-256 of a file's content.

    Raises:
        OSError: the file is missing or cannot be read.
    """
    status = path.stat()
    version = _Version(path, status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
    is_settled = time.time_ns() - max(status.st_mtime_ns, status.st_ctime_ns) > _SETTLED_NS
    return _cached(version) if is_settled else _read(version)


def _read(version: _Version) -> str:
    return file_sha256(version.path)


_cached = lru_cache(maxsize=MAX_CACHED)(_read)
