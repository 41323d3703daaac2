"""Read other tools' text files line by line: bounded, strictly UTF-8, with line numbers in all errors."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from vlmhyperbench import extras
from vlmhyperbench.errors import InvalidInput, NotFound, Unavailable

MAX_LINE_BYTES = 64 * 1024 * 1024
"""Maximum size of a line and of a table row, which are held in memory as a whole."""
_UTF16 = (b"\xff\xfe", b"\xfe\xff")
_BOM = b"\xef\xbb\xbf"


def head_of(path: Path, size: int) -> bytes:
    """Return the first bytes of a file.

    Raises:
        NotFound: it cannot be read.
    """
    try:
        with path.open("rb") as file:
            return file.read(size)
    except OSError as error:
        raise cannot_read(path, error) from error


def lines_of(path: Path) -> Iterator[tuple[int, str]]:
    """Yield every line with its number, from 1, and its line end; a BOM is left out.

    Raises:
        NotFound: the file cannot be read.
        InvalidInput: it is not UTF-8, or a line is too long.
    """
    try:
        with path.open("rb") as file:
            number = 0
            while line := file.readline(MAX_LINE_BYTES + 1):
                number += 1
                if len(line) > MAX_LINE_BYTES:
                    raise InvalidInput(
                        f"{path}:{number}: the line is longer than {MAX_LINE_BYTES:,} bytes.",
                        cure="Give the file as its tool wrote it, with one answer on each line.",
                    )
                yield number, _decoded(line.removeprefix(_BOM) if number == 1 else line, path, number)
    except OSError as error:
        raise cannot_read(path, error) from error


def rows_of(path: Path, delimiter: str) -> Iterator[tuple[int, list[str | None]]]:
    """Yield every row of a table with the number of its first line; a quoted cell may contain line ends.

    Quotes are doubled inside quotes (RFC 4180). An empty cell is None; a quoted empty cell is an empty text. Blank
    lines between rows are skipped.

    Raises:
        NotFound: the file cannot be read.
        InvalidInput: it is not UTF-8, or a quote is wrong.
    """
    pending: list[str] = []
    begins = size = 0
    is_open = False
    for number, line in lines_of(path):
        if not pending:
            begins, size = number, 0
        pending.append(line)
        size += len(line)
        is_open ^= line.count('"') % 2 == 1
        if not is_open:
            row = "".join(pending)
            pending.clear()
            if row.strip("\r\n"):
                yield begins, _cells(row, delimiter, f"{path}:{begins}")
        elif size > MAX_LINE_BYTES:
            raise _never_closed(f"{path}:{begins}")
    if pending:
        raise _never_closed(f"{path}:{begins}")


def cannot_read(path: Path, error: OSError) -> NotFound:
    """Return the error for a file that cannot be read."""
    return NotFound(f"{path} cannot be read: {error.strerror or error}.", cure="Correct the path.")


def not_installed(error: ModuleNotFoundError) -> Unavailable:
    """Return the error for a missing library that reading needs."""
    return extras.not_installed(error, "Reading this file", extra="exchange")


def _decoded(line: bytes, path: Path, number: int) -> str:
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError as error:
        what = "UTF-16" if number == 1 and line.startswith(_UTF16) else f"not UTF-8: {error.reason}"
        raise InvalidInput(f"{path}:{number}: the text is {what}.", cure="Save it as UTF-8.") from error


def _cells(row: str, delimiter: str, location: str) -> list[str | None]:
    row = row.removesuffix("\n").removesuffix("\r")
    cells: list[str | None] = []
    at = 0
    while True:
        if row.startswith('"', at):
            text, at = _quoted(row, at + 1, location)
            cells.append(text)
        else:
            end = row.find(delimiter, at)
            end = len(row) if end < 0 else end
            text = row[at:end]
            if '"' in text:
                raise InvalidInput(f"{location}: a quote stands inside a cell without quotes.", cure=_QUOTES)
            cells.append(text or None)
            at = end
        if at == len(row):
            return cells
        if row[at] != delimiter:
            raise InvalidInput(f"{location}: text follows the closing quote of a cell.", cure=_QUOTES)
        at += 1


_QUOTES = "Put such a cell in quotes, and double the quotes inside."


def _quoted(row: str, at: int, location: str) -> tuple[str, int]:
    """Return the text of a quoted cell, and the position at which the row continues."""
    parts = []
    while True:
        end = row.find('"', at)
        if end < 0:
            raise _never_closed(location)
        parts.append(row[at:end])
        if not row.startswith('"', end + 1):
            return '"'.join(parts), end + 1
        at = end + 2


def _never_closed(location: str) -> InvalidInput:
    return InvalidInput(
        f"{location}: a quote of the row that begins here is never closed.",
        cure="Close the quote; if the file was cut off, copy it again.",
    )
