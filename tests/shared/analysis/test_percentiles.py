"""Percentiles: the effect of failures, their intervals, and the values that MLPerf's rule certifies."""

from __future__ import annotations

import random
from math import comb

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.wording import Wording
from vlmhyperbench.analysis.percentiles import (
    is_certain,
    min_requests,
    order_ranks,
    overlatency,
    percentiles_of,
)
from vlmhyperbench_sdk.errors import InvalidInput


def at_most(k: int, n: int, p: float) -> float:
    """Chance of k or fewer of n, summed term by term."""
    return sum(comb(n, x) * p**x * (1 - p) ** (n - x) for x in range(k + 1))


def test_failures_count_as_longer_than_any_answer() -> None:
    (result,) = percentiles_of([30.0, 10.0, 20.0], failed=1, percents=[75])
    assert (result.plain, result.adjusted, result.n, result.failed) == (30.0, 30.0, 4, 1)
    (result,) = percentiles_of([30.0, 10.0, 20.0], failed=3, percents=[50])
    assert (result.plain, result.adjusted) == (20.0, 30.0)


def test_a_percentile_among_the_failures_is_infinite_and_says_so(wording: Wording) -> None:
    (result,) = percentiles_of(range(1, 98), failed=3, percents=[99])
    assert (result.plain, result.adjusted, result.high) == (97, None, None)
    wording(result.reason)


def test_without_requests_there_is_no_percentile(wording: Wording) -> None:
    (result,) = percentiles_of([], percents=[50])
    assert (result.n, result.plain, result.adjusted, result.low, result.high) == (0, None, None, None, None)
    wording(result.reason)


def test_the_median_of_ten_lies_between_the_second_and_the_ninth() -> None:
    # The chance of at most 1 of 10 is 11/1024, of at most 2 it is 56/1024: above 2.5 %.
    assert order_ranks(10, 50) == (2, 9)


def test_five_values_do_not_bound_their_median() -> None:
    # Both ends would be missed with 1/32 each.
    assert order_ranks(5, 50) == (None, None)
    assert order_ranks(6, 50) == (1, 6)


@given(st.integers(1, 120), st.sampled_from([10, 50, 90, 99]), st.sampled_from([0.8, 0.95]))
def test_ranks_are_the_narrowest_that_keep_their_confidence(n: int, percent: int, confidence: float) -> None:
    tail, p = (1 - confidence) / 2, percent / 100
    lows = [rank for rank in range(1, n + 1) if at_most(rank - 1, n, p) <= tail]
    highs = [rank for rank in range(1, n + 1) if at_most(rank - 1, n, p) >= 1 - tail]
    assert order_ranks(n, percent, confidence=confidence) == (max(lows, default=None), min(highs, default=None))


def test_intervals_contain_the_true_percentile_with_their_confidence() -> None:
    drawn = random.Random(5)
    held = 0
    for _ in range(1000):
        (result,) = percentiles_of([drawn.random() for _ in range(200)], percents=[90])
        assert result.low is not None
        assert result.high is not None
        held += result.low <= 0.9 <= result.high
    assert held >= 940


def test_the_floors_are_those_of_mlperf() -> None:
    assert (min_requests(90), min_requests(99)) == (64, 662)
    # Without any request over the limit: 0.9 ** 44 and 0.99 ** 459 are the first powers below 1 %.
    assert (min_requests(90, over=0), min_requests(99, over=0)) == (44, 459)


@given(st.integers(0, 12), st.sampled_from([50, 80, 90]))
def test_min_requests_is_the_smallest_number_with_enough_certainty(over: int, percent: int) -> None:
    n = min_requests(percent, over=over)
    assert at_most(over, n, 1 - percent / 100) <= 0.01
    assert at_most(over, n - 1, 1 - percent / 100) > 0.01


@given(st.integers(0, 100), st.sampled_from([50, 90, 96]))
def test_the_number_that_may_exceed_a_limit_is_the_largest_with_enough_certainty(n: int, percent: int) -> None:
    allowed = [over for over in range(n) if at_most(over, n, 1 - percent / 100) <= 0.01]
    assert overlatency(n, percent) == max(allowed, default=None)
    for over in (0, 1, 5):
        assert is_certain(n, over, percent) is (over in allowed)


def test_64_requests_certify_their_longest_as_p90_and_63_certify_nothing(wording: Wording) -> None:
    (result,) = percentiles_of(range(1, 65), percents=[90])
    assert (result.adjusted, result.certified, result.reason) == (58, 64, None)
    (result,) = percentiles_of(range(1, 64), percents=[90])
    assert result.certified is None
    wording(result.reason)


def test_more_requests_discard_more_of_the_longest() -> None:
    # 81 requests allow two over the limit: the second longest is certified.
    (result,) = percentiles_of(range(1, 82), percents=[90])
    assert result.certified == 80


def test_with_a_failure_among_the_longest_nothing_is_certified(wording: Wording) -> None:
    (result,) = percentiles_of(range(1, 64), failed=1, percents=[90])
    assert (result.adjusted, result.certified) == (58, None)
    wording(result.reason)


def test_a_certified_value_is_rarely_below_the_true_percentile() -> None:
    drawn = random.Random(3)
    below = 0
    for _ in range(2000):
        (result,) = percentiles_of([drawn.random() for _ in range(100)], percents=[90])
        assert result.certified is not None
        below += result.certified < 0.9
    assert below <= 30


@pytest.mark.parametrize("percent", [0, 100, -1, float("nan")])
def test_a_percentile_beyond_its_range_is_refused(percent: float) -> None:
    with pytest.raises(InvalidInput, match="between 0 and 100"):
        percentiles_of([1.0], percents=[percent])


def test_counts_and_confidences_beyond_their_range_are_refused() -> None:
    with pytest.raises(InvalidInput, match="-1 failures"):
        percentiles_of([], failed=-1)
    with pytest.raises(InvalidInput, match="-1 requests over"):
        min_requests(90, over=-1)
    with pytest.raises(InvalidInput, match="between 0 and 1"):
        order_ranks(5, 50, confidence=1.0)
