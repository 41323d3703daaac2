"""The one door to stored files: whoever reads one says which content it expects, and gets a file that has it."""

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
"""How a path begins that names a key of the storage instead of a file."""


class Storage:
    """Files under keys, in whichever store: each is written once and verified whenever it is read.

    Reading does not block the event loop. `put` does: its callers are threads and children that make the file anyway.
    """

    def __init__(self, store: Store) -> None:
        self._store = store

    async def open(self, key: str, sha256: str) -> Path:
        """Return a local file with this content, which the caller only reads.

        The content is hashed, unless this process has hashed the same unchanged file before.

        Raises:
            Damaged: there is nothing under the key, or other content.
            InvalidInput: the key is malformed.
            Unavailable: the file cannot be read, or the store does not answer.
        """
        return await asyncio.to_thread(self._open, key, sha256)

    async def open_all(self, wanted: Sequence[tuple[str, str]]) -> list[Path]:
        """Do `open` for each (key, SHA-256); the paths come in the same order."""
        return await asyncio.to_thread(lambda: [self._open(key, sha256) for key, sha256 in wanted])

    async def exists(self, key: str) -> bool:
        """Say whether there is something under the key, whatever it holds.

        Raises:
            InvalidInput: the key is malformed.
            Unavailable: the store does not answer.
        """
        check_key(key)
        return await asyncio.to_thread(self._store.exists, key)

    def put(self, key: str, data: bytes | Path, *, media_type: str = "application/octet-stream") -> Stored:
        """Store bytes, or a file's content, whole or not at all; storing the same content again changes nothing.

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
            found = None if path is None else content_hash(path)
        except FileNotFoundError:  # removed a moment ago
            path = found = None
        except OSError as error:
            raise Unavailable(f"{key} cannot be read from storage: {error.strerror or error}.") from error
        if path is None or found != sha256:
            raise Damaged(key, expected=sha256, found=found)
        return path


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
    return Storage(FolderStore(root))
