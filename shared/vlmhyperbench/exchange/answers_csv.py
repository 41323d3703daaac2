"""Read our `answers.csv`: `;` separated, at least `id` and `model_answer`; questions and references are not in it.

An empty cell is a missing value; a quoted empty cell is an empty text. The writer puts an apostrophe before text that a
spreadsheet would run (`reports.writers.tables`), also if that text begins with apostrophes of its own. This apostrophe
is removed. A file of another writer has none, so a note says how many were removed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Final

from vlmhyperbench.errors import InvalidInput
from vlmhyperbench.exchange.answers import AnswersFile, ImportedAnswer
from vlmhyperbench.exchange.foreign import count_in, number_from
from vlmhyperbench.exchange.lines import not_installed, rows_of

FORMAT: Final = "answers-csv"
REQUIRED: Final = ("id", "model_answer")
DISARMED: Final = r"^''*[=+\-@＝＋－＠[[\p{C}\p{Z}]--\x20]]"
"""The writer's pattern, after its apostrophe."""
KNOWN: Final = frozenset(
    {
        *REQUIRED,
        *("status", "finish_reason", "error", "attempts", "prompt_tokens", "completion_tokens", "latency_ms"),
        *("ttft_ms", "tpot_ms", "vram_peak_mb", "vram_delta_mb", "prompt_sha256", "started_at", "repeat"),
    }
)
_BATCH_ROWS: Final = 1000
_TEXTS: Final = ("id", "model_answer", "status", "finish_reason", "error")


def read_answers_csv(path: Path) -> AnswersFile:
    """Read answers.

    Raises:
        NotFound: the file cannot be read.
        InvalidInput: during iteration: columns are missing or unknown, or a row is malformed.
    """
    reader = _Reader(path=path)
    return AnswersFile(
        format=FORMAT,
        tool=None,
        model=None,
        task=None,
        decoding={},
        answers=reader.answers(),
        notes=reader.notes,
    )


@dataclass(slots=True, kw_only=True)
class _Reader:
    path: Path
    notes: list[str] = field(default_factory=list)
    armed: int = 0

    def answers(self) -> Iterator[ImportedAnswer]:
        rows = rows_of(self.path, ";")
        line, header = next(rows, (1, []))
        names = [cell or "" for cell in header]
        self._check(names, line)
        while batch := list(islice(rows, _BATCH_ROWS)):
            yield from self._of(names, batch)
        if self.armed:
            self.notes.append(f"Apostrophes before text that a spreadsheet would run were removed: {self.armed}.")

    def _check(self, names: list[str], line: int) -> None:
        problems = [f"the column {name!r} is missing" for name in REQUIRED if name not in names]
        problems += [f"the column {name[:100]!r} is not known" for name in names if name not in KNOWN]
        problems += [f"the column {name!r} comes twice" for name in sorted(KNOWN) if names.count(name) > 1]
        if problems:
            raise InvalidInput(
                f"{self.path}:{line}: {'; '.join(problems)}.",
                cure="Give an answers.csv of a report, as it was written.",
            )

    def _of(self, names: list[str], batch: list[tuple[int, list[str | None]]]) -> Iterator[ImportedAnswer]:
        columns: dict[str, list[str | None]] = {name: [] for name in names}
        for line, cells in batch:
            if len(cells) != len(names):
                raise InvalidInput(
                    f"{self.path}:{line}: the row has {len(cells)} cells, and the header {len(names)}.",
                    cure="Put answers that hold line ends or `;` in quotes.",
                )
            for name, cell in zip(names, cells, strict=True):
                columns[name].append(cell)
        for name in _TEXTS:
            if name in columns:
                columns[name], count = armed(columns[name])
                self.armed += count
        for no, (line, _) in enumerate(batch):
            yield _answer({name: column[no] for name, column in columns.items()}, f"{self.path}:{line}")


def armed(texts: list[str | None]) -> tuple[list[str | None], int]:
    """Remove the writer's apostrophes; return the texts and how many of them had one."""
    try:
        import polars
    except ModuleNotFoundError as error:
        raise not_installed(error) from error

    column = polars.Series(texts, dtype=polars.String)
    is_disarmed = column.str.contains(DISARMED).to_list()
    original = [text[1:] if text and disarmed else text for text, disarmed in zip(texts, is_disarmed, strict=True)]
    return original, sum(map(bool, is_disarmed))


def _answer(cells: dict[str, str | None], location: str) -> ImportedAnswer:
    key, text, status = cells["id"], cells["model_answer"], cells.get("status")
    if key is None:
        raise InvalidInput(f"{location}: the id is empty.", cure="Give every row an id.")
    error = cells.get("error")
    if text is None or status not in (None, "ok"):
        error = error or (f"status {status}" if status else "the file holds no answer")
        text = None  # a failed request may have left a part of an answer
    return ImportedAnswer(
        key=key,
        repeat=_count(cells, "repeat", location) or 0,
        text=text,
        error=error,
        finish_reason=cells.get("finish_reason"),
        prompt_tokens=_count(cells, "prompt_tokens", location),
        completion_tokens=_count(cells, "completion_tokens", location),
        latency_ms=_number(cells, "latency_ms", location),
        location=location,
    )


def _number(cells: dict[str, str | None], name: str, location: str) -> float | None:
    cell = cells.get(name)
    if cell is None:
        return None
    value = number_from(cell)
    if value is None or value < 0:
        raise InvalidInput(
            f"{location}: {name} is no number: {cell[:40]!r}.", cure="Correct it, or leave the cell empty."
        )
    return value


def _count(cells: dict[str, str | None], name: str, location: str) -> int | None:
    value = _number(cells, name, location)
    count = count_in(value)
    if value is not None and count is None:
        raise InvalidInput(f"{location}: {name} is no whole number.", cure="Correct it, or leave the cell empty.")
    return count
