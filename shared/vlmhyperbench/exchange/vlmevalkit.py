"""Read predictions of VLMEvalKit: the table that it writes after inference, or after evaluation, as tsv, csv or xlsx.

The format is that of `vlmeval/inference.py` and `vlmeval/smp/file.py`: pandas writes it, with an empty cell for a
missing value. A prediction is always text, so an empty cell is an empty answer. A prediction that begins with the kit's
failure message is a failed request. Scores are the numbers in the columns of `SCORES`.
"""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from vlmhyperbench.errors import InvalidInput
from vlmhyperbench.exchange.answers import AnswersFile, ImportedAnswer
from vlmhyperbench.exchange.archive import DAMAGES, open_archive
from vlmhyperbench.exchange.foreign import groups_in, listed, number_from
from vlmhyperbench.exchange.lines import head_of, not_installed, rows_of
from vlmhyperbench_sdk.types import JsonValue

FORMAT: Final = "vlmevalkit"
SCORES: Final = ("hit", "score", "eval_score", "eval_match")
FAILED: Final = "Failed to obtain answer"
"""Beginning of the kit's `FAIL_MSG`."""
MAX_CELL_CHARS: Final = 32_767
"""Maximum characters of an xlsx cell; pandas truncates longer text."""
MAX_WORKBOOK_BYTES: Final = 512 * 1024**2
"""Maximum unpacked size."""

_NOT_GROUPS: Final = frozenset(
    {
        *("index", "question", "answer", "prediction", "thinking", "image", "image_path", "image_url"),
        *("log", "hint", "extra_records", *SCORES),
    }
)
_OPTION: Final = re.compile(r"[A-Z]")
_CONTROL: Final = re.compile(r"_x(00[01][0-9A-F])_")
"""Escapes of control characters in xlsx, which openpyxl does not decode."""

_NO_WORKBOOK: Final = (*DAMAGES, LookupError, TypeError, AttributeError, SyntaxError, AssertionError)
"""Errors that openpyxl raises for malformed workbooks; XML parsers raise SyntaxError."""

Cells = Mapping[str, str | None]


def read_vlmevalkit(path: Path) -> AnswersFile:
    """Read a table of predictions.

    Raises:
        NotFound: it cannot be read.
        InvalidInput: it has no `index` or `prediction`; during iteration: a row is malformed.
    """
    reader = _Reader(path=path)
    model, dataset = _named(path)
    return AnswersFile(
        format=FORMAT,
        tool="VLMEvalKit",
        model=model,
        task=dataset,
        decoding={},
        answers=reader.answers(),
        notes=reader.notes,
    )


def delimiter_of(header: str) -> str:
    """Detect the separator of a table's cells by its first line."""
    return "\t" if "\t" in header else ","


def _named(path: Path) -> tuple[str | None, str | None]:
    """Return model and dataset: the file is `<model>_<dataset>`, and a folder above it has the model's name."""
    for folder in path.absolute().parents[:2]:
        if folder.name and path.stem.startswith(f"{folder.name}_"):
            return folder.name, path.stem.removeprefix(f"{folder.name}_")
    return None, None


@dataclass(slots=True, kw_only=True)
class _Reader:
    path: Path
    notes: list[str] = field(default_factory=list)
    cut: int = 0

    def answers(self) -> Iterator[ImportedAnswer]:
        is_workbook = head_of(self.path, 2) == b"PK"
        for location, cells in _workbook(self.path) if is_workbook else _text(self.path):
            yield _answer(cells, location)
            self.cut += is_workbook and any(text and len(text) >= MAX_CELL_CHARS for text in cells.values())
        if self.cut:
            self.notes.append(
                f"{self.cut} rows have a cell of {MAX_CELL_CHARS} characters, where xlsx truncates: write tsv instead."
            )


