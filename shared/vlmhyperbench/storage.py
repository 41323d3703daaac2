"""Where files live that are larger than a row: written once under a key, never overwritten with other content."""

from __future__ import annotations

import errno
import hashlib
import os
import re
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, NoReturn, Protocol
from urllib.parse import unquote, urlsplit

from vlmhyperbench.errors import Conflict, InvalidInput, NotFound, Unavailable

STORAGE_SCHEME = "storage:"
"""How a path begins that names a key of the storage instead of a file."""

_SEGMENT = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,199}")
_KEY_LENGTH = 900
_BLOCK_BYTES = 1024 * 1024
_FORGOTTEN_S = 24 * 3600
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """A file that is whole and durable."""

    key: str
    sha256: str
    size_bytes: int


class Storage(Protocol):
    """Files under keys: slugs joined by `/`. Calls block; from asyncio use `asyncio.to_thread`."""

    def put(self, key: str, data: bytes | Path, *, media_type: str = "application/octet-stream") -> Stored:
        """Store bytes, or a file's content, whole or not at all; storing the same content again changes nothing.

        Raises:
            InvalidInput: the key is malformed.
            Conflict: the key has other content.
            Unavailable: the file cannot be written; code `storage_full` where there is no space.
        """
        ...

    def get(self, key: str) -> bytes:
        """Return the content.

        Raises:
            NotFound: there is nothing under the key.
            Unavailable: it cannot be read.
        """
        ...

    def path(self, key: str) -> Path:
        """Return a local file with the content, which the caller only reads.

        Raises:
            NotFound: there is nothing under the key.
        """
        ...

    def exists(self, key: str) -> bool:
        """Say whether there is something under the key."""
        ...

    def delete(self, key: str) -> None:
        """Remove what is under the key; nothing there is no error."""
        ...


def open_storage(url: str) -> Storage:
    """Open the storage that a URL names: a folder, as a path or a `file://` URL.

    Raises:
        InvalidInput: another kind of URL, or a relative path.
        Unavailable: the folder cannot be made.
    """
    parts = urlsplit(url)
    if parts.scheme not in {"", "file"} or parts.netloc not in {"", "localhost"}:
        raise InvalidInput(f"Storage cannot be at {url!r}.", cure="Give the path of a folder, or a file:// URL.")
    root = Path(unquote(parts.path) if parts.scheme else url)
    if not root.is_absolute():
        raise InvalidInput(f"The storage folder {url!r} is relative.", cure="Give an absolute path.")
    return FolderStorage(root)


class FolderStorage:
    """Storage in a folder: temporary file, fsync, link into place."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._temporary = root / ".tmp"
        try:
            self._temporary.mkdir(mode=0o700, parents=True, exist_ok=True)
            _forget_old(self._temporary)
        except OSError as error:
            _refuse(error, f"The storage folder {root} cannot be used")

    def put(self, key: str, data: bytes | Path, *, media_type: str = "application/octet-stream") -> Stored:  # noqa: ARG002 - a folder keeps no media types
        target = self._target(key)
        try:
            with self._written(data) as (temporary, sha256, size_bytes):
                target.parent.mkdir(parents=True, exist_ok=True)
                try:
                    target.hardlink_to(temporary)
                except FileExistsError:
                    if _hash_of(target) != sha256:
                        raise Conflict(f"{key} is stored already, with other content.") from None
                _sync_folder(target.parent)
        except OSError as error:
            _refuse(error, f"{key} cannot be stored")
        return Stored(key=key, sha256=sha256, size_bytes=size_bytes)

    def get(self, key: str) -> bytes:
        try:
            return self._target(key).read_bytes()
        except (FileNotFoundError, IsADirectoryError) as error:
            raise NotFound(f"There is nothing stored under {key}.") from error
        except OSError as error:
            _refuse(error, f"{key} cannot be read")

    def path(self, key: str) -> Path:
        target = self._target(key)
        if not target.is_file():
            raise NotFound(f"There is nothing stored under {key}.")
        return target

    def exists(self, key: str) -> bool:
        return self._target(key).is_file()

    def delete(self, key: str) -> None:
        try:
            self._target(key).unlink(missing_ok=True)
        except OSError as error:
            _refuse(error, f"{key} cannot be removed")

    def _target(self, key: str) -> Path:
        segments = key.split("/")
        if len(key) > _KEY_LENGTH or not all(_SEGMENT.fullmatch(segment) for segment in segments):
            raise InvalidInput(f"{key[:200]!r} is no storage key.", cure="Use slugs joined by '/'.")
        return self._root.joinpath(*segments)

    @contextmanager
    def _written(self, data: bytes | Path) -> Iterator[tuple[Path, str, int]]:
        """Write a temporary file that is on disk when the block begins and gone when it ends."""
        temporary = self._temporary / secrets.token_hex(16)
        digest = hashlib.sha256()
        size = 0
        try:
            with temporary.open("xb") as file:
                for block in _blocks(data):
                    file.write(block)
                    digest.update(block)
                    size += len(block)
                file.flush()
                os.fsync(file.fileno())
            yield temporary, digest.hexdigest(), size
        finally:
            temporary.unlink(missing_ok=True)


def _blocks(data: bytes | Path) -> Iterator[bytes]:
    if isinstance(data, bytes):
        yield data
        return
    with data.open("rb") as file:
        yield from _read_blocks(file)


def _read_blocks(file: BinaryIO) -> Iterator[bytes]:
    while block := file.read(_BLOCK_BYTES):
        yield block


def _hash_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _forget_old(folder: Path) -> None:
    """Remove temporary files of processes that were killed long ago."""
    before = time.time() - _FORGOTTEN_S
    for path in folder.iterdir():
        if path.stat().st_mtime < before:
            path.unlink(missing_ok=True)


def _refuse(error: OSError, what: str) -> NoReturn:
    if error.errno in _FULL:
        raise Unavailable(
            f"{what}: there is no space left.", cure="Free some space and try again.", code="storage_full"
        ) from error
    raise Unavailable(f"{what}: {error.strerror or error}.") from error
