"""Read tables of the first version, `user_config.csv` and `vlm_base.csv`: rows of named cells with their lines."""

from __future__ import annotations

import ast
import csv
import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from vlmhyperbench.registry.documents import MAX_BYTES
from vlmhyperbench.registry.errors import RegistryError
from vlmhyperbench_sdk.suggestions import did_you_mean

SEPARATOR: Final = ";"
CONFIG_COLUMNS: Final = (
    *("dataset", "task", "framework", "model_name", "system_prompt", "prompt_collection", "metrics"),
    *("only_evaluate_metrics", "metrics_aggregators", "filter_doc_class", "filter_question_type"),
)
CONFIG_REQUIRED: Final = ("dataset", "task", "framework", "model_name", "metrics")
BASE_COLUMNS: Final = (
    *("framework", "model_family", "model_name", "docker_image", "git_python_package", "python_package"),
    *("module", "class_name"),
)
BASE_REQUIRED: Final = ("framework", "model_name")
PROMPT_COLUMNS: Final = ("prompt", "doc_class_question_type")
DEPRECATED: Final[Mapping[str, str]] = {"ml_task": "task"}
"""Deprecated name of a column → its name."""
Refuse = Callable[[int, str, str], None]
"""Adds an error: its line, message and cure."""
_EMPTY: Final = frozenset({"", "None", "[]", "()", "nan"})
"""Cells without a value; pandas, with which such tables were written, writes `nan`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LegacyRow:
    """A row of a table."""

    cells: Mapping[str, str]
    file: Path
    line: int

    def text(self, column: str) -> str:
        """Return a cell, or empty text for one without a value."""
        cell = self.cells.get(column, "").strip()
        return "" if cell in _EMPTY else cell

    def list_of(self, column: str) -> tuple[str, ...]:
        """Return the items of a cell: a list as a literal of Python, or one text without brackets.

        Raises:
            ValueError: it begins like a list, and is none of texts.
        """
        cell = self.text(column)
        if not cell or cell[0] not in "[(\"'":
            return (cell,) if cell else ()
        try:
            value = ast.literal_eval(cell)
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            raise ValueError(cell) from error
        items = [value] if isinstance(value, str) else value
        if not isinstance(items, list | tuple) or not all(isinstance(item, str) and item.strip() for item in items):
            raise ValueError(cell)
        return tuple(item.strip() for item in items)

    def error(self, column: str, message: str, cure: str) -> RegistryError:
        """Return an error in a cell."""
        return RegistryError(file=str(self.file), line=self.line, field=column, message=message, cure=cure)


def is_file(path: Path) -> bool:
    """Return whether a path of a cell is a file; what is too long for a path is none."""
    try:
        return path.is_file()
    except OSError:
        return False


def read_rows(
    file: Path, columns: Sequence[str], required: Sequence[str], errors: list[RegistryError], warnings: list[str]
) -> list[LegacyRow]:
    """Read a table; what is wrong with it is added to the errors."""

    def refuse(line: int, message: str, cure: str) -> None:
        errors.append(RegistryError(file=str(file), line=line, message=message, cure=cure))

    try:
        data = file.read_bytes()
    except OSError as error:
        refuse(1, f"It cannot be read: {error.strerror}.", "Correct the path, or its permissions.")
        return []
    if len(data) > MAX_BYTES:
        refuse(1, f"It is larger than {MAX_BYTES:,} bytes.", "Split it into several files.")
        return []
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        refuse(data[: error.start].count(b"\n") + 1, "It is not UTF-8.", "Save it as UTF-8.")
        return []
    if "\0" in text:
        refuse(text[: text.index("\0")].count("\n") + 1, "It has a NUL character.", "Remove it.")
        return []
    return list(_rows(file, text, columns, required, refuse, warnings))


def _rows(
    file: Path,
    text: str,
    columns: Sequence[str],
    required: Sequence[str],
    refuse: Refuse,
    warnings: list[str],
) -> Iterator[LegacyRow]:
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=SEPARATOR, strict=True)
    line, header = 1, list[str]()
    try:
        header = [name.strip() for name in next(reader, [])]
        for old, new in DEPRECATED.items():
            if old in header and new in columns and new not in header:
                warnings.append(f"{file}:1: {old} is the deprecated name of {new}. Write {new}.")
                header[header.index(old)] = new
        if not _is_header_right(header, columns, required, refuse):
            return
        line = reader.line_num + 1
        for cells in reader:
            if cells and len(cells) != len(header):
                refuse(line, f"{len(cells)} cells instead of {len(header)}.", "Correct the row.")
            elif any(cell.strip() for cell in cells):
                yield LegacyRow(cells=dict(zip(header, cells, strict=True)), file=file, line=line)
            line = reader.line_num + 1
    except csv.Error as error:
        refuse(line, f"{error}.", "Correct the quotes of this row.")


def _is_header_right(header: Sequence[str], columns: Sequence[str], required: Sequence[str], refuse: Refuse) -> bool:
    missing = [name for name in required if name not in header]
    unknown = [name for name in dict.fromkeys(header) if name not in columns]
    twice = [name for name in dict.fromkeys(header) if header.count(name) > 1]
    for name in unknown:
        refuse(1, f"There is no column {name!r}.", did_you_mean(name, columns))
    for name in twice:
        refuse(1, f"The column {name!r} comes twice.", "Remove one of them.")
    if missing:
        cure = f"The first line names the columns, separated by `{SEPARATOR}`: {SEPARATOR.join(columns)}."
        refuse(1, f"The columns {', '.join(missing)} are missing.", cure)
    return not (missing or unknown or twice)
