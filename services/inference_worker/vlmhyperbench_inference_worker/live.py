"""How fast answers arrive during a run, from the rows that a claim commits anyway."""

from __future__ import annotations

import time
from collections.abc import Iterable

import numpy

from vlmhyperbench.analysis.distributions import BUCKETS, FloatArray, bucket_counts, of_buckets
from vlmhyperbench.db.views import NewFact
from vlmhyperbench.wire.live import Speeds
from vlmhyperbench.worker.rates import Rate


class Live:
    """Percentiles of all rows so far, and the present rate of output tokens."""

    def __init__(self) -> None:
        self._ttft, self._tpot, self._latency = (numpy.zeros(BUCKETS, dtype=numpy.int64) for _ in range(3))
        self._rate = Rate()
        self._tokens = 0

    def add(self, rows: Iterable[NewFact]) -> None:
        """Count rows of the measured phase."""
        rows = list(rows)
        answered = [row for row in rows if row.status == "ok" and row.latency_ns is not None]
        self._tokens += sum(row.completion_tokens or 0 for row in answered)
        self._ttft += bucket_counts(_known(row.ttft_user_ns for row in rows))
        self._tpot += bucket_counts(_known(row.tpot_ns for row in rows))
        self._latency += bucket_counts(_known(row.latency_ns for row in rows))

    def now(self, in_flight: int) -> Speeds:
        """Return the present speeds."""
        rate, _ = self._rate.update(time.monotonic(), self._tokens, None)
        ttft, tpot, latency = (of_buckets(counts).describe() for counts in (self._ttft, self._tpot, self._latency))
        return Speeds(
            in_flight=in_flight,
            output_tokens_per_s=rate,
            ttft_p50_ms=ttft.p50,
            ttft_p99_ms=ttft.p99,
            tpot_p50_ms=tpot.p50,
            tpot_p99_ms=tpot.p99,
            latency_p50_ms=latency.p50,
            latency_p99_ms=latency.p99,
        )


def _known(times_ns: Iterable[float | None]) -> FloatArray:
    return numpy.array([time_ns for time_ns in times_ns if time_ns is not None], dtype=numpy.float64)
