"""Rows of a CSV, whatever its separator is; a broken row is named by its line, and the rows after it are read."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

from vlmhyperbench_sdk.errors import InvalidInput
from vlmhyperbench_table_datasets.rows import Facts, Row, RowError

SEPARATORS: Final = (";", ",", "\t", "|")
MAX_CELL_CHARS: Final = 256 * 1024**2
"""Bound of a cell, which may hold an image in base64."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CsvTable:
    """A CSV with a header."""

    file: Path
    separator: str | None = None
    """None: the one of `SEPARATORS` that is most frequent in the header."""
    encoding: str = "utf-8-sig"

    @property
    def root(self) -> Path:
        return self.file.parent

    @property
    def name(self) -> str:
        return str(self.file)

    def facts(self) -> Facts:
        with self._opened() as lines:
            return Facts(columns=tuple(self._header(lines.readline())))

    def rows(self, columns: Collection[str] | None = None) -> Iterator[Row | RowError]:  # noqa: ARG002 - a line is read whole
        previous = csv.field_size_limit(MAX_CELL_CHARS)
        try:
            with self._opened() as lines:
                header = self._header(first := lines.readline())
                reader = csv.reader(lines, delimiter=self._separator(first), strict=True)
                yield from self._body(reader, header)
        finally:
            csv.field_size_limit(previous)

    @contextmanager
    def _opened(self) -> Iterator[IO[str]]:
        """Open the file; a line in another encoding is named, wherever it is met."""
        try:
            with self.file.open(encoding=self.encoding, newline="") as lines:
                yield lines
        except UnicodeDecodeError as error:
            message = (
                f"{self.file}:{_undecodable(self.file, self.encoding)}: it is not in the encoding {self.encoding}."
            )
            raise InvalidInput(message, cure="Save the whole file as UTF-8, or set params.encoding.") from error

    def _body(self, reader: Iterator[list[str]], header: list[str]) -> Iterator[Row | RowError]:
        number, line = 0, 2
        width = len(header)
        while True:
            location = f"{self.file}:{line}"
            try:
                cells = next(reader, None)
            except csv.Error as error:
                yield RowError(location, f"{error}: correct the quotes of this row")
                number, line = number + 1, 1 + reader.line_num + 1  # type: ignore[attr-defined]  # a csv.reader
                continue
            if cells is None:
                return
            if len(cells) == width:
                # An empty cell is no value, as a null is none: no answer, and no choice.
                yield Row(number, dict(zip(header, (cell or None for cell in cells))), location)  # noqa: B905 - as above
            elif cells:
                yield RowError(location, f"{len(cells)} cells instead of {width}")
            number, line = number + bool(cells), 1 + reader.line_num + 1  # type: ignore[attr-defined]

    def _header(self, first: str) -> list[str]:
        names = next(csv.reader([first], delimiter=self._separator(first)), [])
        problems = [f"the column {name!r} comes twice" for name, count in Counter(names).items() if count > 1]
        problems += ["a column has no name"] * any(not name.strip() for name in names)
        problems += ["the name of a column has a NUL"] * any("\0" in name for name in names)
        problems += ["there is no header"] * (not names)
        if problems:
            raise InvalidInput(
                f"{self.file}:1: {'; '.join(problems)}.", cure="The first line names the columns; correct it."
            )
        return names

    def _separator(self, first: str) -> str:
        return self.separator or max(SEPARATORS, key=first.count)


def _undecodable(file: Path, encoding: str) -> int:
    """Return the number of the first line, from 1, that cannot be decoded."""
    with file.open("rb") as lines:
        return next((number for number, line in enumerate(lines, 1) if not _is_in(encoding, line)), 1)


def _is_in(encoding: str, line: bytes) -> bool:
    try:
        line.decode(encoding)
    except UnicodeDecodeError:
        return False
    return True
