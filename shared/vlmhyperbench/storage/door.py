"""The only access to stored files: a reader names the expected content and gets a file that has been verified."""

from __future__ import annotations

import asyncio
import shutil
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

from vlmhyperbench.addresses import S3Access, storage_folder
from vlmhyperbench.errors import Damaged, InvalidInput, Unavailable
from vlmhyperbench.storage.cached import DEFAULT_MAX_BYTES, CachedStore
from vlmhyperbench.storage.folder import FolderStore
from vlmhyperbench.storage.hashing import content_hash
from vlmhyperbench.storage.s3 import S3Store
from vlmhyperbench.storage.stores import Listed, Store, Stored, check_key

STORAGE_SCHEME = "storage:"
"""Prefix of a path that names a storage key instead of a file."""
_STAGED = "staged-"
_STALE_S = 24 * 3600
_MAX_UPLOADS = 8
"""Files that are stored at the same time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageLocation:
    """Where storage is, and what this machine needs to reach it."""

    url: str
    s3: S3Access = field(default_factory=S3Access)
    cache_folder: Path | None = None
    """Folder of the local copies of a store on another machine."""
    cache_max_bytes: int = DEFAULT_MAX_BYTES


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

    def delete(self, key: str) -> None:
        """Delete what is stored under the key, if anything is. Only `vlmhyperbench.tiers` deletes stored files.

        Raises:
            InvalidInput: the key is malformed.
            Unavailable: the store does not answer, or refuses.
        """
        check_key(key)
        self._store.delete(key)

    def listed(self, prefix: str) -> Iterator[Listed]:
        """Yield the files below a prefix such as `runs/`; call it in a thread.

        Raises:
            Unavailable: the store does not answer.
        """
        return self._store.listed(prefix)

    @asynccontextmanager
    async def staged(self, folder: Path) -> AsyncIterator[str]:
        """Yield the URL of a storage that a child without credentials can write; what it wrote is then stored here.

        A store in a folder is that storage itself. For any other, it is an empty folder below `folder`, whose files are
        stored in parallel when the block ends without an error.

        Raises:
            Conflict: a key has other content.
            Unavailable: see `put`.
            OSError: the folder cannot be created.
        """
        if isinstance(self._store, FolderStore):
            yield str(self._store.root)
            return
        await asyncio.to_thread(_prepare_staging, folder)
        with TemporaryDirectory(dir=folder, prefix=_STAGED) as name:
            yield name
            await asyncio.to_thread(self._put_all, Path(name))

    def check(self) -> None:
        """Check that files can be written and read, where that is not known until the first of them is.

        Raises:
            InvalidInput, Denied, Unavailable: see `S3Store.check`.
        """
        self._store.check()

    def _put_all(self, root: Path) -> None:
        keys = (path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file())
        with ThreadPoolExecutor(_MAX_UPLOADS) as pool:
            list(pool.map(lambda key: self.put(key, root / key), keys))  # raises what one of them did

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


def _prepare_staging(folder: Path) -> None:
    """Create the folder, and remove what killed processes have left in it long ago."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    for path in folder.glob(f"{_STAGED}*"):
        if path.stat().st_mtime < time.time() - _STALE_S:
            shutil.rmtree(path, ignore_errors=True)


def open_storage(location: StorageLocation | str) -> Storage:
    """Open the storage at a URL: a folder, as a path or a `file://` URL, or a prefix in a bucket, `s3://BUCKET/PREFIX`.

    Raises:
        InvalidInput: it is another kind of URL, or a relative path.
        Unavailable: the folder cannot be created, or boto3 is not installed.
    """
    if isinstance(location, str):
        location = StorageLocation(url=location)
    url, folder = location.url, storage_folder(location.url)
    if folder is not None:
        return Storage(FolderStore(folder))
    if location.cache_folder is None:
        raise InvalidInput(f"{url} needs a folder of local copies.", cure="Set VLMHB_STORAGE_CACHE_DIR.")
    remote = S3Store(url, location.s3)
    return Storage(CachedStore(remote, location.cache_folder, max_bytes=location.cache_max_bytes))
