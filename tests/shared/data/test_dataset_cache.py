"""The dataset cache: verified on every fetch, bounded, and shared."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from vlmhyperbench.data.cache import DatasetCache
from vlmhyperbench.data.images import image_key
from vlmhyperbench.errors import Conflict, InvalidInput, NotFound


class Shelf:
    """Storage in memory that counts what is taken from it."""

    def __init__(self, *contents: bytes) -> None:
        self.blobs = {image_key(_name(content)): content for content in contents}
        self.gets = 0

    def get(self, key: str) -> bytes:
        self.gets += 1
        if key not in self.blobs:
            raise NotFound(f"There is no {key}.")
        return self.blobs[key]


def _name(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _age(path: Path, seconds: float) -> None:
    used_at = path.stat().st_mtime - seconds
    os.utime(path, (used_at, used_at))


def test_an_image_is_fetched_once(tmp_path: Path) -> None:
    shelf = Shelf(b"one")
    cache = DatasetCache(tmp_path / "cache")
    path = cache.fetch(shelf, _name(b"one"))
    assert path.read_bytes() == b"one"
    assert cache.fetch(shelf, _name(b"one")) == path
    assert DatasetCache(tmp_path / "cache").fetch(shelf, _name(b"one")) == path
    assert shelf.gets == 1


def test_a_damaged_file_is_fetched_anew(tmp_path: Path) -> None:
    shelf = Shelf(b"one")
    cache = DatasetCache(tmp_path)
    cache.fetch(shelf, _name(b"one")).write_bytes(b"two")
    assert cache.fetch(shelf, _name(b"one")).read_bytes() == b"one"


def test_other_bytes_in_storage_are_refused_and_leave_nothing_behind(tmp_path: Path) -> None:
    shelf = Shelf(b"one")
    shelf.blobs[image_key(_name(b"one"))] = b"evil"
    with pytest.raises(Conflict, match="other bytes"):
        DatasetCache(tmp_path).fetch(shelf, _name(b"one"))
    assert not list(tmp_path.rglob("*"))


def test_what_storage_does_not_have_is_not_found(tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        DatasetCache(tmp_path).fetch(Shelf(), _name(b"one"))


def test_the_least_recently_used_is_evicted_first(tmp_path: Path) -> None:
    contents = [bytes([number]) * 10 for number in range(4)]
    shelf = Shelf(*contents)
    cache = DatasetCache(tmp_path, max_bytes=30, in_use_s=100)
    paths = [cache.fetch(shelf, _name(content)) for content in contents[:3]]
    for path, age in zip(paths, (1000, 3000, 2000), strict=True):
        _age(path, age)
    cache.fetch(shelf, _name(contents[3]))
    assert [path.exists() for path in paths] == [True, False, True]


def test_using_a_file_keeps_it(tmp_path: Path) -> None:
    shelf = Shelf(b"1", b"2", b"3")
    cache = DatasetCache(tmp_path, max_bytes=2, in_use_s=100)
    old, other = cache.fetch(shelf, _name(b"1")), cache.fetch(shelf, _name(b"2"))
    _age(old, 5000)
    _age(other, 4000)
    cache.fetch(shelf, _name(b"1"))
    cache.fetch(shelf, _name(b"3"))
    assert (old.exists(), other.exists()) == (True, False)


def test_what_is_in_use_stays_even_over_the_bound(tmp_path: Path) -> None:
    shelf = Shelf(b"1", b"2", b"3")
    cache = DatasetCache(tmp_path, max_bytes=1)
    paths = [cache.fetch(shelf, _name(content)) for content in (b"1", b"2", b"3")]
    assert all(path.exists() for path in paths)


def test_a_file_that_cannot_be_put_in_place_leaves_nothing_half_written(tmp_path: Path) -> None:
    class Rival(Shelf):
        def get(self, key: str) -> bytes:
            (folder / _name(b"one") / "in the way").mkdir(parents=True)
            return super().get(key)

    folder = tmp_path / _name(b"one")[:2]
    with pytest.raises(InvalidInput):
        DatasetCache(tmp_path).fetch(Rival(b"one"), _name(b"one"))
    assert [path.name for path in folder.iterdir()] == [_name(b"one")]


def test_a_file_that_another_process_has_just_evicted_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "ab").mkdir()
    (tmp_path / "ab" / "gone").symlink_to("nowhere")
    assert DatasetCache(tmp_path).fetch(Shelf(b"one"), _name(b"one")).read_bytes() == b"one"