def _answer(cells: Cells, location: str) -> ImportedAnswer:
    key = cells["index"]
    if key is None:
        raise InvalidInput(f"{location}: the index is empty.", cure="Give every row an index.")
    prediction = cells["prediction"] or ""
    is_failed = prediction.startswith(FAILED)
    named = {name: text for name, text in cells.items() if text is not None and not _OPTION.fullmatch(name)}
    groups: dict[str, JsonValue] = {**named}
    references = cells.get("answer")
    scores = {name: number_from(cells.get(name)) for name in SCORES}
    return ImportedAnswer(
        key=key,
        question=cells.get("question"),
        references=listed(references, exact=False) if references is not None else None,
        metadata=groups_in(groups, _NOT_GROUPS),
        text=None if is_failed else prediction,
        reasoning=cells.get("thinking") or None,
        error=prediction if is_failed else None,
        reported={name: value for name, value in scores.items() if value is not None},
        location=location,
    )


def _text(path: Path) -> Iterator[tuple[str, Cells]]:
    first = head_of(path, 64 * 1024).partition(b"\n")[0].decode("utf-8", "replace")
    rows = rows_of(path, delimiter_of(first))
    line, header = next(rows, (1, []))
    names = _names([cell or "" for cell in header], f"{path}:{line}")
    for line, cells in rows:
        yield f"{path}:{line}", _row(names, cells, f"{path}:{line}")


def _names(header: list[str], location: str) -> list[str]:
    missing = [name for name in ("index", "prediction") if name not in header]
    if missing:
        raise InvalidInput(
            f"{location}: the column {missing[0]!r} is missing.", cure="Give the table that VLMEvalKit writes."
        )
    twice = [name for name in header if name and header.count(name) > 1]
    if twice:
        raise InvalidInput(f"{location}: the column {twice[0][:100]!r} comes twice.", cure="Rename one of them.")
    return header


def _row(names: list[str], cells: list[str | None], location: str) -> Cells:
    if len(cells) != len(names):
        raise InvalidInput(
            f"{location}: the row has {len(cells)} cells, and the header {len(names)}.",
            cure="Put cells that hold line ends or separators in quotes.",
        )
    return dict(zip(names, (cell or None for cell in cells), strict=True))


def _workbook(path: Path) -> Iterator[tuple[str, Cells]]:
    """Yield the rows of the first sheet."""
    with open_archive(path, max_entry_bytes=MAX_WORKBOOK_BYTES, max_total_bytes=MAX_WORKBOOK_BYTES) as archive:
        if "xl/workbook.xml" not in archive.names:
            raise InvalidInput(f"{path} is no xlsx workbook.", cure="Give the .xlsx file as VLMEvalKit wrote it.")
    names: list[str] | None = None
    for no, values in _sheet(path):
        location = f"{path}!row {no}"
        cells = [_cell(value) for value in values]
        if names is None:
            names = _names([cell or "" for cell in cells], location)
        elif any(cell is not None for cell in cells):
            yield location, _row(names, cells, location)


def _sheet(path: Path) -> Iterator[tuple[int, tuple[object, ...]]]:
    """Yield the first sheet's rows as read by openpyxl, with their row numbers."""
    try:
        import openpyxl
    except ModuleNotFoundError as error:
        raise not_installed(error) from error

    try:
        with path.open("rb") as file:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # warnings are about styles and extensions, and only values are read
                book = openpyxl.load_workbook(file, read_only=True)
            for no, row in enumerate(book.worksheets[0].iter_rows(), 1):
                yield no, tuple(map(_written, row))
    except _NO_WORKBOOK as error:
        reason = str(error).partition("\n")[0].rstrip(".")
        raise InvalidInput(
            f"{path} cannot be read as a workbook: {reason}.", cure="Copy it again, or write tsv instead."
        ) from error


def _written(cell: Any) -> object:
    """Return a cell's value; of a text that begins with `=`, the text itself and not the result of a formula."""
    value = cell.value
    return value.text if cell.data_type == "f" and hasattr(value, "text") else value


def _cell(value: object) -> str | None:
    """Return a cell as pandas would write it into a tsv."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return None
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return _CONTROL.sub(lambda match: chr(int(match[1], 16)), value) if isinstance(value, str) else str(value)
