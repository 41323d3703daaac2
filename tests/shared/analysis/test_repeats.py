"""Means over repeats: their intervals, and looking after every one of them."""

from __future__ import annotations

import numpy as np
import pytest

from vlmhyperbench.analysis.repeats import confidence_of_look, look, mean_of_repeats
from vlmhyperbench_sdk.errors import InvalidInput


def test_the_interval_is_students() -> None:
    # Mean 10, s = 1, t(2) = 4.3027.
    found = mean_of_repeats([9.0, 10.0, 11.0])
    assert (found.n, found.mean, found.sd) == (3, 10.0, 1.0)
    assert (found.low, found.high) == pytest.approx((10 - 4.3027 / 3**0.5, 10 + 4.3027 / 3**0.5), abs=1e-4)
    assert found.precision == pytest.approx(4.3027 / 3**0.5 / 10, abs=1e-5)


def test_one_repeat_has_no_interval_and_none_no_mean() -> None:
    one, none = mean_of_repeats([5.0]), mean_of_repeats([])
    assert (one.mean, one.low, one.precision, one.reason) == (5.0, None, None, "one repeat has no interval")
    assert (none.mean, none.reason) == (None, "nothing was measured")


def test_a_repeat_without_a_value_leaves_no_mean() -> None:
    found = mean_of_repeats([5.0, None, 6.0])
    assert (found.n, found.mean, found.reason) == (2, None, "1 of 3 repeats have no value")


def test_a_mean_of_zero_has_no_relative_precision() -> None:
    assert mean_of_repeats([-1.0, 1.0]).precision is None


def test_a_confidence_beyond_its_range_is_refused() -> None:
    with pytest.raises(InvalidInput, match="between 0 and 1"):
        mean_of_repeats([1.0], confidence=1.5)


def test_looks_share_what_may_go_wrong() -> None:
    assert confidence_of_look(3) == pytest.approx(1 - 0.05 / 2)
    assert confidence_of_look(5) == pytest.approx(1 - 0.05 / 12)
    assert sum(1 - confidence_of_look(n) for n in range(3, 5000)) == pytest.approx(0.05, abs=1e-4)
    with pytest.raises(InvalidInput, match="before 3"):
        confidence_of_look(2)
    assert look([1.0, 2.0]) is None


def test_whoever_looks_after_every_repeat_is_hardly_ever_misled() -> None:
    rng = np.random.default_rng(2)
    missed = peeked = 0
    for _ in range(400):
        values = rng.normal(100.0, 5.0, 30).tolist()
        looks = [look(values[:n]) for n in range(3, 31)]
        missed += any(one is not None and not (one.low or 0) <= 100.0 <= (one.high or 0) for one in looks)
        fixed = [mean_of_repeats(values[:n]) for n in range(3, 31)]
        peeked += any(not (one.low or 0) <= 100.0 <= (one.high or 0) for one in fixed)
    assert missed / 400 <= 0.05
    # An interval made for one look misses far more often when it is looked at 28 times.
    assert peeked / 400 > 0.1
