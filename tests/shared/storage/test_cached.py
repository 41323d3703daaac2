"""Copies of a remote store's files: made once, bounded, shared, and made again where one is damaged."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from vlmhyperbench.errors import InvalidInput
from vlmhyperbench.storage import Stored
from vlmhyperbench.storage.cached import CachedStore
from vlmhyperbench.storage.stores import Listed


class Shelf:
    """A remote store in memory that counts what is taken from it."""

    def __init__(self, *contents: bytes) -> None:
        self.blobs = {_name(content): content for content in contents}
        self.downloads = 0

    def put(self, key: str, data: bytes | Path, _media_type: str, /) -> Stored:
        content = data if isinstance(data, bytes) else data.read_bytes()
        self.blobs[key] = content
        return Stored(key=key, sha256=_name(content), size_bytes=len(content))

    def download(self, key: str, target: Path, /) -> bool:
        self.downloads += 1
        if key in self.blobs:
            target.write_bytes(self.blobs[key])
        return key in self.blobs

    def exists(self, key: str, /) -> bool:
        return key in self.blobs

    def delete(self, key: str, /) -> None:
        self.blobs.pop(key, None)

    def listed(self, prefix: str, /) -> Iterator[Listed]:
        for key, content in self.blobs.items():
            if key.startswith(prefix):
                yield Listed(key=key, size_bytes=len(content), modified_s=0.0)


def _name(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _copy(store: CachedStore, content: bytes) -> Path:
    path = store.local(_name(content), _name(content))
    assert path is not None
    return path


def _age(path: Path, seconds: float) -> None:
    """Let a copy be used so long ago; its content stays as it is."""
    status = path.stat()
    os.utime(path, ns=(status.st_atime_ns - round(seconds * 1e9), status.st_mtime_ns))


def test_a_file_is_copied_once(tmp_path: Path) -> None:
    shelf = Shelf(b"one")
    store = CachedStore(shelf, tmp_path / "cache")
    path = _copy(store, b"one")
    assert path.read_bytes() == b"one"
    assert _copy(store, b"one") == _copy(CachedStore(shelf, tmp_path / "cache"), b"one") == path
    assert shelf.downloads == 1


def test_using_a_copy_does_not_make_it_a_changed_file(tmp_path: Path) -> None:
    store = CachedStore(Shelf(b"one"), tmp_path)
    before = _copy(store, b"one").stat().st_mtime_ns
    assert _copy(store, b"one").stat().st_mtime_ns == before


def test_a_damaged_copy_is_made_again(tmp_path: Path) -> None:
    store = CachedStore(Shelf(b"one"), tmp_path)
    _copy(store, b"one").write_bytes(b"two")
    assert _copy(store, b"one").read_bytes() == b"one"


def test_what_the_store_does_not_have_leaves_nothing_behind(tmp_path: Path) -> None:
    assert CachedStore(Shelf(), tmp_path).local("key", _name(b"one")) is None
    assert not [path for path in tmp_path.rglob("*") if path.is_file() and path.parent.name != "locks"]


def test_the_least_recently_used_copy_is_evicted_first(tmp_path: Path) -> None:
    contents = [bytes([number]) * 10 for number in range(4)]
    store = CachedStore(Shelf(*contents), tmp_path, max_bytes=30, in_use_s=100)
    paths = [_copy(store, content) for content in contents[:3]]
    for path, age in zip(paths, (1000, 3000, 2000), strict=True):
        _age(path, age)
    _copy(store, contents[3])
    assert [path.exists() for path in paths] == [True, False, True]


def test_using_a_copy_keeps_it(tmp_path: Path) -> None:
    store = CachedStore(Shelf(b"1", b"2", b"3"), tmp_path, max_bytes=2, in_use_s=100)
    old, other = _copy(store, b"1"), _copy(store, b"2")
    _age(old, 5000)
    _age(other, 4000)
    _copy(store, b"1")
    _copy(store, b"3")
    assert (old.exists(), other.exists()) == (True, False)


def test_what_is_in_use_stays_even_over_the_bound(tmp_path: Path) -> None:
    store = CachedStore(Shelf(b"1", b"2", b"3"), tmp_path, max_bytes=1)
    paths = [_copy(store, content) for content in (b"1", b"2", b"3")]
    assert all(path.exists() for path in paths)


def test_the_bound_counts_the_copies_that_were_there_before(tmp_path: Path) -> None:
    old = _copy(CachedStore(Shelf(b"1"), tmp_path), b"1")
    _age(old, 5000)
    _copy(CachedStore(Shelf(b"2"), tmp_path, max_bytes=1, in_use_s=100), b"2")
    assert not old.exists()


def test_the_bound_counts_what_other_processes_add(tmp_path: Path) -> None:
    contents = [bytes([number]) * 10 for number in range(12)]
    stores = [CachedStore(Shelf(*contents), tmp_path, max_bytes=60, in_use_s=100) for _ in range(2)]
    for number, content in enumerate(contents):
        _age(_copy(stores[number % 2], content), 200)
    assert sum(path.stat().st_size for path in tmp_path.glob("??/*") if len(path.name) == 64) <= 60


def test_a_copy_that_cannot_be_put_in_place_leaves_nothing_half_written(tmp_path: Path) -> None:
    class Rival(Shelf):
        def download(self, key: str, target: Path, /) -> bool:
            (folder / _name(b"one") / "in the way").mkdir(parents=True)
            return super().download(key, target)

    folder = tmp_path / _name(b"one")[:2]
    with pytest.raises(InvalidInput):
        CachedStore(Rival(b"one"), tmp_path).local(_name(b"one"), _name(b"one"))
    assert [path.name for path in folder.iterdir()] == [_name(b"one")]


def test_a_copy_that_another_process_has_just_evicted_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "ab").mkdir()
    (tmp_path / "ab" / "gone").symlink_to("nowhere")
    assert _copy(CachedStore(Shelf(b"one"), tmp_path), b"one").read_bytes() == b"one"
