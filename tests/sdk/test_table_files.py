"""Which tables are a split, by names alone; that folders of this machine and of a hub agree."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vlmhyperbench_sdk.errors import InvalidInput, NotFound
from vlmhyperbench_sdk.table_files import choose_tables, matches


@dataclass(frozen=True)
class Folder:
    """Names, and what stands in the small files."""

    names: Sequence[str]
    head: object = None
    texts: dict[str, str] = field(default_factory=dict)
    name: str = "lab/pages"

    def files(self) -> Sequence[str]:
        return self.names

    def matching(self, pattern: str) -> Sequence[str]:
        return [name for name in self.names if matches(name, pattern)]

    def has(self, name: str) -> bool:
        return name in self.names or name in self.texts

    def text(self, name: str) -> str:
        return self.texts[name]

    def card(self) -> object:
        return self.head


def chosen(names: Sequence[str], split: str | None = None, config: str | None = None, **known: object) -> list[str]:
    return list(choose_tables(Folder(names, **known), split=split, config=config, pattern=None).names)  # type: ignore[arg-type]


MINI = "mini-00000-of-00002.csv"


@pytest.mark.parametrize(
    ("names", "split", "expected"),
    [
        (["train.csv", "test.csv"], "test", ["test.csv"]),
        (["mini-00001-of-00002.csv", "mini-00000-of-00002.csv"], "mini", [MINI, "mini-00001-of-00002.csv"]),
        (["dev/a.csv", "train/b.csv"], "validation", ["dev/a.csv"]),
        (["test/train_1.csv", "val/train_2.csv"], "test", ["test/train_1.csv"]),  # folders before files
        (["data/fold_a-00000-of-00001.csv", "data/notes_test.csv"], "fold_a", ["data/fold_a-00000-of-00001.csv"]),
        (["a.csv", "b/c.csv", "b-1/d.csv"], "train", ["a.csv", "b/c.csv", "b-1/d.csv"]),
        (["a.csv", "test.parquet"], "test", ["test.parquet"]),
        (["_drafts/test.csv", ".cache/test.csv", "eval.csv"], "test", ["eval.csv"]),
    ],
)  # fmt: skip
def test_names_of_files_and_folders_tell_the_split(names: list[str], split: str, expected: list[str]) -> None:
    assert chosen(names, split) == expected


@pytest.mark.parametrize(
    "data_files",
    [
        5,
        [{"split": "test"}],
        [{"split": "test", "path": "/etc/*.csv"}],
        [{"split": "test", "path": "../*.csv"}],
        [{"split": "test", "path": "data/**.csv"}],
        [{"split": "test", "path": "."}],
    ],
)
def test_a_card_with_wrong_data_files_is_refused(data_files: object) -> None:
    with pytest.raises(InvalidInput):
        chosen(["data/a.csv"], "test", head={"configs": [{"data_files": data_files}]})


def test_a_card_names_tables_beside_images_and_folders_with_all_they_hold() -> None:
    names = ["part/a/1.png", "part/a/metadata.csv", "part/notes.md", "other.csv"]
    head = {"configs": [{"data_files": [{"split": "test", "path": "./part/**"}]}]}
    assert chosen(names, "test", head=head) == ["part/a/metadata.csv"]
    with pytest.raises(NotFound):
        chosen(["other.csv"], "test", head=head)


def test_what_was_saved_names_no_file_outside() -> None:
    texts = {"state.json": json.dumps({"_data_files": [{"filename": "../a.arrow"}]}), "../a.arrow": ""}
    with pytest.raises(NotFound):
        chosen([], texts=texts)
    assert chosen(["a.arrow"], texts={"state.json": '{"_data_files": [{"filename": "a.arrow"}]}'}) == ["a.arrow"]


PARTS = st.lists(st.sampled_from(["a", "b", "ab", "a.csv"]), min_size=1, max_size=4)
GLOBS = st.lists(st.sampled_from(["a", "*", "?", "a*", "**", "[ab]", "*.csv"]), min_size=1, max_size=4)


@given(parts=PARTS, pieces=GLOBS)
def test_a_listed_name_matches_a_glob_where_the_file_would(parts: list[str], pieces: list[str]) -> None:
    pattern = "/".join(pieces)
    with TemporaryDirectory() as folder:
        file = Path(folder, *parts)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
        files = {path for path in Path(folder).glob(pattern + "/*" * (pieces[-1] == "**")) if path.is_file()}
    assert matches("/".join(parts), pattern) == (file in files)
