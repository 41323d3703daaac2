"""Columns of a chunk: those of the load record, the prompts that were sent, and the cause of a failure."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from vlmhyperbench.errors import InvalidInput
from vlmhyperbench_sdk.load import RECORD_COLUMNS

if TYPE_CHECKING:
    import polars

CHUNK_COLUMNS: dict[str, str] = {
    **RECORD_COLUMNS,
    "system_prompt": "str?",
    "user_prompt": "str?",
    "images": "str[]",  # SHA-256 of each, in the order in which they were sent
    "examples": "str?",  # JSON: the answered turns that were sent before (`requests.Example.as_json`)
    "failure": "str?",  # model | infrastructure
    "error_code": "str?",
    "vram_before_bytes": "i8?",  # of the accelerators, in the last sample before the request
    "vram_peak_bytes": "i8?",  # during it; of all requests in flight
    "reported": "str?",  # JSON: the scores of the answer that an imported file reports
    "trace": "str?",  # JSON: how a pipeline came to the answer (`scoring.traces`)
}
"""Columns of a chunk, in order; types as in `RECORD_COLUMNS`. A fact's `row` is the number of its row in the file."""

PAYLOAD_COLUMNS = (
    "text",
    "reasoning",
    "error",
    "system_prompt",
    "user_prompt",
    "event_ns",
    "event_tokens",
    "event_kind",
    "event_token_source",
    "last_event_ns",
    "cached_tokens",
    "vram_before_bytes",
    "vram_peak_bytes",
)
"""Columns that `facts.read` takes from chunks; all others are in the fact's row."""


def polars_schema(columns: dict[str, str] | None = None) -> polars.Schema:
    """Return the schema of a chunk (or of other columns in the same notation) for polars."""
    import polars  # imported late: a supervisor that seals no chunk needs no polars

    plain = {"i4": polars.Int32, "i8": polars.Int64, "f8": polars.Float64, "str": polars.String, "bool": polars.Boolean}

    def typed(name: str) -> polars.DataType | type[polars.DataType]:
        base = plain[name.removesuffix("?").removesuffix("[]")]
        return polars.List(base) if "[]" in name else base

    return polars.Schema({name: typed(kind) for name, kind in (columns or CHUNK_COLUMNS).items()})


def write_chunk(frame: polars.DataFrame, path: Path) -> None:
    """Write a chunk's Parquet file: exactly the schema's columns, in its order.

    Raises:
        InvalidInput: a column is missing, or a value does not fit its type.
    """
    import polars

    schema = polars_schema()
    missing = [name for name in schema if name not in frame.columns]
    if missing:
        raise InvalidInput(f"A chunk lacks {', '.join(missing)}.")
    try:
        fitted = frame.select([polars.col(name).cast(kind) for name, kind in schema.items()])
    except polars.exceptions.PolarsError as error:
        raise InvalidInput(f"A chunk does not fit its schema: {error}") from error
    fitted.write_parquet(path, compression="zstd", statistics=False)
