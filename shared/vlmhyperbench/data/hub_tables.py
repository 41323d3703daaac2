"""Which files of a repository of a hub a dataset needs: the tables of its config and split, and images beside them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import yaml

from vlmhyperbench.data.repositories import Repository
from vlmhyperbench.domain.datasets import HubDataset, is_archive
from vlmhyperbench.domain.specs import DatasetSpec
from vlmhyperbench.errors import InvalidInput, NotFound
from vlmhyperbench_sdk.table_files import CARD, SMALL, SUFFIXES, choose_tables, head_of_card, matches

_TABLE: Final = "table"
"""Type of the datasets whose files are chosen by the rules of the hub; of others all tables are fetched."""
_DOCUMENTS: Final = ("documents", "coco")
"""Formats of one JSON for each page, or for all images: there is no table, and every file may belong to it."""


def small_files(repository: Repository, dataset: HubDataset) -> list[str]:
    """Return the files that say which tables there are."""
    return [name for name in repository.names if dataset.holds(name) and name.rpartition("/")[2] in SMALL]


def needed_files(repository: Repository, dataset: HubDataset, spec: DatasetSpec, home: Path) -> list[str]:
    """Return the files that a dataset needs: tables in one format, and images where these are files beside them.

    Args:
        repository: What the hub lists.
        dataset: The repository, or the folder or file inside of it.
        spec: The dataset with its split and its params.
        home: Folder on this machine in which the `small_files` are.

    Raises:
        NotFound: there is no table, or no such split, config or file.
        InvalidInput: there are several splits or configs, and none is named; or a file that says which is wrong.
    """
    within = [name for name in repository.names if dataset.holds(name)]
    if spec.type == _TABLE and spec.params.get("format") in _DOCUMENTS and within:
        return [name for name in within if not is_archive(name)]
    suffix = next((suffix for suffix in SUFFIXES if any(name.lower().endswith(suffix) for name in within)), None)
    if suffix is None and (not within or _text(spec, "files") is None):
        where = f"{dataset.repo}/{dataset.inside}".rstrip("/")
        raise NotFound(
            f"{where} at {repository.commit} has no table: none of its files ends with {', '.join(SUFFIXES)}.",
            cure="Name the revision refs/convert/parquet, where the hub itself keeps most datasets as Parquet.",
            code="hub_no_file",
        )
    if spec.type == _TABLE and within != [dataset.inside]:
        tables = _of_split(within, dataset, spec, home)
    else:
        tables = [name for name in within if suffix is not None and name.lower().endswith(suffix)]
    is_whole = all(name.lower().endswith(".parquet") for name in tables)
    beside = [] if is_whole else [name for name in within if not name.lower().endswith(SUFFIXES)]
    small = small_files(repository, dataset)
    return sorted({*tables, *small, *(name for name in beside if not is_archive(name))})


def _of_split(within: Sequence[str], dataset: HubDataset, spec: DatasetSpec, home: Path) -> list[str]:
    before = f"{dataset.inside}/" if dataset.inside else ""
    folder = _ListedFolder(
        name=f"{dataset.repo}/{dataset.inside}".rstrip("/"),
        names=tuple(name.removeprefix(before) for name in within),
        home=home / dataset.inside,
    )
    chosen = choose_tables(folder, split=spec.split, config=_text(spec, "config"), pattern=_text(spec, "files"))
    return [before + name for name in chosen.names]


def _text(spec: DatasetSpec, param: str) -> str | None:
    value = spec.params.get(param)
    return value if isinstance(value, str) else None  # another type is refused where the dataset is opened


@dataclass(frozen=True, slots=True, kw_only=True)
class _ListedFolder:
    """A folder of a repository: its names as the hub lists them, and its small files, which have arrived."""

    name: str
    names: tuple[str, ...]
    home: Path

    def files(self) -> Sequence[str]:
        return self.names

    def matching(self, pattern: str) -> Sequence[str]:
        return [name for name in self.names if matches(name, pattern)]

    def has(self, name: str) -> bool:
        return name in self.names

    def text(self, name: str) -> str:
        return (self.home / name).read_text(encoding="utf-8")

    def card(self) -> object:
        if not self.has(CARD):
            return None
        head = head_of_card((self.home / CARD).read_text(encoding="utf-8", errors="replace"))
        try:
            return None if head is None else yaml.safe_load(head)
        except (yaml.YAMLError, ValueError, RecursionError) as error:
            message = f"The head of {CARD} of {self.name} is no YAML: {error}."
            raise InvalidInput(message, cure="Set params.files to the files of the split.") from error
