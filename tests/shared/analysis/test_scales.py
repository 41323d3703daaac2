"""Round numbers on axes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vlmhyperbench.analysis.scales import log_ticks, round_step


@pytest.mark.parametrize(
    ("min_step", "step"), [(1.0, 1.0), (1.1, 2.0), (2.1, 5.0), (5.1, 10.0), (0.03, 0.05), (100.0, 100.0)]
)
def test_steps_are_one_two_or_five_times_a_power_of_ten(min_step: float, step: float) -> None:
    assert round_step(min_step) == pytest.approx(step)


@pytest.mark.parametrize(
    ("low", "high", "ticks"),
    [
        (1, 1000, (1, 10, 100, 1000)),
        (2, 150, (3, 10, 30, 100)),
        (9, 110, (10, 20, 50, 100)),
        (1, 6, (1, 1.5, 2, 3, 5)),
        (100, 103, (100, 100.5, 101, 101.5, 102, 102.5, 103)),
        (5, 5, (5,)),
    ],
)
def test_a_logarithmic_axis_has_round_ticks(low: float, high: float, ticks: tuple[float, ...]) -> None:
    assert log_ticks(low, high) == pytest.approx(ticks)


@given(st.floats(1e-6, 1e12), st.floats(1.001, 1e9))
def test_ticks_ascend_within_the_axis(low: float, ratio: float) -> None:
    ticks = log_ticks(low, low * ratio)
    assert list(ticks) == sorted(set(ticks))
    assert all(low * 0.999999 <= tick <= low * ratio * 1.000001 for tick in ticks)
    assert 2 <= len(ticks) <= 22
