"""The bounds of unpacked archives and of images at URLs: the least recently used go first, and none that is in use."""

from __future__ import annotations

import os
import zipfile
from contextlib import ExitStack
from pathlib import Path

import pytest

from vlmhyperbench.data.archives import unpacked
from vlmhyperbench.data.room import MAKING, ImageRoom, make_room
from vlmhyperbench.domain.specs import DatasetSpec

LONG_AGO = 1_000_000_000


def archive(folder: Path, name: str, size_bytes: int = 1000) -> DatasetSpec:
    path = folder / f"{name}.zip"
    if not path.exists():
        with zipfile.ZipFile(path, "w") as file:
            file.writestr("set/a.csv", name * size_bytes)
    return DatasetSpec(name=name, version="1.0.0", type="table", path=str(path))


def there(home: Path) -> set[str]:
    return {file.read_text()[0] for file in home.glob("[!.]*/set/a.csv")}


def test_the_least_recently_used_archive_makes_way(tmp_path: Path) -> None:
    home = tmp_path / "unpacked"
    for used_at, name in enumerate("abac"):
        with unpacked(archive(tmp_path, name), home, max_bytes=2500) as spec:
            folder = Path(spec.path or "").parent
        os.utime(home / ".locks" / folder.name, (LONG_AGO + used_at, LONG_AGO + used_at))
    assert there(home) == {"a", "c"}


def test_an_archive_that_is_read_stays_above_the_bound_and_makes_way_afterwards(tmp_path: Path) -> None:
    home = tmp_path / "unpacked"
    with ExitStack() as reading:
        for name in "abc":
            reading.enter_context(unpacked(archive(tmp_path, name), home, max_bytes=1500))
        assert there(home) == {"a", "b", "c"}
    with unpacked(archive(tmp_path, "d"), home, max_bytes=1500) as spec:
        assert there(home) == {"d"}
        assert (Path(spec.path or "") / "a.csv").read_text() == "d" * 1000


def test_what_was_evicted_is_unpacked_again(tmp_path: Path) -> None:
    home = tmp_path / "unpacked"
    for name in "aba":
        with unpacked(archive(tmp_path, name), home, max_bytes=0) as spec:
            assert (Path(spec.path or "") / "a.csv").read_text() == name * 1000


def test_what_a_killed_process_left_half_made_is_removed_after_a_day(tmp_path: Path) -> None:
    for name, used_at in ((f"{MAKING}old", LONG_AGO), (f"{MAKING}new", None)):
        (tmp_path / name).mkdir()
        if used_at is not None:
            os.utime(tmp_path / name, (used_at, used_at))
    make_room(tmp_path, 10)
    assert [path.name for path in tmp_path.iterdir()] == [f"{MAKING}new"]


@pytest.mark.parametrize(("in_use_s", "left"), [(600.0, {"1", "5"}), (1e12, {"0", "1", "2", "3", "4", "5"})])
def test_the_least_recently_used_images_make_way_but_none_that_was_just_used(
    tmp_path: Path, in_use_s: float, left: set[str]
) -> None:
    room = ImageRoom(tmp_path, 300, in_use_s=in_use_s)
    (tmp_path / "aa").mkdir()
    for number, used_at in enumerate([0, 99, 2, 3, 4]):
        (tmp_path / "aa" / str(number)).write_bytes(bytes(100))
        os.utime(tmp_path / "aa" / str(number), (LONG_AGO + used_at, LONG_AGO + used_at))
    (tmp_path / "aa" / "5").write_bytes(bytes(100))
    room.add(100)
    assert {path.name for path in (tmp_path / "aa").iterdir()} == left


def test_a_pass_over_the_images_is_not_due_for_each(tmp_path: Path) -> None:
    room = ImageRoom(tmp_path, 1000)
    (tmp_path / "aa").mkdir()
    room.add(1)
    for name in ("old", "older"):
        (tmp_path / "aa" / name).write_bytes(bytes(2000))
        os.utime(tmp_path / "aa" / name, (LONG_AGO, LONG_AGO))
    room.add(900)
    assert len(list((tmp_path / "aa").iterdir())) == 2
    room.add(200)
    assert list((tmp_path / "aa").iterdir()) == []
