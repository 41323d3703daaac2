"""Store requests as a chunk, and make the narrow rows that are appended with it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, Literal
from uuid import UUID

from vlmhyperbench.analysis.request_times import RequestTimes, times_of_record
from vlmhyperbench.db.views import NewChunk, NewFact
from vlmhyperbench.domain.causes import MAX_ERROR, clean
from vlmhyperbench.domain.failures import NOT_ASKED
from vlmhyperbench.domain.states import FactStatus
from vlmhyperbench.facts.schema import CHUNK_COLUMNS, polars_schema, write_chunk
from vlmhyperbench.storage import Storage

Origin = Literal["live", "cached", "imported", "combined"]

_COPIED = tuple(
    field.name for field in fields(NewFact) if field.name in CHUNK_COLUMNS and field.name not in {"status", "error"}
)
"""Columns of a chunk that a fact has as they are."""
_TIMES = tuple(field.name for field in fields(NewFact) if field.name in {time.name for time in fields(RequestTimes)})
"""Fields of a fact that are derived from the events of an answer."""
_WORDS = ("finish_reason", "error_code")
"""Columns whose text a server wrote."""
_MAX_WORD_CHARS = 64
"""Maximum length of such a text: servers write a word there."""
_UNFIT = re.compile("[\0\ud800-\udfff]")
"""Characters that Postgres refuses in a text: NUL, and half of a surrogate pair."""


def chunk_key(run_id: UUID, claim_id: UUID, phase: int, no: int) -> str:
    """Return the storage key of a chunk: no two claims ever write the same key."""
    return f"runs/{run_id}/chunks/{claim_id}/{phase}-{no}.parquet"


def blank_row(
    *, phase: int, ordinal: int, sample: int, repeat: int, status: str, error: str | None, request_sha256: str
) -> dict[str, Any]:
    """Return the chunk row of a request that was never sent."""
    return dict.fromkeys(CHUNK_COLUMNS) | {
        "phase": phase,
        "ordinal": ordinal,
        "sample": sample,
        "repeat": repeat,
        "turn": 0,
        "member": 0,
        "stream": 0,
        "event_ns": [],
        "event_tokens": [],
        "event_kind": [],
        "images": [],
        "status": status,
        "error": error,
        "tries": 0,
        "request_sha256": request_sha256,
    }


def seal(
    storage: Storage,
    rows: Sequence[dict[str, Any]],
    *,
    run_id: UUID,
    claim_id: UUID,
    phase: int,
    no: int,
    folder: Path,
    origin: Origin = "live",
) -> tuple[NewChunk, list[NewFact]]:
    """Store rows of `CHUNK_COLUMNS` as chunk `no` of a claim's phase; a temporary file is written to `folder`.

    Raises:
        InvalidInput: a value does not fit its column.
        Unavailable: storage is full or does not respond.
    """
    import polars  # imported late: a supervisor that seals no chunk needs no polars

    fitting = [_fitting(row) for row in rows]
    path = folder / f"chunk-{phase}-{no}.parquet"
    write_chunk(polars.DataFrame(fitting, schema=polars_schema(), strict=False), path)
    stored = storage.put(chunk_key(run_id, claim_id, phase, no), path, media_type="application/vnd.apache.parquet")
    path.unlink()
    chunk = NewChunk(
        phase=phase,
        no=no,
        storage_key=stored.key,
        sha256=stored.sha256,
        size_bytes=stored.size_bytes,
        rows=len(rows),
    )
    return chunk, [_fact(row, number, origin) for number, row in enumerate(fitting)]


def _fitting(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row that the table accepts: a single value that it refuses would fail the whole chunk."""
    words = {name: row[name][:_MAX_WORD_CHARS] for name in _WORDS if row[name] is not None}
    return {**row, **{name: _UNFIT.sub("\N{REPLACEMENT CHARACTER}", word) for name, word in words.items()}}


def _fact(row: Mapping[str, Any], number: int, origin: Origin) -> NewFact:
    times, is_ok = _times(row), row["failure"] is None and row["error_code"] != NOT_ASKED
    return NewFact(
        row=number,
        origin=origin,
        status=FactStatus.OK if is_ok else FactStatus.ERROR,
        error=None if is_ok or row["error"] is None else clean(row["error"], limit=MAX_ERROR),
        **{name: row[name] for name in _COPIED},
        **{name: getattr(times, name) for name in _TIMES if times is not None},
    )


def _times(row: Mapping[str, Any]) -> RequestTimes | None:
    """Return the times of an answer; a failed request has none, even if tokens arrived."""
    if row["failure"] is not None or row["sent_ns"] is None or row["stream_end_ns"] is None:
        return None
    return times_of_record(row)
