"""The dataset `table`: rows of CSV, JSONL, Parquet, Arrow or a folder of the hub, with columns mapped in YAML."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Final

from vlmhyperbench_sdk.errors import InvalidInput
from vlmhyperbench_sdk.protocols import DatasetSource
from vlmhyperbench_sdk.suggestions import did_you_mean
from vlmhyperbench_sdk.types import JsonObject, Sample
from vlmhyperbench_table_datasets.fields import Unmapped
from vlmhyperbench_table_datasets.mapping import CONTROL, Columns, default_columns, read_columns, sample_of
from vlmhyperbench_table_datasets.opening import open_table
from vlmhyperbench_table_datasets.rows import Row, RowError

PARAMS: Final = ("columns", "format", "files", "images", "config", "separator", "encoding")
MAX_ERRORS: Final = 20
"""Maximum number of wrong rows that are listed; further ones are counted."""


class TableDataset:
    """Yield one sample per row of a table.

    Params:
        columns: field of the sample → column, or a mapping with the column and how its cells are read.
        format: `csv`, `jsonl`, `parquet` or `arrow`, which the suffix of a file says too; `documents` or `coco`.
        images: folder of the images of `documents` and `coco`, relative to the path.
        files: glob of the files in a folder, instead of those that the split names.
        config: subset of a folder that has several.
        separator, encoding: of a CSV; by default found in its header, and UTF-8 with or without BOM.

    Without `columns`, columns are taken by their names, and all others are metadata. A key is the number of the row in
    its table, from 0, unless a column is mapped to it. If a row is wrong, no row after it is yielded: the others are
    only checked, and the error names up to 20 of them.
    """

    def __init__(self, source: DatasetSource) -> None:
        problems = [
            f"{name}: there is no such param. {did_you_mean(name, PARAMS)}"
            for name in source.params
            if name not in PARAMS
        ]
        given = source.params.get("columns")
        if given is not None and not isinstance(given, Mapping):
            problems.append("columns: it is no mapping of fields to columns.")
        _refuse("The params of the dataset table are wrong", problems)
        opened = open_table(source)
        self._table = opened.table
        self._split = None if opened.has_splits else source.split
        self._facts = self._table.facts()
        self._given: JsonObject | None = given if isinstance(given, Mapping) else None
        self._columns = self._mapped(self._facts.columns)

    def __iter__(self) -> Iterator[Sample]:
        columns, problems, count = self._columns, list[str](), 0
        splits: set[str] = set()
        absent = set() if columns is None else {item.column for item in columns.metadata.values()} - {None}
        is_empty, root = True, self._table.root
        for row in self._table.rows(None if columns is None else self._read_columns(columns)):
            if isinstance(row, RowError):
                problems.append(str(row))
                continue
            count += 1
            if columns is None:
                columns = self._mapped(tuple(row.cells)) or Columns()
            absent -= row.cells.keys()
            try:
                if not self._is_of_split(row, columns, splits):
                    continue
                sample = sample_of(row, columns, self._facts, root)
            except Unmapped as error:
                problems.append(f"{row.location}: {error}" + "." * (str(error)[-1:] not in {".", "?"}))
                continue
            is_empty = False
            if not problems:
                yield sample
        if absent and count:
            problems.append(f"{self._table.name}: no row has {', '.join(map(repr, sorted(map(str, absent))))}.")
        _refuse_rows(problems)
        if is_empty:
            cure = did_you_mean(self._split or "", splits - {""}, nothing="Add rows.")
            raise InvalidInput(f"{self._table.name} has no row{_of_split(self._split)}.", cure=cure)

    def _read_columns(self, mapped: Columns) -> Collection[str]:
        """Return the columns to read: those with a default may be missing, and without any column there are no rows."""
        known = self._facts.columns
        if known is None:
            return sorted(mapped.needed)
        return sorted(mapped.needed.intersection(known)) or known[:1]

    def _mapped(self, columns: Collection[str] | None) -> Columns | None:
        """Return the mapping; None if it follows from names that only the first row knows."""
        if self._given is None and columns is None:
            return None
        _refuse(
            f"{self._table.name} has columns that cannot be named",
            [f"The column {name!r} has a control character." for name in columns or () if CONTROL.search(name)],
            cure="Rename them in the file.",
        )
        known = columns if self._facts.columns is not None else None
        read, problems = read_columns(default_columns(columns or ()) if self._given is None else self._given, known)
        if self._split is not None and known is not None and read.split is None:
            read, problems = _with_split(self._given or default_columns(known), known, self._split, problems)
        _refuse(f"The mapping of the columns of {self._table.name} is wrong", problems)
        return read

    def _is_of_split(self, row: Row, columns: Columns, splits: set[str]) -> bool:
        if self._split is None:
            return True
        item = columns.split
        name = str(row.cells.get("split", "")) if item is None else str(item.of(row.cells, self._facts.labels))
        splits.add(name)
        return name == self._split


def _with_split(
    given: JsonObject, known: Collection[str], split: str, problems: list[str]
) -> tuple[Columns, list[str]]:
    """Map the column `split`, which tells the rows of a split where the files do not."""
    if "split" in known:
        return read_columns({**given, "split": "split"}, known)
    message = f"split: {split!r} is asked for, but neither files nor a column name splits; map a column to split."
    return Columns(), [*problems, message]


def _refuse(what: str, problems: list[str], *, cure: str = "Correct the entry of the dataset.") -> None:
    if problems:
        raise InvalidInput(f"{what}. {' '.join(problems)}", cure=cure)


def _refuse_rows(problems: list[str]) -> None:
    if problems:
        more = f"\n… and {len(problems) - MAX_ERRORS:,} more." if len(problems) > MAX_ERRORS else ""
        raise InvalidInput(
            "\n".join(problems[:MAX_ERRORS]) + more, cure="Correct these rows, or the mapping of the columns."
        )


def _of_split(split: str | None) -> str:
    return "" if split is None else f" of the split {split!r}"
