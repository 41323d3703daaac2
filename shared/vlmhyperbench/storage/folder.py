"""A store in a folder: a file is written under a temporary name, synced, and linked into place."""

from __future__ import annotations

import errno
import hashlib
import os
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, NoReturn

from vlmhyperbench.errors import STORAGE_FULL, Conflict, Unavailable, is_disk_full
from vlmhyperbench.storage.hashing import content_hash
from vlmhyperbench.storage.stores import Listed, Stored

_BLOCK_BYTES = 1024 * 1024
_STALE_S = 24 * 3600


class FolderStore:
    """Files in a local folder, which are read in place and never overwritten."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._temporary = root / ".tmp"
        try:
            self._temporary.mkdir(mode=0o700, parents=True, exist_ok=True)
            _remove_stale(self._temporary)
        except OSError as error:
            _refuse(error, f"The storage folder {root} cannot be used")

    def put(self, key: str, data: bytes | Path, _media_type: str, /) -> Stored:
        target = self._target(key)
        try:
            with self._written(data) as (temporary, sha256, size_bytes):
                target.parent.mkdir(parents=True, exist_ok=True)
                try:
                    target.hardlink_to(temporary)
                except FileExistsError:
                    if content_hash(target) != sha256:
                        message = f"{key} is stored already, with other content."
                        raise Conflict(message, cure="Delete the stored file, or restore it from a backup.") from None
                _sync_folder(target.parent)
        except OSError as error:
            _refuse(error, f"{key} cannot be stored")
        return Stored(key=key, sha256=sha256, size_bytes=size_bytes)

    def local(self, key: str, _sha256: str, /) -> Path | None:
        target = self._target(key)
        return target if target.is_file() else None

    def exists(self, key: str, /) -> bool:
        return self._target(key).is_file()

    def delete(self, key: str, /) -> None:
        try:
            self._target(key).unlink(missing_ok=True)
        except OSError as error:
            _refuse(error, f"{key} cannot be deleted")

    def listed(self, prefix: str, /) -> Iterator[Listed]:
        start = self.root.joinpath(*prefix.split("/")) if prefix else self.root
        try:
            for name_of_folder, folders, names in os.walk(start):
                folder = Path(name_of_folder)
                folders[:] = [name for name in folders if folder / name != self._temporary]
                for name in names:
                    path = folder / name
                    try:
                        status = path.stat()
                    except FileNotFoundError:  # deleted since the folder was read
                        continue
                    key = path.relative_to(self.root).as_posix()
                    yield Listed(key=key, size_bytes=status.st_size, modified_s=status.st_mtime)
        except OSError as error:
            _refuse(error, f"The files below {start} cannot be listed")

    def check(self) -> None:
        """Do nothing: the folder was made when this object was."""

    def _target(self, key: str) -> Path:
        return self.root.joinpath(*key.split("/"))

    @contextmanager
    def _written(self, data: bytes | Path) -> Iterator[tuple[Path, str, int]]:
        """Write a temporary file, synced when the block begins and removed when it ends."""
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


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _remove_stale(folder: Path) -> None:
    """Remove temporary files that killed processes left long ago."""
    before = time.time() - _STALE_S
    for path in folder.iterdir():
        if path.stat().st_mtime < before:
            path.unlink(missing_ok=True)


def _refuse(error: OSError, what: str) -> NoReturn:
    if is_disk_full(error) or error.errno == errno.EFBIG:
        raise Unavailable(
            f"{what}: there is no space left.", cure="Free some space and try again.", code=STORAGE_FULL
        ) from error
    cure = "Check the storage folder and its permissions."
    raise Unavailable(f"{what}: {error.strerror or error}.", cure=cure) from error
