"""Speeds of a load so far, computed from its sealed segments: for people who watch, never a measurement."""

from __future__ import annotations

import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

import numpy

from vlmhyperbench.analysis.distributions import BUCKETS, IntArray, bucket_counts, of_buckets
from vlmhyperbench.domain.units import NS_PER_S
from vlmhyperbench_sdk.load import TOKEN_EVENTS

MIN_INTERVAL_S = 1.0
"""Minimum time between two reads of segments, however many there are."""

_COLUMNS = ["status", "scheduled_ns", "stream_end_ns", "last_event_ns", "completion_tokens", "event_ns", "event_kind"]


class LiveSpeeds:
    """Rates, and percentiles from logarithmic buckets, which are accurate to 0.5 %."""

    def __init__(self, folder: Path, *, clock: Callable[[], float] = time.monotonic) -> None:
        """Watch the record in a folder. The library that reads segments is imported here, before any clock starts."""
        import_module("polars")
        self._folder, self._clock = folder, clock
        self._unread: list[str] = []
        self._read_at_s = float("-inf")
        self._ttft, self._latency = (numpy.zeros(BUCKETS, dtype=numpy.int64) for _ in range(2))
        self._ok, self._tokens, self._uncounted = 0, 0, 0
        self._began_ns: int | None = None
        self._ended_ns = 0

    def add(self, segment: str) -> None:
        """Remember the name of a sealed segment, to be read later."""
        self._unread.append(segment)

    def describe(self) -> str:
        """Read the new segments, at most once per `MIN_INTERVAL_S`, and return the speeds as text, "" if unknown."""
        now_s = self._clock()
        if self._unread and now_s - self._read_at_s >= MIN_INTERVAL_S:
            self._read_at_s = now_s
            names, self._unread = self._unread, []
            self._read([self._folder / name for name in names])
        seconds = (self._ended_ns - (self._began_ns or 0)) / NS_PER_S
        if self._began_ns is None or not self._ok or seconds <= 0:
            return ""
        parts = [f"{self._ok / seconds:.2f} requests/s"]
        if not self._uncounted:
            parts.append(f"{self._tokens / seconds:.2f} tokens/s")
        if self._ttft.any():
            parts.append(f"p50/p99 {_percentiles(self._ttft)} ttft, {_percentiles(self._latency)} latency")
        return f"so far {', '.join(parts)}"

    def _read(self, paths: list[Path]) -> None:
        import polars as pl

        rows = pl.read_parquet(paths, columns=_COLUMNS)
        began, ended = rows["scheduled_ns"].min(), rows["stream_end_ns"].max()
        if isinstance(began, int):
            self._began_ns = began if self._began_ns is None else min(began, self._began_ns)
        if isinstance(ended, int):
            self._ended_ns = max(ended, self._ended_ns)
        good = rows.filter((pl.col("status") == "ok") & pl.col("last_event_ns").is_not_null())
        self._ok += good.height
        self._tokens += int(good["completion_tokens"].cast(pl.Int64).sum())
        self._uncounted += good["completion_tokens"].null_count()
        has_token = pl.col("event_kind").list.eval(pl.element().is_in(TOKEN_EVENTS))
        # Every good row has a token, so the position of the largest of these booleans is that of the first token.
        times = good.select(
            ttft=pl.col("event_ns").list.get(has_token.list.arg_max()) - pl.col("scheduled_ns"),
            latency=pl.col("last_event_ns") - pl.col("scheduled_ns"),
        )
        self._ttft += bucket_counts(times["ttft"].to_numpy())
        self._latency += bucket_counts(times["latency"].to_numpy())


def _percentiles(counts: IntArray) -> str:
    times = of_buckets(counts)
    return f"{times.percentile(50):.1f}/{times.percentile(99):.1f} ms"
