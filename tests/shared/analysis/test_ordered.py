"""Values in order and in buckets: ranks and percentiles that can be counted by hand."""

from __future__ import annotations

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vlmhyperbench.analysis.ordered import BUCKETS, LEAST, bucket_counts, of_buckets, ordered
from vlmhyperbench.analysis.performance import nearest_rank


def test_ranks_count_from_one() -> None:
    found = ordered([3.0, 1.0, 2.0])
    assert found.n == 3
    assert found.at(numpy.array([1, 3])).tolist() == [1.0, 3.0]
    assert found.scaled(10).percentile(50) == 20.0


def test_nothing_has_no_values() -> None:
    assert ordered([]).n == 0
    assert of_buckets(bucket_counts(numpy.zeros(0))).n == 0


@given(st.lists(st.floats(min_value=0, max_value=1e12), min_size=1, max_size=60), st.integers(0, 100))
def test_a_percentile_is_the_one_of_the_nearest_rank(values: list[float], percent: int) -> None:
    assert ordered(values).percentile(percent) == nearest_rank(sorted(values), percent)


def test_values_of_a_bucket_are_as_often_there_as_they_were_counted() -> None:
    counts = bucket_counts(numpy.array([10e6, 10e6, 40e6])) + bucket_counts(numpy.array([10e6]))
    found = of_buckets(counts)
    assert found.n == 4
    assert found.up_to.tolist() == [3, 4]
    assert found.percentile(75) == pytest.approx(10e6, rel=0.005)
    assert found.percentile(76) == pytest.approx(40e6, rel=0.005)


@given(st.floats(min_value=LEAST, max_value=1e12))
def test_a_bucket_is_never_further_than_half_a_percent_from_what_lies_in_it(value: float) -> None:
    assert of_buckets(bucket_counts(numpy.array([value]))).percentile(50) == pytest.approx(value, rel=0.005)


def test_what_is_beyond_the_buckets_lies_in_the_first_or_the_last() -> None:
    counts = bucket_counts(numpy.array([0.0, -5.0, 1.0, 1e30]))
    assert counts.size == BUCKETS
    assert (counts[0], counts[-1]) == (3, 1)
