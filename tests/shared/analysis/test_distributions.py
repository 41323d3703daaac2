"""Values in order and in buckets: ranks and percentiles that can be counted by hand."""

from __future__ import annotations

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vlmhyperbench.analysis.distributions import (
    BUCKETS,
    MIN_BUCKET_NS,
    bucket_counts,
    distribution_of,
    nearest_rank,
    of_buckets,
    ordered,
    rank_of,
)

MS = 1_000_000


def test_ranks_count_from_one() -> None:
    result = ordered([3.0, 1.0, 2.0])
    assert result.n == 3
    assert result.at(numpy.array([1, 3])).tolist() == [1.0, 3.0]
    assert result.percentile(50) == 2.0


def test_without_input_there_are_no_values() -> None:
    assert ordered([]).n == 0
    assert of_buckets(bucket_counts(numpy.zeros(0))).n == 0


@given(st.lists(st.floats(min_value=0, max_value=1e12), min_size=1, max_size=60), st.integers(0, 100))
def test_a_percentile_is_the_one_of_the_nearest_rank(values: list[float], percent: int) -> None:
    assert ordered(values).percentile(percent) == nearest_rank(sorted(values), percent)


def test_a_bucket_counts_as_often_as_it_was_filled() -> None:
    counts = bucket_counts(numpy.array([10e6, 10e6, 40e6])) + bucket_counts(numpy.array([10e6]))
    result = of_buckets(counts)
    assert result.n == 4
    assert result.up_to.tolist() == [3, 4]
    assert result.percentile(75) == pytest.approx(10, rel=0.005)
    assert result.percentile(76) == pytest.approx(40, rel=0.005)
    assert result.describe().mean == pytest.approx((3 * 10 + 40) / 4, rel=0.005)


@given(st.floats(min_value=MIN_BUCKET_NS, max_value=1e12))
def test_the_middle_of_a_bucket_is_within_half_a_percent_of_its_values(value: float) -> None:
    assert of_buckets(bucket_counts(numpy.array([value]))).percentile(50) * MS == pytest.approx(value, rel=0.005)


def test_values_beyond_the_buckets_count_in_the_first_or_the_last() -> None:
    counts = bucket_counts(numpy.array([0.0, -5.0, 1.0, 1e30]))
    assert counts.size == BUCKETS
    assert (counts[0], counts[-1]) == (3, 1)


def test_a_percentile_is_a_value_that_was_measured() -> None:
    assert nearest_rank([10, 20, 30, 40], 50) == 20
    assert nearest_rank([10, 20, 30, 40], 51) == 30
    assert nearest_rank([10, 20, 30, 40], 0) == 10
    assert nearest_rank([10, 20, 30, 40], 100) == 40
    assert nearest_rank(range(1, 101), 7) == 7
    assert nearest_rank(range(1, 1001), 99.9) == 999
    assert nearest_rank([], 50) is None
    assert (rank_of(1000, 99.9), rank_of(10, 0), rank_of(0, 50)) == (999, 1, 1)


@given(st.lists(st.integers(0, 1000), min_size=1), st.integers(1, 100))
def test_at_least_p_percent_of_the_values_do_not_exceed_percentile_p(values: list[int], percent: int) -> None:
    result = nearest_rank(sorted(values), percent)
    assert result in values
    assert sum(value <= result for value in values) * 100 >= percent * len(values)
    assert sum(value < result for value in values) * 100 < percent * len(values)


def test_a_distribution_leaves_out_undefined_values() -> None:
    result = distribution_of(numpy.array([3.0, numpy.nan, 1.0, 2.0]) * MS)
    assert (result.n, result.mean, result.p50, result.p90, result.max) == (3, 2.0, 2.0, 3.0, 3.0)


def test_without_values_there_is_no_distribution() -> None:
    result = distribution_of(numpy.array([numpy.nan]))
    assert (result.n, result.mean, result.p50, result.p99, result.max) == (0, None, None, None, None)
