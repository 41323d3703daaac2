"""Equivalence and detectable effects agree with scipy's tests, with tables and with simulation."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from vlmhyperbench.analysis.equivalence import detectable_effect, equivalence, pseudo_values
from vlmhyperbench.analysis.stats import mean_of


def _units(values: object) -> np.ndarray:
    column = np.asarray(values, dtype=np.float64)
    return np.column_stack([column, np.ones(len(column))])


def test_pseudo_values_of_a_mean_are_the_differences() -> None:
    rng = np.random.default_rng(1)
    first, second = rng.random(50), rng.random(50)
    assert pseudo_values(_units(first), _units(second), mean_of) == pytest.approx(second - first)


def test_pseudo_values_of_a_pooled_rate_have_its_variance() -> None:
    rng = np.random.default_rng(2)
    first = np.column_stack([rng.poisson(3, 400), rng.integers(10, 40, 400)]).astype(float)
    second = np.column_stack([rng.poisson(4, 400), first[:, 1]])
    pseudo = pseudo_values(first, second, mean_of)
    pooled = second[:, 0].sum() / second[:, 1].sum() - first[:, 0].sum() / first[:, 1].sum()
    assert pseudo.mean() == pytest.approx(pooled, rel=1e-3)
    draws = rng.integers(0, 400, size=(4000, 400))
    resampled = second[draws, 0].sum(1) / second[draws, 1].sum(1) - first[draws, 0].sum(1) / first[draws, 1].sum(1)
    assert pseudo.std(ddof=1) / 20 == pytest.approx(resampled.std(), rel=0.05)


def test_equivalence_is_the_90_percent_interval_inside_of_the_margin() -> None:
    rng = np.random.default_rng(3)
    for _ in range(50):
        pseudo = rng.normal(0.005, 0.1, 300)
        low, high = stats.ttest_1samp(pseudo, 0).confidence_interval(0.9)
        result = equivalence(pseudo, margin=0.015, scale=1.0)
        assert result is not None
        assert result.is_shown == (low > -0.015 and high < 0.015)
        assert (result.margin, result.units) == (0.015, 300)


def test_equivalence_is_rarely_shown_where_the_difference_is_the_margin() -> None:
    rng = np.random.default_rng(4)
    results = [equivalence(rng.normal(0.02, 0.1, 200), margin=0.02, scale=1.0) for _ in range(1000)]
    assert np.mean([result is not None and result.is_shown for result in results]) < 0.07


def test_the_detectable_effect_is_detected_with_its_power() -> None:
    rng = np.random.default_rng(5)
    values = np.tile([-1.0, 1.0], 20)
    effect = detectable_effect(values)
    assert effect is not None
    draws = rng.normal(effect, values.std(ddof=1), size=(4000, 40))
    assert np.mean(stats.ttest_1samp(draws, 0, axis=1).pvalue < 0.05) == pytest.approx(0.8, abs=0.025)


def test_the_detectable_effect_of_cohens_table() -> None:
    # One sample, two-tailed 0.05, power 0.80: a standardised effect of 0.50 needs 34 (Cohen 1988, section 2.4).
    values = np.tile([-1.0, 1.0], 17)
    effect = detectable_effect(values)
    assert effect is not None
    assert effect / values.std(ddof=1) == pytest.approx(0.50, abs=0.01)


@pytest.mark.parametrize("pseudo", [[], [0.1], [0.1, float("nan")]])
def test_without_two_defined_units_nothing_is_tested(pseudo: list[float]) -> None:
    assert equivalence(np.array(pseudo), margin=0.1, scale=1.0) is None
    assert detectable_effect(np.array(pseudo)) is None


def test_units_that_all_differ_by_the_same_amount_show_equivalence_only_in_large_numbers() -> None:
    few, many = (equivalence(np.zeros(count), margin=0.02, scale=1.0) for count in (100, 150))
    assert few is not None
    assert few.p_value == pytest.approx(0.98**100)
    assert not few.is_shown
    assert many is not None
    assert many.is_shown
    distant = equivalence(np.full(1000, 0.5), margin=0.02, scale=1.0)
    assert distant is not None
    assert distant.p_value == 1.0
    assert detectable_effect(np.zeros(9)) is None
