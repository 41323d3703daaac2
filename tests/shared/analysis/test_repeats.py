"""Means over repeats: their intervals, and looking after every repeat."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.wording import Wording
from vlmhyperbench.analysis.repeats import confidence_of_look, look, mean_of_repeats
from vlmhyperbench_sdk.errors import InvalidInput


def test_the_interval_is_students() -> None:
    # Mean 10, s = 1, t(2) = 4.3027.
    result = mean_of_repeats([9.0, 10.0, 11.0])
    assert (result.n, result.mean, result.sd) == (3, 10.0, 1.0)
    assert (result.low, result.high) == pytest.approx((10 - 4.3027 / 3**0.5, 10 + 4.3027 / 3**0.5), abs=1e-4)
    assert result.precision == pytest.approx(4.3027 / 3**0.5 / 10, abs=1e-5)


def test_a_single_repeat_has_no_interval_and_without_repeats_there_is_no_mean(wording: Wording) -> None:
    single, empty = mean_of_repeats([5.0]), mean_of_repeats([])
    assert (single.mean, single.low, single.precision) == (5.0, None, None)
    wording(single.reason)
    assert empty.mean is None
    wording(empty.reason)


def test_with_a_repeat_that_has_no_value_there_is_no_mean(wording: Wording) -> None:
    result = mean_of_repeats([5.0, None, 6.0])
    assert (result.n, result.mean) == (2, None)
    wording(result.reason)


def test_a_mean_of_zero_has_no_relative_precision() -> None:
    assert mean_of_repeats([-1.0, 1.0]).precision is None


def test_a_confidence_beyond_its_range_is_refused() -> None:
    with pytest.raises(InvalidInput, match="between 0 and 1"):
        mean_of_repeats([1.0], confidence=1.5)


def test_all_looks_together_have_the_risk_of_one(wording: Wording) -> None:
    assert confidence_of_look(3) == pytest.approx(1 - 0.05 / 2)
    assert confidence_of_look(5) == pytest.approx(1 - 0.05 / 12)
    assert sum(1 - confidence_of_look(n) for n in range(3, 5000)) == pytest.approx(0.05, abs=1e-4)
    with pytest.raises(InvalidInput) as refused:
        confidence_of_look(2)
    wording(refused.value)
    assert look([1.0, 2.0]) is None


def test_intervals_that_are_looked_at_after_every_repeat_rarely_miss() -> None:
    rng = np.random.default_rng(2)
    missed = peeked = 0
    for _ in range(400):
        values = rng.normal(100.0, 5.0, 30).tolist()
        looks = [look(values[:n]) for n in range(3, 31)]
        missed += any(mean is not None and not (mean.low or 0) <= 100.0 <= (mean.high or 0) for mean in looks)
        fixed = [mean_of_repeats(values[:n]) for n in range(3, 31)]
        peeked += any(not (mean.low or 0) <= 100.0 <= (mean.high or 0) for mean in fixed)
    assert missed / 400 <= 0.05
    # An interval made for one look misses far more often when it is looked at 28 times.
    assert peeked / 400 > 0.1
