"""The dataset `annotation_csv`: questions and answers in a CSV, images in files of the same folder.

The file is UTF-8, with or without BOM, separated by `;`, `,` or tabs, with the columns `question` and `answer`, and
optionally `image_path` (or `image`), `data_index`, `split`, `doc_class`, `question_type` and `answer_bbox`. Columns of
any other name are metadata.
"""

from __future__ import annotations

import csv
import difflib
import json
import math
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from vlmhyperbench_document_datasets.params import refuse, unknown_params
from vlmhyperbench_sdk.errors import InvalidInput, NotFound
from vlmhyperbench_sdk.protocols import DatasetSource
from vlmhyperbench_sdk.types import Image, JsonValue, Sample

FILE_NAME = "annotation.csv"
REQUIRED = ("question", "answer")
IMAGE = ("image_path", "image")
"""Accepted names of the column of images."""
OPTIONAL = ("data_index", "split", "doc_class", "question_type", "answer_bbox")
SEPARATORS = (";", ",", "\t")
_CONTROLS = frozenset({"Cc", "Cs", "Zl", "Zp"})
"""Categories of Unicode that no name of a column has: controls, unpaired surrogates, separators of lines."""
MAX_ERRORS = 20
"""Maximum number of wrong lines that are listed; further ones are counted."""


@dataclass(frozen=True, slots=True)
class _Row:
    number: int
    """Number of the row in the file, from 0, including rows of other splits: the sample's key."""
    cells: dict[str, str]


class AnnotationCsv:
    """Yield one sample per row; its key is the number of the row in the file, from 0, for any split.

    `path` is the CSV or the folder that contains `annotation.csv`; image paths are relative to that folder, and a row
    without an image is a question on text only. The whole file is checked before the first sample. Images are not
    checked: the platform makes a sample with a missing or broken image an error and continues. All other columns are
    metadata, if the cell is not empty; `answer_bbox` is parsed if it is JSON.
    """

    def __init__(self, source: DatasetSource) -> None:
        problems = unknown_params(source.params, ())
        if source.revision is not None:
            problems.append("revision: a file has none; the images and the file are what they are.")
        refuse("annotation_csv", problems)
        self._file = _find(source.path)
        self._split = source.split
        splits: set[str] = set()
        has_row = False
        for row in _read(self._file):
            splits.add(row.cells.get("split", ""))
            has_row = has_row or self._takes(row)
        if not has_row:
            raise InvalidInput(f"{self._file} has no row{_of_split(self._split)}.", cure=_known_splits(splits))

    def __iter__(self) -> Iterator[Sample]:
        return (_sample_of(row, self._file.parent) for row in _read(self._file) if self._takes(row))

    def _takes(self, row: _Row) -> bool:
        return self._split is None or row.cells.get("split", "") == self._split


def _find(path: Path | None) -> Path:
    if path is None:
        raise InvalidInput("The dataset annotation_csv needs a path.", cure="Name the CSV, or the folder it is in.")
    file = path / FILE_NAME if path.is_dir() else path
    if not file.is_file():
        raise NotFound(f"{file} is not a file.", cure=f"Give the path of the CSV, or of the folder with {FILE_NAME}.")
    return file


def _read(file: Path) -> Iterator[_Row]:
    """Yield the rows of a file, and raise at its end if any line was wrong.

    Raises:
        InvalidInput: columns are missing, or lines are malformed; the message lists them.
    """
    problems: list[str] = []
    with file.open(encoding="utf-8-sig", newline="") as lines:
        line = 1
        """First line of the row; after a quote that is never closed the reader is much further."""
        try:
            reader = csv.reader(lines, delimiter=_separator(lines), strict=True)
            header = next(reader, [])
            _check_header(file, header)
            line, number = reader.line_num + 1, 0
            for cells in reader:
                if wrong := _wrong_with(cells, header):
                    problems.append(f"{file}:{line}: {wrong}.")
                elif cells:
                    yield _Row(number, dict(zip(header, cells, strict=True)))
                line, number = reader.line_num + 1, number + bool(cells)
        except UnicodeDecodeError as error:
            raise InvalidInput(f"{file}:{_not_utf8(file)}: it is not UTF-8.", cure="Save it as UTF-8.") from error
        except csv.Error as error:
            raise InvalidInput(f"{file}:{line}: {error}.", cure="Correct the quotes of this row.") from error
    if problems:
        more = f"\n… and {len(problems) - MAX_ERRORS} more." if len(problems) > MAX_ERRORS else ""
        raise InvalidInput("\n".join(problems[:MAX_ERRORS]) + more, cure="Correct these lines.")


