"""Ratios of medians, and how often their intervals hold the truth."""

from __future__ import annotations

import numpy as np

from vlmhyperbench.analysis.interference import median_ratio


def test_a_median_is_divided_by_the_baselines() -> None:
    result = median_ratio([20.0, 40.0, 30.0], [10.0])
    assert (result.value, result.low, result.high) == (3.0, None, None)


def test_the_ends_of_the_interval_divide_opposite_ends() -> None:
    # At 97.5 % the median of seven lies between the first and the last: each is missed with 1/128.
    result = median_ratio(range(10, 80, 10), range(1, 8))
    assert (result.value, result.low, result.high) == (10.0, 10 / 7, 70.0)


def test_without_a_median_there_is_no_ratio() -> None:
    assert median_ratio([], [1.0]).value is None
    assert median_ratio([1.0], []).value is None
    assert median_ratio([1.0], [0.0]).value is None


def test_the_interval_contains_the_true_ratio_at_least_with_its_confidence() -> None:
    rng = np.random.default_rng(4)
    held = 0
    for _ in range(300):
        result = median_ratio(rng.exponential(3.0, 60).tolist(), rng.exponential(1.5, 20).tolist())
        assert result.low is not None
        assert result.high is not None
        held += result.low <= 2.0 <= result.high
    assert held >= 285
