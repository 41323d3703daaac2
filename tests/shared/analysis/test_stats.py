"""Intervals and tests against published values, scipy itself, and laws that must hold."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats as scipy_stats

from vlmhyperbench.analysis import stats


@pytest.fixture
def rng() -> np.random.Generator:
    """Numbers that do not depend on which tests have run before."""
    return np.random.default_rng(7)


def _units(*values: float, counts: float = 1.0) -> stats.FloatArray:
    return np.array([[value, counts] for value in values], dtype=np.float64)


def _of_share(right: stats.FloatArray, samples: stats.FloatArray) -> stats.Interval | None:
    """The interval of one group of documents."""
    return stats.proportion_intervals(np.column_stack([right, samples]), np.array([len(right)]), seed=0)[0]


def _cer(sums: Mapping[str, float]) -> float | None:
    return sums["edits"] / sums["length"] if sums["length"] else None


def test_wilson_gives_the_published_interval() -> None:
    result = stats.wilson(8, 10)
    assert result is not None
    assert [result.low, result.high] == pytest.approx([0.4902, 0.9433], abs=5e-5)
    assert (result.method, result.units, result.confidence) == ("wilson", 10, 0.95)


def test_wilson_without_a_trial_is_undefined() -> None:
    assert stats.wilson(0, 0) is None


def test_an_interval_excludes_values_outside() -> None:
    result = stats.Interval(low=0.1, high=0.4, method="bca", units=9)
    assert [result.excludes(value) for value in (0.0, 0.1, 0.4, 0.5)] == [True, False, False, True]


def test_samples_of_one_document_become_one_unit() -> None:
    sums = stats.by_unit(np.array([[1.0, 1.0], [0.0, 1.0], [1.0, 1.0]]), ["b", "a", "b"])
    assert sums.tolist() == [[0.0, 1.0], [2.0, 2.0]]
    assert stats.by_unit(np.zeros((0, 2)), []).shape == (0, 2)


def test_pooled_estimates_follow_the_metrics_combine() -> None:
    estimate = stats.pooled(_cer, ["edits", "length"])
    assert estimate(np.array([[1.0, 4.0], [2.0, 4.0]])).tolist() == [0.25, 0.5]
    assert np.isnan(estimate(np.array([0.0, 0.0])))


@pytest.mark.parametrize("highest", [3, 1_000_000])
def test_many_estimates_are_those_of_their_rows_whether_or_not_they_repeat(highest: int) -> None:
    sums = np.random.default_rng(1).integers(0, highest, size=(30_000, 2)).astype(np.float64)
    result = stats.pooled(_cer, ["edits", "length"])(sums)
    expected = [edits / length if length else np.nan for edits, length in sums.tolist()]
    assert np.array_equal(result, expected, equal_nan=True)


def test_the_bootstrap_of_a_mean_is_scipys_bca(rng: np.random.Generator) -> None:
    values = rng.gamma(2.0, size=60)
    expected = scipy_stats.bootstrap(
        (values,), np.mean, n_resamples=stats.RESAMPLES, method="BCa", rng=np.random.default_rng(3)
    ).confidence_interval
    result = stats.interval(_units(*values), stats.mean_of, seed=3)
    assert result is not None
    assert [result.low, result.high] == pytest.approx([expected.low, expected.high])
    assert result.method == "bca"


def test_a_value_beyond_all_resamples_has_an_interval() -> None:
    def nearly_complete(sums: stats.FloatArray) -> stats.FloatArray:
        return np.asarray(sums[..., 0] == 2**30 - 1, dtype=np.float64) + sums[..., 1] / 2**30

    units = np.array([[2.0**power, 2.0**power] for power in range(30)])
    result = stats.interval(units, nearly_complete, seed=0)
    assert result is not None
    assert np.isfinite([result.low, result.high]).all()


def test_the_same_seed_gives_the_same_interval_and_another_seed_another(rng: np.random.Generator) -> None:
    units = _units(*rng.random(30))
    assert stats.interval(units, stats.mean_of, seed=1) == stats.interval(units, stats.mean_of, seed=1)
    assert stats.interval(units, stats.mean_of, seed=1) != stats.interval(units, stats.mean_of, seed=2)


def test_above_5000_units_the_interval_is_normal(rng: np.random.Generator) -> None:
    values = rng.random(stats.BOOTSTRAP_UNITS + 1)
    result = stats.interval(_units(*values), stats.mean_of, seed=0)
    reach = 1.959964 * values.std(ddof=1) / np.sqrt(len(values))
    assert result is not None
    assert result.method == "cluster_normal"
    assert [result.low, result.high] == pytest.approx([values.mean() - reach, values.mean() + reach], abs=1e-7)


def test_at_5000_units_the_interval_is_bootstrapped(rng: np.random.Generator) -> None:
    result = stats.interval(_units(*rng.random(stats.BOOTSTRAP_UNITS)), stats.mean_of, seed=0)
    assert result is not None
    assert result.method == "bca"


def test_normal_intervals_are_robust_to_samples_that_come_twice(rng: np.random.Generator) -> None:
    values = rng.random(6000)
    once = stats.interval(_units(*values), stats.mean_of, seed=0)
    twice = stats.interval(np.column_stack([2 * values, np.full(6000, 2.0)]), stats.mean_of, seed=0)
    assert once is not None
    assert twice is not None
    assert [twice.low, twice.high] == pytest.approx([once.low, once.high])


def test_a_pooled_ratio_has_an_interval_by_the_same_way(rng: np.random.Generator) -> None:
    lengths = rng.integers(5, 20, size=50).astype(np.float64)
    units = np.column_stack([np.floor(lengths * rng.random(50)), lengths])
    result = stats.interval(units, stats.pooled(_cer, ["edits", "length"]), seed=5)
    assert result == stats.interval(units, stats.mean_of, seed=5)


@pytest.mark.parametrize("values", [(), (0.5,), (0.5, 0.5, 0.5)])
def test_without_variance_there_is_no_interval(values: tuple[float, ...]) -> None:
    assert stats.interval(np.array(_units(*values)).reshape(-1, 2), stats.mean_of, seed=0) is None


def test_an_estimate_that_some_units_leave_undefined_has_no_interval() -> None:
    units = np.array([[1.0, 3.0], [0.0, 0.0]])
    assert stats.interval(units, stats.pooled(_cer, ["edits", "length"]), seed=0) is None


def test_an_estimate_that_a_resample_leaves_undefined_has_no_interval() -> None:
    units = np.array([[1.0, 3.0], [2.0, 3.0], [0.0, 0.0], [0.0, 0.0]])
    assert stats.interval(units, stats.pooled(_cer, ["edits", "length"]), seed=0) is None


def test_a_share_of_independent_samples_has_wilsons_interval() -> None:
    right = np.array([1.0] * 8 + [0.0] * 2)
    assert _of_share(right, np.ones(10)) == stats.wilson(8, 10)
    assert _of_share(np.zeros(0), np.zeros(0)) is None


def test_a_share_is_bootstrapped_by_document_where_documents_have_several_samples() -> None:
    right, samples = np.array([2.0, 0.0, 1.0, 2.0, 0.0]), np.full(5, 2.0)
    result = _of_share(right, samples)
    assert result is not None
    assert (result.method, result.units) == ("bca", 5)


def test_where_all_documents_agree_each_is_one_trial() -> None:
    assert _of_share(np.full(5, 2.0), np.full(5, 2.0)) == stats.wilson(5, 5)
    assert _of_share(np.zeros(5), np.full(5, 2.0)) == stats.wilson(0, 5)


def test_mcnemars_exact_test_counts_discordant_pairs_only() -> None:
    assert stats.mcnemar_exact(1, 8) == pytest.approx(2 * (1 + 9) / 2**9)
    assert stats.mcnemar_exact(0, 0) == 1.0


def test_binary_samples_are_compared_by_mcnemar() -> None:
    first, second = _units(1, 1, 0, 0, 1), _units(1, 1, 1, 1, 1)
    result = stats.compare_paired(first, second, stats.mean_of, seed=0, is_binary=True)
    assert result is not None
    assert (result.test, result.units) == ("mcnemar_exact", 5)
    assert result.difference == pytest.approx(0.4)
    assert result.p_value == 0.5


def test_binary_samples_of_shared_documents_are_compared_by_permutation() -> None:
    result = stats.compare_paired(
        _units(1, 0, 2, counts=2.0), _units(2, 2, 2, counts=2.0), stats.mean_of, seed=0, is_binary=True
    )
    assert result is not None
    assert result.test == "permutation"


def test_few_units_are_permuted_exactly_like_scipy(rng: np.random.Generator) -> None:
    first, second = rng.random(9), rng.random(9) + 0.2
    expected = scipy_stats.permutation_test(
        (first, second), lambda a, b, axis: np.mean(b - a, axis=axis), permutation_type="samples", vectorized=True
    )
    result = stats.compare_paired(_units(*first), _units(*second), stats.mean_of, seed=0)
    assert result is not None
    assert result.p_value == pytest.approx(expected.pvalue)


def test_many_units_are_permuted_at_random_near_scipys_value(rng: np.random.Generator) -> None:
    first = rng.random(40)
    second = first + rng.normal(0.05, 0.2, size=40)
    expected = scipy_stats.permutation_test(
        (first, second),
        lambda a, b, axis: np.mean(b - a, axis=axis),
        permutation_type="samples",
        vectorized=True,
        rng=np.random.default_rng(0),
    )
    result = stats.compare_paired(_units(*first), _units(*second), stats.mean_of, seed=11)
    assert result is not None
    assert result.p_value == pytest.approx(expected.pvalue, abs=0.03)
    assert result == stats.compare_paired(_units(*first), _units(*second), stats.mean_of, seed=11)


def test_many_permutations_take_bounded_memory(rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = _units(*rng.random(20)), _units(*rng.random(20))
    whole = stats.compare_paired(first, second, stats.mean_of, seed=2)
    monkeypatch.setattr(stats, "_BATCH_NUMBERS", 4000)
    pieces = stats.compare_paired(first, second, stats.mean_of, seed=2)
    assert whole is not None
    assert pieces is not None
    assert pieces.p_value == pytest.approx(whole.p_value, abs=0.03)


def test_equal_targets_do_not_differ(rng: np.random.Generator) -> None:
    units = _units(*rng.random(30))
    result = stats.compare_paired(units, units, stats.mean_of, seed=0)
    assert result is not None
    assert (result.difference, result.p_value, result.interval) == (0.0, 1.0, None)


def test_a_comparison_without_defined_values_is_undefined() -> None:
    assert stats.compare_paired(np.zeros((0, 2)), np.zeros((0, 2)), stats.mean_of, seed=0) is None
    assert stats.compare_paired(np.zeros((2, 2)), np.ones((2, 2)), stats.mean_of, seed=0) is None


@pytest.mark.parametrize(
    ("p_values", "expected"),
    [([0.01, 0.04, 0.03, 0.005], [0.03, 0.06, 0.06, 0.02]), ([0.6, 0.9], [1.0, 1.0]), ([], [])],
)
def test_holm_adjusts_in_the_order_given(p_values: list[float], expected: list[float]) -> None:
    assert stats.holm(p_values) == pytest.approx(expected)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12))
def test_holm_never_lowers_a_p_value_and_keeps_the_order(p_values: list[float]) -> None:
    adjusted = stats.holm(p_values)
    assert all(before <= after <= 1 for before, after in zip(p_values, adjusted, strict=True))
    assert [adjusted[index] for index in np.argsort(p_values, kind="stable")] == sorted(adjusted)


@given(
    st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=1, max_size=12),
    st.integers(0, 2**32 - 1),
)
def test_an_interval_is_ordered_and_within_the_observed_values(pairs: list[tuple[int, int]], seed: int) -> None:
    units = np.array([[right, right + wrong] for right, wrong in pairs], dtype=np.float64)
    result = stats.interval(units, stats.pooled(_cer, ["edits", "length"]), seed=seed)
    if result is not None:
        assert 0 <= result.low <= result.high <= 1


@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=8))
def test_swapping_the_targets_mirrors_the_comparison(pairs: list[tuple[bool, bool]]) -> None:
    first, second = _units(*(before for before, _ in pairs)), _units(*(after for _, after in pairs))
    there = stats.compare_paired(first, second, stats.mean_of, seed=1)
    back = stats.compare_paired(second, first, stats.mean_of, seed=1)
    assert there is not None
    assert back is not None
    assert there.difference == pytest.approx(-back.difference)
    assert there.p_value == pytest.approx(back.p_value)