def _separator(lines: IO[str]) -> str:
    """Return the separator with which the first line has the most known columns."""
    first = lines.readline()
    lines.seek(0)
    known = {*REQUIRED, *IMAGE, *OPTIONAL}
    return max(
        SEPARATORS, key=lambda separator: len(known & {name.strip('"') for name in first.strip().split(separator)})
    )


def _not_utf8(file: Path) -> int:
    """Return the number of the first line, from 1, that is not UTF-8."""
    with file.open("rb") as lines:
        return next(no for no, line in enumerate(lines, 1) if line.decode(errors="ignore").encode() != line)


def _check_header(file: Path, header: list[str]) -> None:
    problems = []
    for name in REQUIRED:
        if name not in header:
            near = difflib.get_close_matches(name, header, n=1)
            problems.append(f"the column {name} is missing" + (f" (is it {near[0]!r}?)" if near else ""))
    if set(IMAGE) <= set(header):
        problems.append(f"the columns {' and '.join(IMAGE)} are one and the same")
    known = (*REQUIRED, *IMAGE, *OPTIONAL)
    for name in dict.fromkeys(header):
        near = difflib.get_close_matches(name, known, n=1, cutoff=0.8) if name not in known else []
        if near and near[0] not in header:
            problems.append(f"the column {name!r} is not known (did you mean {near[0]}?)")
        if any(unicodedata.category(character) in _CONTROLS for character in name):
            problems.append(f"the column {name!r} has a control character")
        if not name.strip():
            problems.append("a column has no name")
        if header.count(name) > 1:
            problems.append(f"the column {name!r} comes twice")
    if problems:
        raise InvalidInput(
            f"{file}:1: {'; '.join(problems)}.",
            cure=f"The first line names the columns, separated by `;`, `,` or tabs: {', '.join(known)}, and your own.",
        )


def _wrong_with(cells: list[str], header: list[str]) -> str:
    if cells and len(cells) != len(header):
        return f"{len(cells)} cells instead of {len(header)}"
    if any("\0" in cell for cell in cells):
        return "a cell holds a NUL character"
    if cells and not any(cells[header.index(name)].strip() for name in ("question", *IMAGE) if name in header):
        return "there is neither a question nor an image"
    return ""


def _sample_of(row: _Row, folder: Path) -> Sample:
    cells = row.cells
    metadata: dict[str, JsonValue] = {
        name: cell for name, cell in cells.items() if cell and name not in (*REQUIRED, *IMAGE)
    }
    image = next((cells[name] for name in IMAGE if cells.get(name)), "")
    if "answer_bbox" in metadata:
        metadata["answer_bbox"] = _as_json(cells["answer_bbox"])
    return Sample(
        key=str(row.number),
        question=cells["question"],
        images=(Image.at(image, folder),) if image else (),
        references=(cells["answer"],) if cells["answer"].strip() else (),
        metadata=metadata,
    )


def _as_json(text: str) -> JsonValue:
    try:
        value: JsonValue = json.loads(text, parse_constant=_refuse_constant, parse_float=_finite)
    except (ValueError, RecursionError):
        return text
    return value


def _refuse_constant(name: str) -> JsonValue:
    raise ValueError(name)


def _finite(text: str) -> float:
    """Parse a number; a number out of a float's range is refused, as by JSON."""
    value = float(text)
    if math.isinf(value):
        raise ValueError(text)
    return value


def _of_split(split: str | None) -> str:
    return "" if split is None else f" of the split {split!r}"


def _known_splits(splits: set[str]) -> str:
    named = sorted(splits - {""})
    return f"It has the splits {', '.join(named)}." if named else "Add rows below the header, one for each question."
