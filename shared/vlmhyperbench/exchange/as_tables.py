"""Write a run as tables: Parquet with one typed row per request, CSV with one row per answer, metric and extractor."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Final

from vlmhyperbench.exchange.as_jsonl import run_fields
from vlmhyperbench.exchange.exported import ExportedRun, ExportedSample
from vlmhyperbench.exchange.staging import Staging
from vlmhyperbench_sdk.types import JsonObject

if TYPE_CHECKING:
    import polars

RUN_KEY: Final = "vlmhyperbench.run"
"""Metadata key of the Parquet file under which the run is stored as JSON."""
BATCH_ROWS: Final = 2_000
"""Number of requests that are held in memory at once."""
_GROUP_ROWS: Final = 10_000
"""Rows per row group of the Parquet file; without an explicit number, batches accumulate in memory."""

_GROUPS: Final = ("doc_class", "question_type")
_OF_SAMPLE: Final = (
    *("phase", "ordinal", "sample", "repeat", "key", "question", "system_prompt", "user_prompt", "status", "outcome"),
    *("error_code", "error", "finish_reason", "text", "reasoning", "prompt_tokens", "completion_tokens"),
    *("ttft_ms", "tpot_ms", "latency_ms"),
)
_WHOLE_NUMBERS: Final = frozenset({"phase", "ordinal", "sample", "repeat", "prompt_tokens", "completion_tokens"})
_OF_MEASURE: Final = ("metric", "profile", "version", "extractor", "field", "value", "outcome", "reason")


def write_parquet(run: ExportedRun, samples: Iterable[ExportedSample], *, out: Path, staging: Staging) -> None:
    """Write one file at `out`; the run's header is JSON in its metadata.

    Each batch is written to a file of its own, and the files are joined in one pass, so that memory stays bounded.
    """
    import polars

    parts = []
    for batch in _batches(samples):
        parts.append(staging.scratch(out))
        polars.DataFrame([_row(sample) for sample in batch], schema=parquet_schema()).write_parquet(parts[-1])
    header = json.dumps(run_fields(run), ensure_ascii=False, allow_nan=False)
    polars.scan_parquet(parts).sink_parquet(
        staging.file(out),
        compression="zstd",
        metadata={RUN_KEY: header},
        maintain_order=True,
        row_group_size=_GROUP_ROWS,
    )


def write_csv(run: ExportedRun, samples: Iterable[ExportedSample], *, out: Path, staging: Staging) -> None:
    """Write one `;` separated file to `out`; text that a spreadsheet would run is disarmed as in our reports.

    A request without measures has one row without a metric.
    """
    import polars

    from vlmhyperbench.reports.writers.tables import csv_rows

    schema = _csv_schema()
    with staging.file(out).open("wb") as file:
        file.write((";".join(schema) + "\n").encode())
        for batch in _batches(samples):
            rows = [row for sample in batch for row in _csv_rows(run, sample)]
            file.write(csv_rows(polars.DataFrame(rows, schema=schema, orient="row")))


def parquet_schema() -> polars.Schema:
    """Return the columns of the Parquet file."""
    import polars

    texts = polars.String()
    example = {"key": texts, "user_prompt": texts, "images": polars.List(texts), "answer": texts}
    measure = {
        **{name: polars.Float64() if name == "value" else polars.String() for name in ("key", *_OF_MEASURE)},
        "is_invalid": polars.Boolean(),
        "evaluation_id": polars.String(),
    }
    return polars.Schema(
        {
            **{name: _type(name) for name in _OF_SAMPLE},
            "references": polars.List(polars.String()),
            "images": polars.List(polars.String()),
            "examples": polars.List(polars.Struct(example)),
            "metadata": polars.String(),
            "parsed": polars.List(polars.Struct({"extractor": polars.String(), "text": polars.String()})),
            "measures": polars.List(polars.Struct(measure)),
        }
    )


def _type(name: str) -> polars.DataType:
    import polars

    if name in _WHOLE_NUMBERS:
        return polars.Int64()
    return polars.Float64() if name.endswith("_ms") else polars.String()


def _row(sample: ExportedSample) -> JsonObject:
    return {
        **{name: getattr(sample, name) for name in _OF_SAMPLE},
        "references": list(sample.references),
        "images": list(sample.images),
        "examples": [asdict(example) for example in sample.examples],
        "metadata": json.dumps(sample.metadata, ensure_ascii=False, allow_nan=False),
        "parsed": [{"extractor": label, "text": text} for label, text in sample.parsed.items()],
        "measures": [asdict(measure) for measure in sample.measures],
    }


def csv_columns() -> tuple[str, ...]:
    """Return the columns of the CSV file."""
    return tuple(_csv_schema())


def _csv_schema() -> polars.Schema:
    import polars

    numbers = {"repeat", "prompt_tokens", "completion_tokens"}
    names = (
        *("run", "id", "repeat", *_GROUPS, "question", "reference", "model_answer", "status", "outcome", "error"),
        *("finish_reason", "prompt_tokens", "completion_tokens", "latency_ms", "metric", "profile", "version"),
        *("extractor", "field_name", "value", "reason", "is_invalid", "evaluation_id", "reasoning", "metadata"),
    )
    types: dict[str, polars.DataType] = {"latency_ms": polars.Float64(), "value": polars.Float64()}
    types |= {"is_invalid": polars.Boolean()}
    return polars.Schema(
        {name: types.get(name, polars.Int64() if name in numbers else polars.String()) for name in names}
    )


def _csv_rows(run: ExportedRun, sample: ExportedSample) -> Iterator[tuple[object, ...]]:
    groups = (_text(sample.metadata.get(name)) for name in _GROUPS)
    references = sample.references
    request = (
        run.id,
        _visible(sample.key),
        sample.repeat,
        *groups,
        _visible(sample.question),
        _visible(_reference(references)),
        _visible(sample.text),
        sample.status,
        sample.outcome,
        _visible(sample.failure),
        _visible(sample.finish_reason),
        sample.prompt_tokens,
        sample.completion_tokens,
        sample.latency_ms,
    )
    rest = (_visible(sample.reasoning), json.dumps(sample.metadata, ensure_ascii=False, allow_nan=False))
    for measure in sample.measures:
        yield (
            *request,
            *(
                measure.metric,
                measure.profile,
                measure.version,
                measure.extractor,
                _visible(measure.field),
                measure.value,
            ),
            *(_visible(measure.reason), measure.is_invalid, measure.evaluation_id),
            *rest,
        )
    if not sample.measures:
        yield (*request, *([None] * 9), *rest)


def _reference(references: Sequence[str]) -> str:
    """Write a single reference as it is; several, none, or one that looks like a list are written as a JSON list."""
    is_plain = len(references) == 1 and not references[0].startswith("[")
    return references[0] if is_plain else json.dumps(list(references), ensure_ascii=False)


def _text(value: object) -> str | None:
    return _visible(value if value is None or isinstance(value, str) else json.dumps(value, ensure_ascii=False))


def _visible(text: str | None) -> str | None:
    """Replace NUL by U+FFFD: many CSV readers end a file at NUL."""
    return None if text is None else text.replace("\x00", "\N{REPLACEMENT CHARACTER}")


def _batches(samples: Iterable[ExportedSample]) -> Iterator[tuple[ExportedSample, ...]]:
    remaining = iter(samples)
    while batch := tuple(itertools.islice(remaining, BATCH_ROWS)):
        yield batch
