"""Read our own exports as CSV and Parquet (`as_tables`), with all answers, references, failures and ids.

CSV has a row per answer, metric, extractor and field; the rows of an answer are adjacent. The scores of the whole
answer with the run's first extractor become the scores that the file reports.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Literal

from vlmhyperbench.errors import InvalidInput
from vlmhyperbench.exchange.answers import AnswersFile, ImportedAnswer
from vlmhyperbench.exchange.answers_csv import armed
from vlmhyperbench.exchange.as_tables import BATCH_ROWS, RUN_KEY, csv_columns, parquet_schema
from vlmhyperbench.exchange.exported import failure_text
from vlmhyperbench.exchange.foreign import count_in, list_in, number_from, number_in, object_in, text_in
from vlmhyperbench.exchange.lines import head_of, not_installed, rows_of
from vlmhyperbench_sdk.jsontext import parse_json, parse_object
from vlmhyperbench_sdk.types import JsonObject

CSV: Final = "vlmhyperbench-csv"
PARQUET: Final = "vlmhyperbench-parquet"
KNOWN_BY: Final = frozenset({"run", "id", "repeat", "model_answer", "outcome", "metric", "extractor", "metadata"})
"""Columns that identify such a CSV."""
_TEXTS: Final = frozenset(
    {"id", "question", "reference", "model_answer", "error", "finish_reason", "reasoning", "field_name"}
)
_READ: Final = (
    *("key", "repeat", "question", "status", "outcome", "error_code", "error", "finish_reason", "text", "reasoning"),
    *("prompt_tokens", "completion_tokens", "latency_ms", "references", "metadata", "measures"),
)


def read_csv(path: Path) -> AnswersFile:
    """Read a CSV export.

    Raises:
        NotFound: the file cannot be read.
        InvalidInput: during iteration: it is no such export, or a row is malformed.
    """
    return AnswersFile(
        format=CSV, tool=None, model=None, task=None, decoding={}, answers=_of_rows(path, _cells(path)), notes=[]
    )


def read_parquet(path: Path) -> AnswersFile:
    """Read a Parquet export.

    Raises:
        NotFound: the file cannot be read.
        InvalidInput: it is no such export; during iteration: a row is malformed.
    """
    try:
        import polars
    except ModuleNotFoundError as error:
        raise not_installed(error) from error

    head_of(path, 1)  # raises NotFound if the file is missing
    try:
        text = polars.read_parquet_metadata(path).get(RUN_KEY)
        schema = polars.read_parquet_schema(path)
    except (polars.exceptions.PolarsError, OSError) as error:
        raise InvalidInput(f"{path} is no whole Parquet file: {str(error).splitlines()[0][:200]}.") from error
    wanted = parquet_schema()
    if text is None or any(schema.get(name) != wanted[name] for name in _READ):
        cure = "Give what `export --format parquet` wrote."
        raise InvalidInput(f"{path} is no export of a run as Parquet.", cure=cure)
    run = parse_object(text, what=f"The metadata of {path}", any_text=True)
    return AnswersFile(
        format=PARQUET,
        tool=text_in(run.get("tool")),
        model=text_in(run.get("model")),
        task=text_in(run.get("task")),
        decoding=object_in(run.get("decoding")),
        answers=_of_frames(path, next(iter(list_in(run.get("extractors"))), None)),
        notes=[],
    )


def _of_frames(path: Path, first_extractor: object) -> Iterator[ImportedAnswer]:
    import polars

    rows = polars.scan_parquet(path).select(_READ)
    for at in itertools.count(0, BATCH_ROWS):
        frame = rows.slice(at, BATCH_ROWS).collect()
        if not frame.height:
            return
        for no, row in enumerate(frame.iter_rows(named=True), at):
            yield _of_row(row, first_extractor, f"{path}!{no}")


def _of_row(row: Mapping[str, Any], first_extractor: object, location: str) -> ImportedAnswer:
    status = "the file has no answer" if row["status"] == "ok" else str(row["status"])
    failed = failure_text(row["error_code"], row["error"]) or status
    whole = [measure for measure in row["measures"] or () if measure and measure["field"] is None]
    return ImportedAnswer(
        key=_key(row["key"], location),
        repeat=_repeat(row["repeat"], location),
        question=row["question"],
        references=tuple(reference for reference in row["references"] or () if reference is not None),
        metadata=_metadata(row["metadata"], location),
        text=row["text"] if row["status"] == "ok" else None,
        reasoning=row["reasoning"],
        error=_error(row["text"] if row["status"] == "ok" else None, failed),
        failure=_failure(row["outcome"]) if row["status"] != "ok" else None,
        finish_reason=row["finish_reason"],
        prompt_tokens=count_in(row["prompt_tokens"]),
        completion_tokens=count_in(row["completion_tokens"]),
        latency_ms=_positive(number_in(row["latency_ms"])),
        reported={
            str(measure["key"]): number
            for measure in whole
            if measure["extractor"] == first_extractor and (number := number_in(measure["value"])) is not None
        },
        location=location,
    )


def _cells(path: Path) -> Iterator[tuple[int, dict[str, str | None]]]:
    """Yield the rows by column, without the apostrophes of the writer."""
    rows = rows_of(path, ";")
    line, header = next(rows, (1, []))
    names = [cell or "" for cell in header]
    if tuple(names) != csv_columns():
        raise InvalidInput(f"{path}:{line}: the columns are not those of an export.", cure="Export the run again.")
    while batch := list(itertools.islice(rows, BATCH_ROWS)):
        for number, cells in batch:
            if len(cells) != len(names):
                raise InvalidInput(f"{path}:{number}: the row has {len(cells)} cells, and the header {len(names)}.")
        columns = [list(column) for column in zip(*(cells for _, cells in batch), strict=True)]
        columns = [armed(column)[0] if name in _TEXTS else column for name, column in zip(names, columns, strict=True)]
        for at, (number, _) in enumerate(batch):
            yield number, {name: column[at] for name, column in zip(names, columns, strict=True)}


def _of_rows(path: Path, rows: Iterator[tuple[int, dict[str, str | None]]]) -> Iterator[ImportedAnswer]:
    first_extractor: str | None = None
    for _, group in itertools.groupby(rows, key=lambda row: (row[1]["id"], row[1]["repeat"])):
        ours = list(group)
        first_extractor = first_extractor or next((cells["extractor"] for _, cells in ours if cells["extractor"]), None)
        yield _of_group([cells for _, cells in ours], first_extractor, f"{path}:{ours[0][0]}")


def _of_group(rows: Sequence[dict[str, str | None]], first_extractor: str | None, location: str) -> ImportedAnswer:
    cells = rows[0]
    is_ok = cells["status"] == "ok"
    return ImportedAnswer(
        key=_key(cells["id"], location),
        repeat=_repeat(number_from(cells["repeat"]), location),
        question=cells["question"],
        references=_references(cells["reference"], location),
        metadata=_metadata(cells["metadata"], location),
        text=cells["model_answer"] if is_ok else None,
        reasoning=cells["reasoning"],
        error=_error(cells["model_answer"] if is_ok else None, cells["error"] or str(cells["status"])),
        failure=None if is_ok else _failure(cells["outcome"]),
        finish_reason=cells["finish_reason"],
        prompt_tokens=count_in(number_from(cells["prompt_tokens"])),
        completion_tokens=count_in(number_from(cells["completion_tokens"])),
        latency_ms=_positive(number_from(cells["latency_ms"])),
        reported=_reported([row for row in rows if row["extractor"] == first_extractor and row["field_name"] is None]),
        location=location,
    )


def _reported(rows: Sequence[dict[str, str | None]]) -> dict[str, float]:
    """Name scores as in reports: with the profile, if a metric occurs in two profiles."""
    often = Counter(row["metric"] for row in rows)
    named = ((row["metric"] if often[row["metric"]] == 1 else f"{row['metric']}@{row['profile']}", row) for row in rows)
    return {name: value for name, row in named if name is not None and (value := number_from(row["value"])) is not None}


def _references(cell: str | None, location: str) -> tuple[str, ...]:
    if cell is None:
        return ()
    if not cell.startswith("["):
        return (cell,)
    references = parse_json(cell, what=f"{location}: the reference", any_text=True)
    return tuple(map(str, list_in(references)))


def _metadata(text: str | None, location: str) -> JsonObject:
    return parse_object(text, what=f"{location}: the metadata", any_text=True) if text else {}


def _error(text: str | None, message: str) -> str | None:
    return message if text is None else None


def _failure(outcome: str | None) -> Literal["model", "infrastructure"]:
    return "model" if outcome == "model_failure" else "infrastructure"


def _positive(value: float | None) -> float | None:
    return value if value is not None and value >= 0 else None


def _key(key: str | None, location: str) -> str:
    if key is None:
        raise InvalidInput(f"{location}: the id is empty.", cure="Give every row an id.")
    return key


def _repeat(value: float | None, location: str) -> int:
    repeat = count_in(value)
    if repeat is None:
        raise InvalidInput(f"{location}: the repeat is no whole number from 0.", cure="Export the run again.")
    return repeat
