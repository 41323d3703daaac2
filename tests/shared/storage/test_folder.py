"""A folder as a store: whole files or none, first writer wins, a full disk is said."""

from __future__ import annotations

import hashlib
import os
import resource
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.wording import Wording
from vlmhyperbench.errors import Conflict, Unavailable
from vlmhyperbench.storage import Storage, Stored, open_storage


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    return open_storage(str(tmp_path / "storage"))


def _files(storage_root: Path) -> list[str]:
    return sorted(str(path.relative_to(storage_root)) for path in storage_root.rglob("*") if path.is_file())


@contextmanager
def _largest_file(size_bytes: int) -> Iterator[None]:
    """Let no file of this process grow beyond a size: what a full disk is to a write."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)


def test_bytes_and_files_are_stored_under_their_key(storage: Storage, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"x" * 3_000_000)
    expected = hashlib.sha256(b"x" * 3_000_000).hexdigest()
    assert storage.put("a/b.bin", file) == Stored(key="a/b.bin", sha256=expected, size_bytes=3_000_000)
    assert storage.put("c", b"") == Stored(key="c", sha256=hashlib.sha256().hexdigest(), size_bytes=0)
    assert (tmp_path / "storage" / "a" / "b.bin").read_bytes() == b"x" * 3_000_000
    assert _files(tmp_path / "storage") == ["a/b.bin", "c"]


def test_the_same_content_again_changes_nothing_and_other_content_is_refused(storage: Storage, tmp_path: Path) -> None:
    first = storage.put("key", b"one")
    assert storage.put("key", b"one") == first
    with pytest.raises(Conflict, match="other content"):
        storage.put("key", b"two")
    assert (tmp_path / "storage" / "key").read_bytes() == b"one"
    assert _files(tmp_path / "storage") == ["key"]


def test_of_writers_at_once_one_wins(storage: Storage, tmp_path: Path) -> None:
    contents = [bytes([number]) * 200_000 for number in range(8)]

    def put(content: bytes) -> bool:
        try:
            storage.put("key", content)
        except Conflict:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        won = list(pool.map(put, contents))
    assert sum(won) == 1
    assert (tmp_path / "storage" / "key").read_bytes() == contents[won.index(True)]


def test_a_full_disk_leaves_nothing_half_written_and_says_so(storage: Storage, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"x" * 500_000)
    for data in (b"x" * 500_000, file):
        with _largest_file(100_000), pytest.raises(Unavailable) as refused:
            storage.put("runs/key", data)
        assert refused.value.code == "storage_full"
        assert refused.value.cure
        assert _files(tmp_path / "storage") == []
    assert storage.put("runs/key", file).size_bytes == 500_000


def test_a_source_that_cannot_be_read_leaves_nothing(storage: Storage, tmp_path: Path, wording: Wording) -> None:
    with pytest.raises(Unavailable) as refused:
        storage.put("key", tmp_path / "absent")
    wording(refused.value)
    assert _files(tmp_path / "storage") == []


def test_what_a_killed_writer_left_long_ago_is_removed(tmp_path: Path) -> None:
    open_storage(str(tmp_path))
    old, new = tmp_path / ".tmp" / "old", tmp_path / ".tmp" / "new"
    old.write_bytes(b"")
    new.write_bytes(b"")
    os.utime(old, (time.time() - 90_000, time.time() - 90_000))
    open_storage(str(tmp_path))
    assert not old.exists()
    assert new.exists()
