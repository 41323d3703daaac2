"""Bins of time: the instants in them, and the requests in flight."""

from __future__ import annotations

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vlmhyperbench.analysis.timelines import MAX_BINS, Grid, grid_of, max_in_flight

S = 1_000_000_000


def _ns(*seconds: float) -> numpy.ndarray:
    return numpy.array([round(second * S) for second in seconds], dtype=numpy.int64)


@pytest.mark.parametrize(
    ("seconds", "width_s", "bins"), [(0, 0.001, 1), (1, 0.01, 100), (60, 0.5, 120), (61, 1.0, 61), (3600, 50.0, 72)]
)
def test_bins_are_round_and_not_too_many(seconds: int, width_s: float, bins: int) -> None:
    grid = grid_of(5 * S, (5 + seconds) * S, requests=10_000)
    assert (grid.width_s, grid.bins, grid.start_ns) == (width_s, bins, 5 * S)
    assert grid.edges_s[-1] >= seconds


def test_few_requests_lie_in_few_bins() -> None:
    assert [grid_of(0, 60 * S, requests=n).bins for n in (1, 100, 600, 10_000)] == [12, 12, 120, 120]


@given(st.integers(0, 2**60), st.integers(0, 2**50), st.integers(0, 10_000))
def test_a_grid_holds_all_of_its_time(first: int, length: int, requests: int) -> None:
    grid = grid_of(first, first + length, requests=requests)
    assert 1 <= grid.bins <= MAX_BINS
    assert grid.start_ns + grid.bins * grid.width_ns >= first + length


def test_a_bin_includes_its_lower_edge_and_instants_outside_are_left_out() -> None:
    grid = Grid(start_ns=10 * S, width_ns=S, bins=2)
    assert grid.count(_ns(9.9, 10, 10.5, 11, 12, 12.1)).tolist() == [2, 2]
    assert grid.count(_ns(10, 11, 11.5, 12.1), numpy.array([1.0, 2.0, 3.0, 9.0])).tolist() == [1, 5]


def test_half_a_bin_in_flight_is_half_a_request() -> None:
    grid = Grid(start_ns=10 * S, width_ns=S, bins=4)
    began, ended = _ns(9, 10.5, 11), _ns(10.5, 12.5, 12)
    assert grid.mean_in_flight(began, ended).tolist() == pytest.approx([1.0, 2.0, 0.5, 0.0])
    assert grid.mean_in_flight(_ns(), _ns()).tolist() == [0, 0, 0, 0]


def test_a_request_that_ends_as_another_begins_is_not_in_flight_with_it() -> None:
    assert max_in_flight(_ns(1, 2, 3), _ns(2, 3, 4)) == 1
    assert max_in_flight(_ns(1, 2, 2.5), _ns(3, 3, 3)) == 3
    assert max_in_flight(_ns(), _ns()) == 0
