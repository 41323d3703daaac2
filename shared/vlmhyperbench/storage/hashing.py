"""The hash of a file's content, remembered while the file stays as it is: a large one is not read each time."""

from __future__ import annotations

import hashlib
import time
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

MAX_REMEMBERED = 65_536
_SETTLED_NS = 100_000_000
"""A file that changes twice within one tick of the file system's clock keeps its time: one so young is read again."""


class _Version(NamedTuple):
    """A file as it was when it was hashed. Another file in its place, or another content, differs in one of these."""

    path: Path
    device: int
    inode: int
    size_bytes: int
    mtime_ns: int
    ctime_ns: int
    """Cannot be set back, as a copy that keeps times sets back the modification."""


def content_hash(path: Path) -> str:
    """Return the SHA-256 of a file's content.

    Raises:
        OSError: the file is not there or cannot be read.
    """
    status = path.stat()
    version = _Version(path, status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
    is_settled = time.time_ns() - max(status.st_mtime_ns, status.st_ctime_ns) > _SETTLED_NS
    return _remembered(version) if is_settled else _read(version)


def _read(version: _Version) -> str:
    with version.path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


_remembered = lru_cache(maxsize=MAX_REMEMBERED)(_read)
