"""The window in which a load was steady, rates within it, and goodput over all requests."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.wording import Wording
from vlmhyperbench.analysis.steady import Window, first_idle_ns, goodput_of, rate_within, steady_window
from vlmhyperbench_sdk.errors import InvalidInput

S = 1_000_000_000


def instants(*seconds: float) -> np.ndarray:
    return np.array([round(second * S) for second in seconds], dtype=np.int64)


def test_a_window_starts_after_the_first_request_of_every_stream_and_ends_at_the_drain() -> None:
    sent, ended = instants(0, 0, 1, 2, 3), instants(1, 2, 3, 3.5, 9)
    assert steady_window(sent, ended, streams=2, until_ns=4 * S) == Window(start_ns=2 * S, end_ns=4 * S)
    assert steady_window(sent, ended, streams=1, until_ns=3 * S) == Window(start_ns=1 * S, end_ns=3 * S)


def test_the_first_stream_that_is_idle_is_the_one_whose_last_request_ended_first() -> None:
    assert first_idle_ns(np.array([0, 1, 0, 1, 0]), instants(1, 2, 3, 3.5, 9)) == round(3.5 * S)


def test_the_order_of_requests_does_not_matter() -> None:
    sent, ended = instants(3, 0, 2, 1, 0), instants(9, 2, 3.5, 3, 1)
    assert steady_window(sent, ended, streams=2, until_ns=3 * S) == Window(start_ns=2 * S, end_ns=3 * S)


def test_without_time_between_ramp_up_and_drain_there_is_no_window() -> None:
    assert steady_window(instants(0, 0), instants(1, 1), streams=2, until_ns=S) is None
    assert steady_window(instants(0, 0.5), instants(1, 1), streams=1, until_ns=S) is None


def test_a_window_without_a_stream_or_an_end_is_refused(wording: Wording) -> None:
    for ended, streams in ((instants(1), 0), (instants(1, 2), 1)):
        with pytest.raises(InvalidInput) as refused:
            steady_window(instants(0), ended, streams=streams, until_ns=S)
        wording(refused.value)


def test_an_event_at_the_start_of_the_window_is_not_part_of_it() -> None:
    result = rate_within(Window(start_ns=S, end_ns=3 * S), instants(0.5, 1, 2, 3, 3.5))
    assert (result.per_s, result.low, result.batches) == (1.0, None, 0)


def test_weights_are_counted() -> None:
    result = rate_within(Window(start_ns=0, end_ns=2 * S), instants(1, 2, 3), np.array([5.0, 7.0, 100.0]))
    assert result.per_s == 6.0


def test_an_even_load_has_no_spread() -> None:
    result = rate_within(Window(start_ns=0, end_ns=20 * S), instants(*np.arange(1, 401) / 20))
    assert (result.batches, result.per_s) == (20, 20.0)
    assert (result.low, result.high) == pytest.approx((20.0, 20.0))


def test_the_interval_is_students_over_the_batches() -> None:
    # Five batches of 8, 9, 10, 11 and 12 events in a second each: mean 10, s = 1.5811, t(4) = 2.7764.
    at = np.concatenate([second + (np.arange(count) + 0.5) / count for second, count in enumerate(range(8, 13))])
    result = rate_within(Window(start_ns=0, end_ns=5 * S), instants(*at))
    assert (result.batches, result.per_s) == (5, 10.0)
    assert result.low == pytest.approx(10 - 2.7764 * 1.5811 / 5**0.5, abs=1e-3)
    assert result.high == pytest.approx(10 + 2.7764 * 1.5811 / 5**0.5, abs=1e-3)


def test_intervals_contain_the_true_rate_with_their_confidence() -> None:
    rng = np.random.default_rng(1)
    window = Window(start_ns=0, end_ns=100 * S)
    held = 0
    for _ in range(500):
        result = rate_within(window, instants(*rng.uniform(0, 100, rng.poisson(400))))
        assert result.low is not None
        assert result.high is not None
        held += result.low <= 4.0 <= result.high
    assert 0.92 <= held / 500 <= 0.98


def test_goodput_is_a_share_of_all_scheduled_requests() -> None:
    result = goodput_of(90, scheduled=100, duration_s=50.0)
    assert (result.share, result.per_s) == (0.9, pytest.approx(1.8))
    # Wilson 1927 of 90 out of 100.
    assert (result.low, result.high) == pytest.approx((0.8256, 0.9448), abs=1e-4)
    assert (result.low_per_s, result.high_per_s) == pytest.approx((2 * 0.8256, 2 * 0.9448), abs=1e-3)


def test_without_requests_or_time_there_is_no_goodput() -> None:
    result = goodput_of(0, scheduled=0, duration_s=1.0)
    assert (result.share, result.low, result.per_s, result.high_per_s) == (None, None, 0.0, None)
    result = goodput_of(1, scheduled=2, duration_s=0.0)
    assert (result.share, result.per_s, result.low_per_s) == (0.5, None, None)


def test_more_requests_than_were_scheduled_cannot_meet_the_slo() -> None:
    with pytest.raises(InvalidInput, match="3 of 2"):
        goodput_of(3, scheduled=2, duration_s=1.0)
