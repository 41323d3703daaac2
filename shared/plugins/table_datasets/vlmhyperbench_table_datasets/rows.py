"""A table as its readers yield it: rows of named values, each with the location that errors name."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, Union

Cell = Union[str, int, float, bool, bytes, None, Sequence["Cell"], Mapping[str, "Cell"]]
"""A value of a table: JSON, or bytes."""


@dataclass(frozen=True, slots=True)
class Row:
    """One row."""

    number: int
    """Number of the row in its table, from 0, including rows of other splits: by default the sample's key."""
    cells: Mapping[str, Cell]
    location: str
    """File and line, or file and row."""


class RowError(Exception):
    """A row cannot be read; the rows after it can."""

    def __init__(self, location: str, reason: str) -> None:
        super().__init__(f"{location}: {reason}.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What is known of a table before its first row."""

    columns: tuple[str, ...] | None = None
    """None where only rows have names of columns, as in JSONL."""
    labels: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Column → names of its classes, where numbers stand for names."""


class Table(Protocol):
    """A table in one or several files. Its rows can be read any number of times."""

    @property
    def root(self) -> Path:
        """Folder to which paths of images are relative."""

    @property
    def name(self) -> str:
        """Path of the file or the folder, as errors name it."""

    def facts(self) -> Facts:
        """Return what is known before the first row.

        Raises:
            InvalidInput: the header or the schema is wrong.
        """

    def rows(self, columns: Collection[str] | None = None) -> Iterator[Row | RowError]:
        """Yield the rows in order; a row that cannot be read is an error among them.

        Args:
            columns: Columns that are needed, so that a reader may skip the others; None: all.

        Raises:
            InvalidInput: the rest cannot be read.
        """
