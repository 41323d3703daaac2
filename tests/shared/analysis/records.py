"""Rows of a load record that tests make, and the line that ends it."""

from __future__ import annotations

import polars as pl

from vlmhyperbench_sdk.load import EndLine

MS = 1_000_000
S = 1_000 * MS
END = EndLine(
    event="end",
    outcome="complete",
    error=None,
    cpu_s=1.5,
    peak_rss_bytes=10,
    startup_s=0.2,
    processes=1,
    loop_busy_share=0.1,
    schedule_sha256="ab",
)
SCHEMA = {
    "phase": pl.Int32(),
    "ordinal": pl.Int64(),
    "turn": pl.Int32(),
    "stream": pl.Int32(),
    "status": pl.String(),
    "http_status": pl.Int32(),
    "error": pl.String(),
    "scheduled_ns": pl.Int64(),
    "sent_ns": pl.Int64(),
    "event_ns": pl.List(pl.Int64()),
    "event_kind": pl.List(pl.String()),
    "event_tokens": pl.List(pl.Int32()),
    "event_token_source": pl.String(),
    "last_event_ns": pl.Int64(),
    "stream_end_ns": pl.Int64(),
    "prompt_tokens": pl.Int32(),
    "completion_tokens": pl.Int32(),
    "token_source": pl.String(),
    "conversation": pl.Int64(),
    "build_ns": pl.Int64(),
}


def row(
    *, ttft_ms: int = 100, phase: int = 1, error: str | None = None, tokens: int | None = 2, at_ns: int = 0
) -> dict[str, object]:
    events = [] if error else [at_ns + ttft_ms * MS, at_ns + (ttft_ms + 10) * MS]
    return {
        "phase": phase,
        "ordinal": at_ns,
        "turn": 0,
        "stream": 0,
        "status": "error" if error else "ok",
        "error": error,
        "scheduled_ns": at_ns,
        "sent_ns": at_ns,
        "event_ns": events,
        "event_kind": ["content"] * len(events),
        "event_tokens": [1] * len(events),
        "event_token_source": None if error else "usage",
        "last_event_ns": max(events, default=None),
        "stream_end_ns": at_ns + S,
        "prompt_tokens": None if error else 7,
        "completion_tokens": None if error else tokens,
        "token_source": None if error else "usage",
        "conversation": None,
        "build_ns": None,
    }


def frame(rows: list[dict[str, object]]) -> pl.DataFrame:
    return pl.DataFrame(rows, schema=SCHEMA)
