"""The door: whatever a reader gets has the content that it asked for, and no large file is hashed on every read."""

from __future__ import annotations

import asyncio
import hashlib
import os
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.support.processes import PATIENCE_S
from vlmhyperbench.errors import Damaged, InvalidInput, Unavailable
from vlmhyperbench.storage import Storage, Store, Stored, open_storage
from vlmhyperbench.storage import hashing as hashing_room
from vlmhyperbench.storage.cached import CachedStore
from vlmhyperbench.storage.folder import FolderStore
from vlmhyperbench.storage.stores import Listed

pytestmark = pytest.mark.anyio


class Bucket:
    """A remote store: a folder whose files only come by download."""

    def __init__(self, folder: Path) -> None:
        self._behind = FolderStore(folder)
        self.downloads = 0

    def put(self, key: str, data: bytes | Path, media_type: str, /) -> Stored:
        return self._behind.put(key, data, media_type)

    def download(self, key: str, target: Path, /) -> bool:
        path = self._behind.local(key, "")
        if path is None:
            return False
        self.downloads += 1
        target.write_bytes(path.read_bytes())
        return True

    def exists(self, key: str, /) -> bool:
        return self._behind.exists(key)

    def delete(self, key: str, /) -> None:
        self._behind.delete(key)

    def listed(self, prefix: str, /) -> Iterator[Listed]:
        return self._behind.listed(prefix)


@pytest.fixture(params=["folder", "cached"])
def storage(tmp_path: Path, request: pytest.FixtureRequest) -> Storage:
    """The same door before a folder and before a remote store; the bytes lie in `tmp_path / "behind"`."""
    behind = tmp_path / "behind"
    store: Store = FolderStore(behind) if request.param == "folder" else CachedStore(Bucket(behind), tmp_path / "cache")
    return Storage(store)


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _settle(path: Path) -> None:
    """Let a file be older than the tick of a clock; the time of its last change cannot be set, so wait for it."""
    written_ns = time.time_ns() - 10_000_000_000
    os.utime(path, ns=(written_ns, written_ns))
    while time.time_ns() - path.stat().st_ctime_ns <= 150_000_000:
        time.sleep(0.01)


async def test_what_was_stored_is_opened_by_key_and_hash(storage: Storage) -> None:
    stored = storage.put("runs/a/chunk.parquet", b"content")
    path = await storage.open(stored.key, stored.sha256)
    assert path.read_bytes() == b"content"
    assert await storage.exists(stored.key)


async def test_several_are_opened_in_their_order(storage: Storage) -> None:
    stored = [storage.put(f"key-{number}", bytes([number])) for number in range(5)]
    paths = await storage.open_all([(file.key, file.sha256) for file in reversed(stored)])
    assert [path.read_bytes() for path in paths] == [bytes([number]) for number in (4, 3, 2, 1, 0)]


@pytest.mark.parametrize(
    "damaged",
    [b"a whole fil", b"", b"b whole file", b"a whole file, and more"],
    ids=["cut short", "emptied", "changed", "grown"],
)
async def test_a_damaged_file_is_refused_with_both_hashes(storage: Storage, tmp_path: Path, damaged: bytes) -> None:
    stored = storage.put("runs/file", b"a whole file")
    (tmp_path / "behind" / "runs" / "file").write_bytes(damaged)
    with pytest.raises(Damaged) as refused:
        await storage.open(stored.key, stored.sha256)
    error = refused.value
    assert (error.key, error.expected, error.found) == ("runs/file", stored.sha256, _sha256(damaged))
    assert error.code == "storage_corrupt"
    assert error.cure
    assert all(part in error.message for part in ("runs/file", stored.sha256, _sha256(damaged)))


async def test_a_file_that_was_damaged_after_it_was_read_is_refused_too(tmp_path: Path) -> None:
    storage = open_storage(str(tmp_path))
    stored = storage.put("file", b"right")
    _settle(tmp_path / "file")
    assert await storage.open("file", stored.sha256)
    (tmp_path / "file").write_bytes(b"wrong")
    with pytest.raises(Damaged):
        await storage.open("file", stored.sha256)


async def test_a_file_that_is_put_in_its_place_is_refused_whatever_its_size_and_time(tmp_path: Path) -> None:
    storage = open_storage(str(tmp_path / "storage"))
    stored = storage.put("file", b"right")
    path, other = tmp_path / "storage" / "file", tmp_path / "other"
    _settle(path)
    assert await storage.open("file", stored.sha256)
    other.write_bytes(b"wrong")
    os.utime(other, ns=(path.stat().st_atime_ns, path.stat().st_mtime_ns))
    other.replace(path)
    with pytest.raises(Damaged):
        await storage.open("file", stored.sha256)


async def test_a_content_of_the_same_size_with_the_times_set_back_is_refused(tmp_path: Path) -> None:
    storage = open_storage(str(tmp_path))
    stored = storage.put("file", b"right")
    path = tmp_path / "file"
    _settle(path)
    assert await storage.open("file", stored.sha256)
    before = path.stat()
    path.write_bytes(b"wrong")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    with pytest.raises(Damaged):
        await storage.open("file", stored.sha256)


