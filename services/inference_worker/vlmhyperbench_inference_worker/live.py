"""How fast answers come, while they come: told by the rows that a claim commits anyway, measured by nothing else."""

from __future__ import annotations

import time
from collections.abc import Iterable

from vlmhyperbench.analysis.buckets import LogBuckets
from vlmhyperbench.bus import Speeds
from vlmhyperbench.db.appending import NewFact
from vlmhyperbench.worker.rates import Rate


class Live:
    """Percentiles of everything so far, and the present rate of output tokens."""

    def __init__(self) -> None:
        self._ttft, self._latency, self._rate = LogBuckets(), LogBuckets(), Rate()
        self._tokens = 0

    def add(self, rows: Iterable[NewFact]) -> None:
        """Count rows of the measured phase."""
        for row in rows:
            if row.status == "ok" and row.latency_ns is not None:
                self._tokens += row.completion_tokens or 0
            if row.ttft_user_ns is not None:
                self._ttft.add(row.ttft_user_ns)
            if row.latency_ns is not None:
                self._latency.add(row.latency_ns)

    def now(self, in_flight: int) -> Speeds:
        """Say how fast it is."""
        rate, _ = self._rate.update(time.monotonic(), self._tokens, None)
        return Speeds(
            in_flight=in_flight,
            output_tokens_per_s=rate,
            ttft_p50_ms=_ms(self._ttft.percentile(50)),
            ttft_p99_ms=_ms(self._ttft.percentile(99)),
            latency_p50_ms=_ms(self._latency.percentile(50)),
            latency_p99_ms=_ms(self._latency.percentile(99)),
        )


def _ms(value_ns: int | None) -> float | None:
    return None if value_ns is None else value_ns / 1e6
