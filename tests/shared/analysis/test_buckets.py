"""Percentiles of logarithmic buckets: never below the exact one, and never more than an eighth above it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from vlmhyperbench.analysis.buckets import LogBuckets
from vlmhyperbench.analysis.performance import nearest_rank

PERCENTS = (1, 50, 90, 99, 100)


def filled(values: list[int]) -> LogBuckets:
    buckets = LogBuckets()
    for value in values:
        buckets.add(value)
    return buckets


def test_nothing_has_no_percentile() -> None:
    assert filled([]).percentile(50) is None


def test_small_numbers_are_exact_and_negative_ones_are_none() -> None:
    assert [filled(list(range(16))).percentile(percent) for percent in (1, 50, 100)] == [0, 7, 15]
    assert filled([-5, 3]).percentile(50) == 0


@given(st.lists(st.integers(0, 2**45), min_size=1, max_size=200))
def test_a_percentile_is_the_largest_value_of_its_bucket(values: list[int]) -> None:
    buckets = filled(values)
    assert buckets.n == len(values)
    for percent in PERCENTS:
        exact, found = nearest_rank(sorted(values), percent), buckets.percentile(percent)
        assert exact is not None
        assert found is not None
        assert exact <= found <= exact * 1.125
