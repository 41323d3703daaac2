"""The tables of a split in a folder of this machine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from vlmhyperbench_sdk.errors import InvalidInput
from vlmhyperbench_sdk.table_files import CARD, choose_tables, head_of_card
from vlmhyperbench_table_datasets.parquet_rows import labels_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """The files of one split, in order."""

    files: tuple[Path, ...]
    labels: Mapping[str, Sequence[str]]
    """Names of classes that stand beside the files, and not in them."""
    has_splits: bool
    """Whether the files were chosen by the split; if not, a column may name it."""


def choose_files(folder: Path, *, split: str | None, config: str | None, pattern: str | None) -> Chosen:
    """Choose the files of a split.

    Raises:
        NotFound, InvalidInput: see `choose_tables`.
    """
    local = _LocalFolder(path=folder)
    chosen = choose_tables(local, split=split, config=config, pattern=pattern)
    return Chosen(
        files=tuple(folder / name for name in chosen.names),
        labels=labels_of(local.text(chosen.info)) if chosen.info is not None else {},
        has_splits=chosen.has_splits,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _LocalFolder:
    """A folder of this machine, as `choose_tables` sees it."""

    path: Path

    @property
    def name(self) -> str:
        return str(self.path)

    def files(self) -> Sequence[str]:
        return self.matching("**/*")

    def matching(self, pattern: str) -> Sequence[str]:
        return [path.relative_to(self.path).as_posix() for path in self.path.glob(pattern) if path.is_file()]

    def has(self, name: str) -> bool:
        return (self.path / name).is_file()

    def text(self, name: str) -> str:
        return (self.path / name).read_text(encoding="utf-8")

    def card(self) -> object:
        if not self.has(CARD):
            return None
        head = head_of_card((self.path / CARD).read_text(encoding="utf-8", errors="replace"))
        try:
            return None if head is None else yaml.safe_load(head)
        except (yaml.YAMLError, ValueError, RecursionError) as error:
            message = f"The head of {self.path / CARD} is no YAML: {error}."
            raise InvalidInput(message, cure="Correct it, or set params.files.") from error
