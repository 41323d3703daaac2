"""Rows of JSONL: one JSON object on each line."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

from vlmhyperbench_table_datasets.json_text import NoJson, parse
from vlmhyperbench_table_datasets.rows import Facts, Row, RowError


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonlTable:
    """A file with one object on each line; empty lines are skipped."""

    file: Path

    @property
    def root(self) -> Path:
        return self.file.parent

    @property
    def name(self) -> str:
        return str(self.file)

    def facts(self) -> Facts:
        return Facts()

    def rows(self, columns: Collection[str] | None = None) -> Iterator[Row | RowError]:  # noqa: ARG002 - a line is read whole
        number = 0
        with self.file.open("rb") as lines:
            for line, raw in enumerate(lines, 1):
                location = f"{self.file}:{line}"
                try:
                    text = raw.decode("utf-8-sig" if line == 1 else "utf-8")
                    if not text.strip():
                        continue
                    cells = parse(text)
                except UnicodeDecodeError:
                    yield RowError(location, "it is not UTF-8")
                except NoJson as error:
                    yield RowError(location, str(error))
                else:
                    if isinstance(cells, dict):
                        yield Row(number, cells, location)
                    else:
                        yield RowError(location, "it is no JSON object")
                number += 1