async def test_a_file_that_was_restored_is_opened_again(storage: Storage, tmp_path: Path) -> None:
    stored = storage.put("file", b"right")
    path = tmp_path / "behind" / "file"
    path.write_bytes(b"wrong")
    with pytest.raises(Damaged):
        await storage.open("file", stored.sha256)
    path.write_bytes(b"right")
    assert (await storage.open("file", stored.sha256)).read_bytes() == b"right"


@pytest.mark.parametrize("key", ["absent", "folder", "folder/absent"])
async def test_a_missing_file_is_refused_by_the_same_error(storage: Storage, key: str) -> None:
    storage.put("folder/file", b"")
    with pytest.raises(Damaged) as refused:
        await storage.open(key, _sha256(b"x"))
    assert (refused.value.key, refused.value.expected, refused.value.found) == (key, _sha256(b"x"), None)
    assert refused.value.code == "storage_corrupt"
    assert not await storage.exists(key)


async def test_another_hash_than_the_committed_one_opens_nothing(storage: Storage) -> None:
    storage.put("file", b"content")
    with pytest.raises(Damaged):
        await storage.open("file", _sha256(b"other"))


async def test_a_file_that_cannot_be_read_is_unavailable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Unreadable(FolderStore):
        def local(self, key: str, sha256: str, /) -> Path | None:
            raise PermissionError(13, "Permission denied", key, sha256)

    with pytest.raises(Unavailable):
        await Storage(Unreadable(tmp_path)).open("file", _sha256(b""))


async def test_an_unchanged_file_is_read_once_for_all_its_readers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage = open_storage(str(tmp_path))
    stored = storage.put("file", b"x" * 1000)
    _settle(tmp_path / "file")
    hashed = []
    hash_file = hashing_room.file_sha256

    def counted(path: Path) -> str:
        hashed.append(path)
        return hash_file(path)

    monkeypatch.setattr(hashing_room, "file_sha256", counted)
    for _ in range(5):
        await storage.open("file", stored.sha256)
    assert len(hashed) == 1


async def test_hashing_does_not_hold_the_event_loop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    storage = open_storage(str(tmp_path))
    stored = storage.put("file", b"content")
    loop, released = asyncio.get_running_loop(), asyncio.Event()

    def waiting(_: Path) -> str:
        asyncio.run_coroutine_threadsafe(_set(released), loop).result(timeout=PATIENCE_S)  # only a free loop answers
        return stored.sha256

    monkeypatch.setattr("vlmhyperbench.storage.door.content_hash", waiting)
    assert await storage.open("file", stored.sha256)
    assert released.is_set()


async def _set(event: asyncio.Event) -> None:
    event.set()


async def test_readers_at_once_all_get_the_whole_file(storage: Storage) -> None:
    stored = storage.put("file", b"x" * 3_000_000)
    paths = await asyncio.gather(*(storage.open("file", stored.sha256) for _ in range(16)))
    assert {path.read_bytes() for path in paths} == {b"x" * 3_000_000}


async def test_a_reader_beside_a_writer_finds_nothing_or_the_whole_file(storage: Storage) -> None:
    content = b"x" * 3_000_000
    writing = asyncio.create_task(asyncio.to_thread(storage.put, "file", content))
    found: set[str | None] = set()
    while True:
        has_ended = writing.done()
        try:
            path = await storage.open("file", _sha256(content))
        except Damaged as error:
            found.add(error.found)
        else:
            assert path.read_bytes() == content
            break
        assert not has_ended
    assert found <= {None}
    await writing


@pytest.mark.parametrize(
    "key",
    [
        "",
        "/",
        "/etc/passwd",
        "../x",
        "a/../b",
        "a//b",
        "a/",
        ".tmp/x",
        "a/.b",
        "a b",
        "a\0b",
        "é",
        "x" * 201,
        "a/" * 500,
    ],
)
async def test_a_key_that_is_no_path_of_slugs_is_refused(storage: Storage, key: str) -> None:
    with pytest.raises(InvalidInput):
        await storage.open(key, _sha256(b""))
    with pytest.raises(InvalidInput):
        await storage.exists(key)
    with pytest.raises(InvalidInput):
        storage.put(key, b"")


async def test_a_folder_is_opened_by_path_or_url(tmp_path: Path) -> None:
    folder = tmp_path / "with space"
    stored = open_storage(str(folder)).put("key", b"1")
    assert await open_storage(f"file://{quote(str(folder))}").open("key", stored.sha256) == folder / "key"


@pytest.mark.parametrize("url", ["s3://bucket/x", "relative/path", "", "file://host/path"])
def test_another_url_is_refused(url: str) -> None:
    with pytest.raises(InvalidInput):
        open_storage(url)


def test_a_folder_that_cannot_be_made_is_unavailable(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(Unavailable):
        open_storage(str(tmp_path / "file" / "storage"))
