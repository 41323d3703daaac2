"""Ratios of pairs: conditions that a pair shares cancel out."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tests.support.wording import Wording
from vlmhyperbench.analysis.pairs import ratio_of_pairs
from vlmhyperbench_sdk.errors import InvalidInput


def test_the_ratio_is_the_geometric_mean() -> None:
    result = ratio_of_pairs([1.0, 10.0], [2.0, 80.0])
    assert (result.pairs, result.ratio) == (2, pytest.approx(4.0))
    # Logarithms log 2 and log 8: half their distance over √2 is log 2, and t(1) is 12.706.
    assert result.low == pytest.approx(4 * math.exp(-12.706 * math.log(2)), rel=1e-3)
    assert result.high == pytest.approx(4 * math.exp(12.706 * math.log(2)), rel=1e-3)
    assert not result.differs


def test_conditions_that_a_pair_shares_cancel_out() -> None:
    hours = [1.0, 50.0, 3.0, 400.0]
    result = ratio_of_pairs(
        hours, [value * factor for value, factor in zip(hours, (1.1, 1.12, 1.08, 1.1), strict=True)]
    )
    assert result.ratio == pytest.approx(1.1, abs=0.01)
    assert result.differs


def test_with_a_pair_that_lacks_a_value_there_is_no_ratio(wording: Wording) -> None:
    result = ratio_of_pairs([1.0, None, 0.0], [1.0, 2.0, 2.0])
    assert (result.ratio, result.differs) == (None, False)
    wording(result.reason)
    wording(ratio_of_pairs([], []).reason)


def test_one_pair_has_a_ratio_without_an_interval(wording: Wording) -> None:
    result = ratio_of_pairs([2.0], [3.0])
    assert (result.ratio, result.low) == (1.5, None)
    wording(result.reason)


def test_values_that_are_no_pairs_are_refused() -> None:
    with pytest.raises(InvalidInput, match="2 and 1 values"):
        ratio_of_pairs([1.0, 2.0], [1.0])


def test_the_interval_contains_the_true_ratio_with_its_confidence() -> None:
    rng = np.random.default_rng(6)
    held = 0
    for _ in range(500):
        shared = rng.lognormal(0, 2, 6)
        result = ratio_of_pairs(shared.tolist(), (shared * 1.3 * rng.lognormal(0, 0.1, 6)).tolist())
        assert result.low is not None
        assert result.high is not None
        held += result.low <= 1.3 <= result.high
    assert 0.93 <= held / 500 <= 0.97
