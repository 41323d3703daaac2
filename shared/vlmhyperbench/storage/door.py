"""The only access to stored files: a reader names the expected content and gets a file that has been verified."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import unquote, urlsplit

from vlmhyperbench.errors import Damaged, InvalidInput, Unavailable
from vlmhyperbench.storage.folder import FolderStore
from vlmhyperbench.storage.hashing import content_hash
from vlmhyperbench.storage.stores import Store, Stored, check_key

STORAGE_SCHEME = "storage:"
"""Prefix of a path that names a storage key instead of a file."""


class Storage:
    """Files under keys, in any store: each is written once and verified whenever it is read.

    Reading does not block the event loop. `put` does: its callers are threads and child processes.
    """

    def __init__(self, store: Store) -> None:
        self._store = store

    async def open(self, key: str, sha256: str) -> Path:
        """Return a local file with this content; the caller must not change it.

        The content is hashed, unless this process has hashed the same unchanged file before.

        Raises:
            Damaged: nothing is stored under the key, or other content is.
            InvalidInput: the key is malformed.
            Unavailable: the file cannot be read, or the store does not answer.
        """
        return await asyncio.to_thread(self._open, key, sha256)

    async def open_all(self, wanted: Sequence[tuple[str, str]]) -> list[Path]:
        """Call `open` for each pair of key and SHA-256; the paths have the same order."""
        return await asyncio.to_thread(lambda: [self._open(key, sha256) for key, sha256 in wanted])

    async def exists(self, key: str) -> bool:
        """Return whether anything is stored under the key; its content is not checked.

        Raises:
            InvalidInput: the key is malformed.
            Unavailable: the store does not answer.
        """
        check_key(key)
        return await asyncio.to_thread(self._store.exists, key)

    def put(self, key: str, data: bytes | Path, *, media_type: str = "application/octet-stream") -> Stored:
        """Store bytes or a file's content atomically; storing the same content again changes nothing.

        Raises:
            InvalidInput: the key is malformed.
            Conflict: the key has other content.
            Unavailable: the file cannot be written; code `storage_full` where there is no space.
        """
        check_key(key)
        return self._store.put(key, data, media_type)

    def _open(self, key: str, sha256: str) -> Path:
        check_key(key)
        try:
            path = self._store.local(key, sha256)
            actual = None if path is None else content_hash(path)
        except FileNotFoundError:  # removed since `local` returned it
            path = actual = None
        except OSError as error:
            raise Unavailable(f"{key} cannot be read from storage: {error.strerror or error}.") from error
        if path is None or actual != sha256:
            raise Damaged(key, expected=sha256, found=actual)
        return path


def open_storage(url: str) -> Storage:
    """Open the storage at a URL: a folder, as a path or a `file://` URL.

    Raises:
        InvalidInput: it is another kind of URL, or a relative path.
        Unavailable: the folder cannot be created.
    """
    parts = urlsplit(url)
    if parts.scheme not in {"", "file"} or parts.netloc not in {"", "localhost"}:
        raise InvalidInput(f"Storage cannot be at {url!r}.", cure="Give the path of a folder, or a file:// URL.")
    root = Path(unquote(parts.path) if parts.scheme else url)
    if not root.is_absolute():
        raise InvalidInput(f"The storage folder {url!r} is relative.", cure="Give an absolute path.")
    return Storage(FolderStore(root))
