"""Open a table: the reader of its format over the files of a split."""

from __future__ import annotations

import codecs
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from vlmhyperbench_sdk.compressed import unpacking
from vlmhyperbench_sdk.errors import InvalidInput, NotFound
from vlmhyperbench_sdk.protocols import DatasetSource
from vlmhyperbench_table_datasets.arrow_rows import ArrowTable
from vlmhyperbench_table_datasets.chain import ChainedTable
from vlmhyperbench_table_datasets.csv_rows import CsvTable
from vlmhyperbench_table_datasets.folders import Chosen, choose_files
from vlmhyperbench_table_datasets.json_rows import CocoTable, DocumentsTable
from vlmhyperbench_table_datasets.jsonl_rows import JsonlTable
from vlmhyperbench_table_datasets.parquet_rows import ParquetTable
from vlmhyperbench_table_datasets.rows import Table

FORMATS: Final[Mapping[str, str]] = {
    ".csv": "csv", ".tsv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl", ".parquet": "parquet", ".arrow": "arrow",
}  # fmt: skip
"""Suffix of a file → its format."""
_DOCUMENTS: Final = ("documents", "coco")
"""Formats of JSON files, which have to be named: `.json` alone says nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """A table, and whether its files are those of the split."""

    table: Table
    has_splits: bool


def open_table(source: DatasetSource) -> Opened:
    """Open the table that a source names.

    Raises:
        NotFound: there is no such file, split or config.
        InvalidInput: the format is not known, or a param is wrong.
    """
    path, params = source.path, source.params
    if path is None:
        raise InvalidInput("The dataset table needs a path.", cure="Name the file, or the folder with the files.")
    form = params.get("format")
    if form in _DOCUMENTS and path.is_dir():
        pattern = _text(params, "files") or "**/*.json"
        chosen = choose_files(path, split=None, config=None, pattern=pattern)
    elif path.is_dir():
        chosen = choose_files(path, split=source.split, config=_text(params, "config"), pattern=_text(params, "files"))
    elif path.is_file():
        chosen = Chosen(files=(path,), labels={}, has_splits=False)
    else:
        raise NotFound(f"{path} does not exist.", cure="Correct the path of the dataset.")
    return Opened(table=_table(chosen, path, source), has_splits=chosen.has_splits)


def _table(chosen: Chosen, path: Path, source: DatasetSource) -> Table:
    params = source.params
    root = path if path.is_dir() else path.parent
    if how := unpacking(chosen.files[0].name):
        raise InvalidInput(f"{chosen.files[0]} is compressed.", cure=how)
    form = _text(params, "format") or FORMATS.get(chosen.files[0].suffix.lower(), "")
    match form:
        case "parquet":
            return ParquetTable(files=chosen.files, root=root)
        case "arrow":
            return ArrowTable(files=chosen.files, root=root, labels=chosen.labels)
        case "jsonl":
            return ChainedTable.of([JsonlTable(file=file) for file in chosen.files])
        case "documents":
            return DocumentsTable(files=chosen.files, root=root, images=_folder(params))
        case "coco":
            tables = [CocoTable(file=file, root=root, images=_folder(params)) for file in chosen.files]
            return ChainedTable.of(tables)
        case "csv":
            separator, encoding = _text(params, "separator"), _text(params, "encoding") or "utf-8-sig"
            if separator is not None and len(separator) != 1:
                raise InvalidInput(f"params.separator: {separator!r} is not one character.", cure="Write one.")
            try:
                codecs.lookup(encoding)
            except LookupError as error:
                raise InvalidInput(f"params.encoding: {encoding!r} is not known.", cure="Write utf-8.") from error
            return ChainedTable.of(
                [CsvTable(file=file, separator=separator, encoding=encoding) for file in chosen.files]
            )
    known = ", ".join(dict.fromkeys((*FORMATS.values(), *_DOCUMENTS)))
    what = f"params.format: {form!r} is none of {known}." if form else f"{chosen.files[0]} has no known suffix."
    raise InvalidInput(what, cure=f"Set params.format to one of {known}.")


def _folder(params: Mapping[str, object]) -> str | None:
    name = _text(params, "images")
    if name is not None and (Path(name).is_absolute() or ".." in Path(name).parts):
        raise InvalidInput(f"params.images: {name!r} leads out of the folder.", cure="Name a folder inside of path.")
    return name


def _text(params: Mapping[str, object], name: str) -> str | None:
    value = params.get(name)
    if value is not None and (not isinstance(value, str) or "\0" in value):
        raise InvalidInput(f"params.{name}: {value!r} is not text.", cure="Write a text.")
    return value
