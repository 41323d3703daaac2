"""Where an entry is used: the entries that name it, and those that name them."""

from __future__ import annotations

from pathlib import Path

from tests.shared.registry.writing import Shelf, load, write
from vlmhyperbench.registry.loading import read_catalogue


def test_an_entry_is_used_by_those_that_name_it_and_through_them(tmp_path: Path) -> None:
    catalogue = load(tmp_path)
    assert catalogue.users_of("datasets", "d") == [("tasks", "t"), ("runs", "r"), ("experiments", "e")]
    assert catalogue.users_of("models", "m") == [("runs", "r"), ("experiments", "e")]
    assert catalogue.users_of("backends", "other") == [("models", "m")]
    assert ("tasks", "t") in catalogue.users_of("scenarios", "single")
    assert catalogue.users_of("experiments", "e") == []


def test_what_names_a_broken_entry_is_still_its_user(tmp_path: Path) -> None:
    root = write(tmp_path, {"datasets/d.yaml": "type: unknown\n"})
    catalogue = read_catalogue([root], plugins=Shelf())
    assert ("datasets", "d") in catalogue.broken
    assert ("tasks", "t") in catalogue.users_of("datasets", "d")
