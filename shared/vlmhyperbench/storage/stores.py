"""What stands behind the door: bytes under keys, on this machine or elsewhere."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from vlmhyperbench.errors import InvalidInput

_SEGMENT = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,199}")
_MAX_KEY_LENGTH = 900


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """A file that is whole and durable."""

    key: str
    sha256: str
    size_bytes: int


class Store(Protocol):
    """Bytes under keys, which the door has checked. Calls block, and nothing that is read here is verified."""

    def put(self, key: str, data: bytes | Path, media_type: str, /) -> Stored:
        """Store bytes, or a file's content, whole or not at all; storing the same content again changes nothing.

        Raises:
            Conflict: the key has other content.
            Unavailable: the file cannot be written; code `storage_full` where there is no space.
        """
        ...

    def local(self, key: str, sha256: str, /) -> Path | None:
        """Return a file on this machine with what is stored, or None where there is nothing.

        Args:
            key: where it is stored.
            sha256: the content that is expected; a cache names its copies by it.

        Raises:
            Unavailable: the store does not answer.
            OSError: the file cannot be read, or the copy cannot be written.
        """
        ...

    def exists(self, key: str, /) -> bool:
        """Say whether there is something under the key.

        Raises:
            Unavailable: the store does not answer.
        """
        ...


def check_key(key: str) -> None:
    """See that a key is slugs joined by `/`, so that it can be a path and leaves no folder.

    Raises:
        InvalidInput: it is none.
    """
    if len(key) > _MAX_KEY_LENGTH or not all(_SEGMENT.fullmatch(segment) for segment in key.split("/")):
        raise InvalidInput(f"{key[:200]!r} is no storage key.", cure="Use slugs joined by '/'.")
