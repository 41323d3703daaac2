"""Speeds while a run is measured: percentiles of all rows so far, from the buckets that reports use."""

from __future__ import annotations

import pytest

from vlmhyperbench.db.views import NewFact
from vlmhyperbench_inference_worker.live import Live

MS = 1_000_000


def fact(ttft_ms: int | None, latency_ms: int | None, tpot_ms: int | None = None) -> NewFact:
    times = {
        name: None if ms is None else ms * MS
        for name, ms in (("ttft_user_ns", ttft_ms), ("latency_ns", latency_ms), ("tpot_ns", tpot_ms))
    }
    status = "error" if latency_ms is None else "ok"
    return NewFact(ordinal=0, row=0, sample=0, status=status, request_sha256="0" * 64, **times)


def test_before_the_first_answer_no_time_is_known() -> None:
    live = Live()
    live.add([fact(None, None)])
    now = live.now(3)
    assert (now.in_flight, now.ttft_p50_ms, now.latency_p99_ms) == (3, None, None)


def test_percentiles_are_those_of_all_rows_so_far_within_half_a_percent() -> None:
    live = Live()
    live.add([fact(100, 1000, 20)] * 3)
    live.add([fact(400, 4000, 80), fact(None, None)])
    now = live.now(0)
    shown = (now.ttft_p50_ms, now.ttft_p99_ms, now.latency_p50_ms, now.latency_p99_ms)
    assert shown == pytest.approx((100, 400, 1000, 4000), rel=0.005)
    assert (now.tpot_p50_ms, now.tpot_p99_ms) == pytest.approx((20, 80), rel=0.005)
