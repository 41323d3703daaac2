"""Arrival processes: their rates and dispersion, determined by a seed."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.wording import Wording
from vlmhyperbench.domain.arrivals import (
    MAX_DURATION_S,
    Arrivals,
    Process,
    arrivals_at_least,
    arrivals_within,
    draw_arrivals,
    shape_of,
    trace_instants,
)
from vlmhyperbench_sdk.errors import InvalidInput

S = 1_000_000_000


def draw(process: Process, *, count: int = 20_000, rate: float = 50.0, **more: float) -> np.ndarray:
    return draw_arrivals(Arrivals(process=process, rate_per_s=rate, **more), count=count, seed=5)


def test_constant_arrivals_are_even() -> None:
    assert draw("constant", count=4, rate=4.0).tolist() == [0, S // 4, S // 2, 3 * S // 4]


@pytest.mark.parametrize(
    ("process", "more", "cv", "dispersion"),
    [
        ("poisson", {}, 1.0, 1.0),
        ("gamma", {"cv": 1.0}, 1.0, 1.0),
        ("gamma", {"cv": 0.5}, 0.5, 0.3),
        ("gamma", {"cv": 2.0}, 2.0, 3.8),
        ("burst", {"burst_size": 4}, 2.65, 4.0),
    ],
)
def test_a_process_has_its_rate_and_its_dispersion(
    process: Process, more: dict[str, float], cv: float, dispersion: float
) -> None:
    shape = shape_of(draw(process, **more))
    assert shape is not None
    assert shape.rate_per_s == pytest.approx(50.0, rel=0.05)
    assert shape.cv == pytest.approx(cv, rel=0.05)
    assert shape.dispersion == pytest.approx(dispersion, rel=0.12)


def test_a_burst_leaves_at_once() -> None:
    instants = draw("burst", count=10, burst_size=4)
    assert len(set(instants.tolist())) == 3
    assert np.unique(instants, return_counts=True)[1].tolist() == [4, 4, 2]


def test_a_ramp_ends_at_its_last_rate() -> None:
    instants = draw("ramp", count=3000, rate=10.0, last_rate_per_s=50.0)
    first, last = np.diff(instants[:50]).mean(), np.diff(instants[-50:]).mean()
    assert S / first == pytest.approx(10.0, rel=0.1)
    assert S / last == pytest.approx(50.0, rel=0.1)
    assert instants[-1] / S == pytest.approx(100.0, rel=0.01)
    assert draw("ramp", count=3, rate=2.0, last_rate_per_s=2.0).tolist() == [0, S // 2, S]


@given(st.sampled_from(["constant", "poisson", "gamma", "burst", "ramp"]), st.integers(0, 300), st.integers(0, 2**32))
def test_instants_ascend_and_are_determined_by_the_seed(process: Process, count: int, seed: int) -> None:
    arrivals = Arrivals(process=process, rate_per_s=20.0, cv=1.5, burst_size=3, last_rate_per_s=40.0)
    drawn = draw_arrivals(arrivals, count=count, seed=seed)
    assert drawn.dtype == np.int64
    assert drawn.size == count
    assert (np.diff(drawn) >= 0).all()
    assert (drawn == draw_arrivals(arrivals, count=count, seed=seed)).all()
    assert draw_arrivals(arrivals, count=count + 1, seed=seed + 1).size == count + 1


def test_arrivals_fill_a_duration_and_do_not_exceed_it() -> None:
    within = arrivals_within(Arrivals(process="poisson", rate_per_s=100.0), duration_s=20.0, seed=1)
    assert within.size == pytest.approx(2000, rel=0.1)
    assert 19.5 * S < within[-1] < 20 * S
    assert arrivals_within(Arrivals(process="constant", rate_per_s=2.0), duration_s=3.0, seed=1).size == 6
    ramp = Arrivals(process="ramp", rate_per_s=1.0, last_rate_per_s=3.0)
    assert arrivals_within(ramp, duration_s=10.0, seed=1).size == 20


def test_arrivals_last_at_least_a_duration_and_are_at_least_so_many() -> None:
    constant = Arrivals(process="constant", rate_per_s=2.0)
    lasting = arrivals_at_least(constant, duration_s=3.0, min_count=1, seed=1)
    assert lasting.tolist() == [number * S // 2 for number in range(7)]
    assert arrivals_at_least(constant, duration_s=3.0, min_count=10, seed=1)[-1] == 4.5 * S


@pytest.mark.parametrize("process", ["poisson", "gamma", "burst"])
@pytest.mark.parametrize("seed", range(5))
def test_the_duration_is_counted_from_the_first_arrival_and_one_arrival_is_after_it(
    process: Process, seed: int
) -> None:
    arrivals = Arrivals(process=process, rate_per_s=5.0, cv=2.0, burst_size=4)
    lasting = arrivals_at_least(arrivals, duration_s=10.0, min_count=1, seed=seed)
    since_first = lasting - lasting[0]
    assert since_first[-1] >= 10 * S
    assert (since_first[:-1] < 10 * S).all()
    assert (lasting == draw_arrivals(arrivals, count=lasting.size, seed=seed)).all()


def test_a_trace_begins_with_its_first_instant() -> None:
    assert trace_instants([100.0, 100.5, 102.0]).tolist() == [0, S // 2, 2 * S]
    assert trace_instants([0.0, 1.0], speed=2.0).tolist() == [0, S // 2]


@pytest.mark.parametrize("timestamps", [[], [1.0, 0.5], [float("nan")]])
def test_a_trace_that_is_not_valid_is_refused(timestamps: list[float]) -> None:
    with pytest.raises(InvalidInput, match="ascending order"):
        trace_instants(timestamps)


@pytest.mark.parametrize("process", ["constant", "poisson", "gamma", "burst", "ramp"])
def test_arrivals_beyond_the_maximum_duration_are_refused(process: Process) -> None:
    slow = Arrivals(process=process, rate_per_s=1e-6, last_rate_per_s=1e-6)
    with pytest.raises(InvalidInput, match=r"100000 .* 1e-06 .* \S+e\+1[01] s") as refused:
        draw_arrivals(slow, count=100_000, seed=1)
    assert "larger rate" in refused.value.cure


def test_a_schedule_may_last_as_long_as_the_maximum(wording: Wording) -> None:
    slow = Arrivals(process="constant", rate_per_s=1e-6)
    assert draw_arrivals(slow, count=1001, seed=0)[-1] == MAX_DURATION_S * S
    with pytest.raises(InvalidInput, match="1002 arrivals") as refused:
        draw_arrivals(slow, count=1002, seed=0)
    wording(refused.value)
    assert trace_instants([-MAX_DURATION_S / 2, MAX_DURATION_S / 2])[-1] == MAX_DURATION_S * S
    assert trace_instants([0.0, 2 * MAX_DURATION_S], speed=2.0)[-1] == MAX_DURATION_S * S


@pytest.mark.parametrize(
    "slow",
    [
        Arrivals(process="burst", rate_per_s=1e-6, burst_size=100_000),
        Arrivals(process="gamma", rate_per_s=1e-6, cv=100.0),
    ],
)
def test_arrivals_that_are_drawn_beyond_a_duration_may_exceed_an_int64(slow: Arrivals, wording: Wording) -> None:
    within = arrivals_within(slow, duration_s=86_400.0, seed=0)
    assert ((within >= 0) & (within < 86_400 * S)).all()
    with pytest.raises(InvalidInput) as refused:
        arrivals_within(slow, duration_s=1e10, seed=0)
    wording(refused.value)


@pytest.mark.parametrize(
    ("timestamps", "speed"),
    [([0.0, 1e10, 2e10], 1.0), ([-1e308, 1e308], 1.0), ([0.0, 1e308], 1e-3), ([0.0, 2e6], 1e-3)],
)
def test_a_trace_beyond_the_maximum_duration_is_refused(
    timestamps: list[float], speed: float, wording: Wording
) -> None:
    with pytest.raises(InvalidInput) as refused:
        trace_instants(timestamps, speed=speed)
    wording(refused.value)


@pytest.mark.parametrize("rate", [0.0, -1.0, 1e9, float("nan")])
def test_a_rate_out_of_range_is_refused(rate: float) -> None:
    with pytest.raises(InvalidInput, match="rate_per_s"):
        Arrivals(process="poisson", rate_per_s=rate)


def test_wrong_parameters_are_named(wording: Wording) -> None:
    with pytest.raises(InvalidInput, match="'tea'") as refused:
        Arrivals(process="tea", rate_per_s=1.0)
    wording(refused.value)
    with pytest.raises(InvalidInput) as refused:
        Arrivals(process="ramp", rate_per_s=1.0)
    wording(refused.value)
    with pytest.raises(InvalidInput) as refused:
        arrivals_within(Arrivals(process="poisson", rate_per_s=1e5), duration_s=1e5, seed=0)
    wording(refused.value)
    with pytest.raises(InvalidInput) as refused:
        draw_arrivals(Arrivals(process="trace", rate_per_s=1.0), count=1, seed=0)
    wording(refused.value)


def test_too_few_arrivals_have_no_shape() -> None:
    assert shape_of(np.array([1, 2])) is None
    assert shape_of(np.array([1, 1, 1])) is None
