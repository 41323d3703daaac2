"""The interface of stores: bytes under keys, on this machine or on another."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from vlmhyperbench.errors import InvalidInput

_SEGMENT = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,199}")
_MAX_KEY_LENGTH = 900


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """A file that is completely and durably stored."""

    key: str
    sha256: str
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """A stored file as a listing shows it."""

    key: str
    size_bytes: int
    modified_s: float
    """When it was stored, in seconds since the epoch by the store's clock."""


class Store(Protocol):
    """Bytes under valid keys. Calls block, and the content that is read is not verified."""

    def put(self, key: str, data: bytes | Path, media_type: str, /) -> Stored:
        """Store bytes or a file's content atomically; storing the same content again changes nothing.

        Raises:
            Conflict: the key has other content.
            Unavailable: the file cannot be written; code `storage_full` where there is no space.
        """
        ...

    def local(self, key: str, sha256: str, /) -> Path | None:
        """Return a local file with the stored content, or None if nothing is stored.

        Args:
            key: The key.
            sha256: Hash of the expected content, by which a cache names its copies.

        Raises:
            Unavailable: the store does not answer.
            OSError: the file cannot be read, or the copy cannot be written.
        """
        ...

    def exists(self, key: str, /) -> bool:
        """Return whether anything is stored under the key.

        Raises:
            Unavailable: the store does not answer.
        """
        ...

    def delete(self, key: str, /) -> None:
        """Delete what is stored under the key, if anything is.

        Raises:
            Unavailable: the store does not answer, or refuses.
        """
        ...

    def listed(self, prefix: str, /) -> Iterator[Listed]:
        """Yield what is stored under keys that begin with the prefix, which is empty or ends with `/`.

        Raises:
            Unavailable: the store does not answer.
        """
        ...

    def check(self) -> None:
        """Check that files can be written and read.

        Raises:
            InvalidInput: there is no such store.
            Denied: this machine may not use it.
            Unavailable: it does not answer.
        """
        ...


def check_key(key: str) -> None:
    """Check that a key consists of slugs joined by `/`, so that it is a valid path that stays inside its folder.

    Raises:
        InvalidInput: the key is malformed.
    """
    if len(key) > _MAX_KEY_LENGTH or not all(_SEGMENT.fullmatch(segment) for segment in key.split("/")):
        raise InvalidInput(f"{key[:200]!r} is no storage key.", cure="Use slugs joined by '/'.")
