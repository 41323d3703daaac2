"""Metrics of a load by name, and their means over repeats."""

from __future__ import annotations

import pytest

from tests.shared.analysis.records import END, S, frame, row
from vlmhyperbench.analysis.load_metrics import STATED, Until, check_metric, look_at, mean_over, value_of
from vlmhyperbench.analysis.load_result import LoadResult, result_of
from vlmhyperbench_sdk.errors import InvalidInput


def repeat(*ttft_ms: int, failed: int = 0) -> LoadResult:
    rows = [row(ttft_ms=ms, at_ns=number * S) for number, ms in enumerate(ttft_ms)]
    rows += [row(error="http_503: busy")] * failed
    return result_of(frame(rows), END, measured_phase=1, scheduled=len(rows))


def test_a_metric_is_a_rate_or_a_mean_or_a_percentile_of_a_time() -> None:
    load = repeat(100, 200, 600)
    assert value_of(load, "requests_per_s") == 1.0
    assert value_of(load, "goodput_per_s") is None
    assert value_of(load, "ttft_mean") == 300.0
    assert value_of(load, "latency_p50") == 210.0
    assert value_of(load, "tpot_p99") == 10.0


def test_failures_move_percentiles_but_not_means() -> None:
    load = repeat(100, 200, failed=2)
    assert (value_of(load, "ttft_p50"), value_of(load, "ttft_p90"), value_of(load, "ttft_mean")) == (200, None, 150)


@pytest.mark.parametrize("name", ["", "speed", "ttft", "ttft_p95", "itl_p99", "requests_per_s_p50"])
def test_a_name_that_is_no_metric_is_refused(name: str) -> None:
    with pytest.raises(InvalidInput):
        check_metric(name)
    with pytest.raises(InvalidInput):
        value_of(repeat(100), name)


def test_every_stated_metric_exists() -> None:
    for name in STATED:
        check_metric(name)


def test_the_interval_of_a_mean_that_may_stop_the_repeats_allows_for_every_look() -> None:
    runs = [repeat(ms) for ms in (100, 110, 120)]
    fixed, looked = (mean_over(runs, "ttft_p50", may_stop=may_stop) for may_stop in (False, True))
    assert (fixed.mean, looked.mean) == (110.0, 110.0)
    assert (fixed.confidence, looked.confidence) == (0.95, pytest.approx(0.975))
    # Before the third repeat nothing is looked at.
    assert mean_over(runs[:2], "ttft_p50", may_stop=True).confidence == 0.95


def test_repeats_are_enough_once_half_their_interval_is_within_the_precision() -> None:
    runs = [repeat(ms) for ms in (100, 110, 120)]
    mean = mean_over(runs, "ttft_p50", may_stop=True)
    assert mean.precision is not None
    assert look_at(runs, Until(metric="ttft_p50", precision=mean.precision)).is_reached
    assert not look_at(runs, Until(metric="ttft_p50", precision=0.99 * mean.precision)).is_reached
    early = look_at(runs[:2], Until(metric="ttft_p50", precision=1.0))
    assert (early.mean, early.is_reached) == (None, False)
