"""Where a dataset is, as its path says."""

from __future__ import annotations

import pytest

from vlmhyperbench.domain.datasets import HubDataset, is_archive, is_elsewhere, parse_hub_path
from vlmhyperbench.errors import InvalidInput


def test_a_path_may_name_a_repository_or_a_part_of_one() -> None:
    assert parse_hub_path("hf://datasets/lab/pages/") == HubDataset(repo="lab/pages")
    part = parse_hub_path("hf://datasets/lab/pages/data/en")
    assert part == HubDataset(repo="lab/pages", inside="data/en")
    assert [part.holds(name) for name in ("data/en/1.parquet", "data/en", "data/english/1.parquet")] == [
        True,
        True,
        False,
    ]
    assert HubDataset(repo="lab/pages").holds("any")


@pytest.mark.parametrize(
    "path", ["hf://datasets/lab", "hf://datasets/../x", "hf://datasets/lab/x/../y", "hf://models/a/b"]
)
def test_another_form_is_refused(path: str) -> None:
    with pytest.raises(InvalidInput):
        parse_hub_path(path)


def test_files_are_fetched_from_s3_and_hubs_only() -> None:
    paths = ["s3://bucket/prefix", "hf://datasets/lab/pages", "/data/pages", None]
    assert [is_elsewhere(path) for path in paths] == [True, True, False, False]


def test_archives_are_known_by_how_their_names_end() -> None:
    paths = ["pages.zip", "/data/PAGES.TAR.GZ", "pages.tgz", "/data/zip", "pages.zip/a.csv", None]
    assert [is_archive(path) for path in paths] == [True, True, True, False, False, False]
