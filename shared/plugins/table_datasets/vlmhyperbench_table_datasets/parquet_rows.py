"""Rows of Parquet files, read in batches, so that only a batch of images is in memory."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import polars as pl

from vlmhyperbench_sdk.errors import InvalidInput
from vlmhyperbench_table_datasets.rows import Facts, Row, RowError

BATCH_ROWS: Final = 256
FEATURES: Final = "huggingface"
"""Key of the metadata in which `datasets` keeps the features of a table."""


@dataclass(frozen=True, kw_only=True)
class ParquetTable:
    """Parquet files, one after the other; all have the columns of the first."""

    files: tuple[Path, ...]
    root: Path

    @property
    def name(self) -> str:
        return str(self.files[0] if len(self.files) == 1 else self.files[0].parent)

    def facts(self) -> Facts:
        return self._facts

    @cached_property
    def _facts(self) -> Facts:
        file = self.files[0]
        try:
            columns = tuple(pl.read_parquet_schema(file))
            features = pl.read_parquet_metadata(file).get(FEATURES, "")
        except (OSError, pl.exceptions.PolarsError) as error:
            raise unreadable(file, error) from error
        return Facts(columns=columns, labels=labels_of(features))

    def rows(self, columns: Collection[str] | None = None) -> Iterator[Row | RowError]:
        number = 0
        for file in self.files:
            first = number
            lazy = pl.scan_parquet(file, glob=False)
            if columns is not None:
                lazy = lazy.select(columns)
            try:
                for frame in lazy.collect_batches(chunk_size=BATCH_ROWS):
                    for cells in frame.iter_rows(named=True):
                        yield Row(number, cells, f"{file} row {number - first}")
                        number += 1
            except (OSError, pl.exceptions.PolarsError) as error:
                raise unreadable(file, error) from error


def unreadable(file: Path, error: Exception) -> InvalidInput:
    """Return the error of a file that is damaged, truncated or in another format."""
    reason = str(error).partition("\n")[0][:200]
    return InvalidInput(f"{file} cannot be read: {reason}.", cure="Copy or fetch the file again.")


def labels_of(features: str) -> dict[str, Sequence[str]]:
    """Return column → names of classes, of the features that `datasets` writes into a table or `dataset_info.json`."""
    try:
        document: Any = json.loads(features or "{}")
    except ValueError:
        return {}
    columns = document.get("info", document).get("features", {})
    return {name: names for name, feature in columns.items() if (names := _names(feature))}


def _names(feature: object) -> Sequence[str]:
    """Return the names of a class label, also of a list of them."""
    if isinstance(feature, Sequence) and not isinstance(feature, str) and len(feature) == 1:
        return _names(feature[0])
    if not isinstance(feature, Mapping):
        return ()
    if feature.get("_type") == "ClassLabel":
        return tuple(map(str, feature.get("names") or ()))
    return _names(feature.get("feature"))
