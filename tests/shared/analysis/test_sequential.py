"""Sequential stopping: the capital of bets, properties of the interval, and decisions of rules."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.wording import Wording
from vlmhyperbench.analysis.sequential import (
    BET_RATIO,
    MAX_BET,
    PairedSequence,
    Rule,
    certain_after,
    decide,
    gains,
    gains_of,
)
from vlmhyperbench_sdk.errors import InvalidInput
from vlmhyperbench_text_metrics.anls import Anls
from vlmhyperbench_text_metrics.cer import Cer

ALPHA = 0.05

GAINS = st.lists(st.sampled_from([-1.0, -0.25, 0.0, 0.5, 1.0]), min_size=1, max_size=60)


def _fed(
    values: object,
    sizes: object = None,
    *,
    total_units: int | None = None,
    largest_unit: int = 1,
    alpha: float = ALPHA,
) -> PairedSequence:
    sequence = PairedSequence(alpha=alpha, low=-1, high=1, total_units=total_units, largest_unit=largest_unit)
    sequence.update(values, sizes)
    return sequence


def _shuffled(values: list[float], counts: list[int], seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).permutation(np.repeat(values, counts))


# The capital


def test_a_gain_multiplies_the_capital_of_each_bet() -> None:
    # With alpha 0.9 and 2 units the finest bet is sqrt(2 ln(2 / 0.9) / 2) = 0.89, so 0.9 and 0.6 are laid out, and
    # 2 / 0.9 = 2.22 is wanted. For a mean of 0 a gain of 1 doubles what was bet: (1.9 + 1.6) / 2 = 1.75 is too little.
    sequence = _fed([1.0], total_units=2, alpha=0.9)
    assert sequence.above(0.0) > 1
    # For a mean of -0.3 it pays 2 / 0.7 = 2.86 times what was bet: (1 + 0.9 * 1.86 + 1 + 0.6 * 1.86) / 2 = 2.39.
    assert sequence.above(-0.3) == 1


@pytest.mark.parametrize("total_units", [200, None])
@pytest.mark.parametrize("mean", [-0.5, -0.1, 0.0, 0.13])
def test_the_capital_is_that_of_waudby_smith_and_ramdas(total_units: int | None, mean: float) -> None:
    values = np.random.default_rng(1).choice([-1.0, 0.0, 0.5, 1.0], p=[0.1, 0.3, 0.3, 0.3], size=150)
    finest = math.sqrt(2 * math.log(40) / (total_units or 100_000))
    bets = [MAX_BET]
    while bets[-1] > finest:
        bets.append(bets[-1] / BET_RATIO)
    # On the scale from 0 to 1, with the mean of what is left and the bet as a share of the largest possible one.
    hypothesis, seen, capitals, expected = (mean + 1) / 2, 0.0, [1.0] * len(bets), None
    for index, value in enumerate((values + 1) / 2):
        left = hypothesis if total_units is None else (total_units * hypothesis - seen) / (total_units - index)
        capitals = [capital * (1 + bet / left * (value - left)) for capital, bet in zip(capitals, bets, strict=True)]
        seen += value
        is_impossible = total_units is not None and seen > total_units * hypothesis
        if expected is None and (sum(capitals) / len(bets) >= 40 or is_impossible):
            expected = index + 1
            break
    assert expected is not None or mean > 0
    assert (_fed(values, total_units=total_units).above(mean) < 1000) == (expected is not None)
    if expected is not None:
        assert _fed(values, total_units=total_units).above(mean) == expected
    # Below is above, seen in a mirror.
    mirrored = _fed(-values, total_units=total_units)
    assert mirrored.below(-mean) == _fed(values, total_units=total_units).above(mean)


def test_a_mean_that_the_remaining_samples_cannot_reach_is_excluded_without_any_bet() -> None:
    # 6 of 10 gain all: even if the others lose all, the mean is 0.2. So small an alpha no bet reaches.
    sequence = _fed(np.ones(6), total_units=10, alpha=1e-12)
    assert sequence.above(0.19) == 6
    assert sequence.above(0.21) > 10
    assert sequence.interval()[0] == pytest.approx(0.2, abs=1e-5)


def test_after_the_last_sample_the_mean_is_known() -> None:
    values = _shuffled([-1.0, 0.0, 0.5, 1.0], [20, 40, 20, 20])
    low, high = _fed(values, total_units=100).interval()
    assert (low, high) == pytest.approx((0.1, 0.1), abs=1e-5)
    assert low <= 0.1 <= high


def test_a_mean_equal_to_the_margin_is_never_decided_in_spite_of_rounding() -> None:
    # 0.1 + 0.2 - 0.3 is not 0 in floating point.
    for seed in range(20):
        sequence = _fed(_shuffled([0.1, 0.2, -0.3], [10, 10, 10], seed), total_units=30)
        assert decide(Rule(kind="better"), sequence) is None
        low, high = sequence.interval()
        assert low <= 0 <= high


def test_units_of_several_samples_count_by_their_samples() -> None:
    # 3 pages of 1, 2 and 3 questions: (1 + 0 - 3) / 6.
    sequence = _fed([1.0, 1.0, -1.0, -1.0, -1.0, -1.0], [1, 2, 3], total_units=3, largest_unit=3)
    assert sequence.interval() == pytest.approx((-2 / 6, -2 / 6), abs=1e-5)
    assert sequence.counts(2) == (3, 0)


def test_a_hundred_thousand_equal_gains_neither_overflow_nor_end_in_nan() -> None:
    for total_units in (None, 100_001):
        low, high = _fed(np.ones(100_000), total_units=total_units).interval()
        assert 0.999 < low <= high == 1.0


def test_before_the_first_unit_nothing_is_known() -> None:
    sequence = PairedSequence(alpha=ALPHA, low=-1, high=1)
    sequence.update([])
    assert sequence.interval() == (-1.0, 1.0)
    assert decide(Rule(kind="better"), sequence) is None
    assert sequence.above(-1.0) > 10**9  # nothing is below the smallest difference


# Properties


@settings(deadline=None, max_examples=40)
@given(GAINS, st.booleans())
def test_more_units_never_widen_the_interval(values: list[float], is_whole: bool) -> None:
    sequence = PairedSequence(alpha=0.3, low=-1, high=1, total_units=len(values) if is_whole else None)
    low, high = sequence.interval()
    for value in values:
        sequence.update([value])
        assert sequence.interval()[0] >= low
        assert sequence.interval()[1] <= high
        low, high = sequence.interval()


@settings(deadline=None, max_examples=40)
@given(GAINS, st.lists(st.integers(0, 60), max_size=5), st.sampled_from([None, 60]))
def test_batches_change_nothing(values: list[float], cuts: list[int], total_units: int | None) -> None:
    whole = _fed(values, total_units=total_units, alpha=0.3)
    parts = PairedSequence(alpha=0.3, low=-1, high=1, total_units=total_units)
    for part in np.split(np.array(values), sorted(min(cut, len(values)) for cut in cuts)):
        parts.update(part)
    assert parts.units == whole.units
    assert parts.interval() == whole.interval()
    rule = Rule(kind="equivalent", margin=0.5)
    assert decide(rule, parts) == decide(rule, whole)


@settings(deadline=None, max_examples=60)
@given(GAINS, st.data(), st.sampled_from([None, 60]))
def test_an_unscored_pair_never_makes_stopping_easier(
    values: list[float], data: st.DataObject, total_units: int | None
) -> None:
    hidden = data.draw(st.lists(st.booleans(), min_size=len(values), max_size=len(values)))
    partly: list[float | None] = [None if is_hidden else value for value, is_hidden in zip(values, hidden, strict=True)]
    scored, unscored = (_fed(given, total_units=total_units, alpha=0.4) for given in (values, partly))
    for mean in (-0.5, 0.0, 0.25):
        assert unscored.above(mean) >= scored.above(mean)
        assert unscored.below(mean) >= scored.below(mean)
    assert unscored.interval()[0] <= scored.interval()[0]
    assert unscored.interval()[1] >= scored.interval()[1]


@settings(deadline=None, max_examples=40)
@given(GAINS, st.data())
def test_certainty_about_a_mean_includes_all_means_beyond_it(values: list[float], data: st.DataObject) -> None:
    sizes = []
    while sum(sizes) < len(values):
        sizes.append(data.draw(st.integers(1, min(4, len(values) - sum(sizes)))))
    sequence = _fed(values, sizes, total_units=len(sizes) + 3, largest_unit=4, alpha=0.4)
    means = np.linspace(-0.99, 0.99, 12)
    assert all(np.diff([sequence.above(mean) for mean in means]) >= 0)
    assert all(np.diff([sequence.below(mean) for mean in means]) <= 0)


# Rules

WINS = _shuffled([-1.0, 0.0, 1.0], [50, 600, 350])  # mean 0.3 of 1,000 samples
EVEN = _shuffled([-1.0, 0.0, 1.0], [100, 1800, 100])


@pytest.mark.parametrize(
    ("kind", "margin", "values", "is_shown"),
    [
        ("better", 0.0, WINS, True),
        ("better", 0.1, WINS, True),
        ("better", 0.1, -WINS, False),
        ("better", 0.1, EVEN, False),
        ("worse", 0.1, -WINS, True),
        ("worse", 0.1, WINS, False),
        ("not_worse", 0.1, WINS, True),
        ("not_worse", 0.1, EVEN, True),
        ("not_worse", 0.1, -WINS, False),
        ("equivalent", 0.1, EVEN, True),
        ("equivalent", 0.1, WINS, False),
        ("equivalent", 0.1, -WINS, False),
    ],
)
def test_a_rule_stops_where_it_is_certain_either_way(
    kind: str, margin: float, values: np.ndarray, is_shown: bool
) -> None:
    rule = Rule(kind=kind, margin=margin)
    sequence = _fed(values, total_units=len(values))
    result = decide(rule, sequence)
    assert result is not None
    assert result.is_shown is is_shown
    assert (result.rule, result.samples, result.unscored) == (rule, result.units, 0)
    assert result.units < len(values) // 2
    assert result.low <= values.mean() <= result.high
    # One unit earlier nothing was certain.
    assert decide(rule, _fed(values[: result.units - 1], total_units=len(values))) is None
    assert decide(rule, _fed(values[: result.units], total_units=len(values))) == result


def test_the_interval_of_a_decision_excludes_its_margin() -> None:
    better, equivalent = Rule(kind="better", margin=0.1), Rule(kind="equivalent", margin=0.1)
    shown = decide(better, _fed(WINS, total_units=1000))
    refuted = decide(better, _fed(EVEN, total_units=2000))
    alike = decide(equivalent, _fed(EVEN, total_units=2000))
    assert shown is not None
    assert refuted is not None
    assert alike is not None
    assert shown.low >= 0.1 > 0.0999 > 0
    assert refuted.high <= 0.1
    assert -0.1 <= alike.low < alike.high <= 0.1


def test_equal_targets_are_neither_better_nor_worse() -> None:
    sequence = _fed(EVEN, total_units=2000)
    assert decide(Rule(kind="better"), sequence) is None
    assert decide(Rule(kind="worse"), sequence) is None


def test_no_rule_stops_before_its_smallest_number_of_units() -> None:
    rule = Rule(kind="better")
    early = decide(rule, _fed(WINS, total_units=1000))
    assert early is not None
    assert early.units < 200
    patient = replace(rule, min_units=200)
    assert decide(patient, _fed(WINS[:199], total_units=1000)) is None
    late = decide(patient, _fed(WINS, total_units=1000))
    assert late is not None
    assert late.units == 200
    assert late.low > early.low


def test_a_rule_whose_margin_both_ends_have_passed_is_not_decided() -> None:
    # 100 gains, then 400 losses: no random order does that.
    sequence = _fed(np.repeat([1.0, -1.0], [100, 400]), total_units=1000)
    shown, refuted = certain_after(Rule(kind="better"), sequence)
    assert shown < 100 < refuted < 500
    assert decide(Rule(kind="better", min_units=500), sequence) is None
    low, high = sequence.interval()
    assert low > 0 > high


def test_a_decision_counts_its_samples_and_the_unscored_ones() -> None:
    sizes = np.full(150, 2)
    values = np.tile([1.0, np.nan, 1.0, 1.0], 75)
    result = decide(Rule(kind="better"), _fed(values, sizes, total_units=200, largest_unit=2))
    assert result is not None
    assert result.samples == 2 * result.units
    assert result.unscored == math.ceil(result.units / 2)


@pytest.mark.parametrize(
    "rule",
    [
        {"kind": "best"},
        {"kind": "better", "margin": -0.1},
        {"kind": "better", "margin": math.nan},
        {"kind": "not_worse"},
        {"kind": "equivalent"},
        {"kind": "better", "min_units": 0},
    ],
)
def test_a_rule_without_meaning_is_refused(rule: dict[str, object], wording: Wording) -> None:
    with pytest.raises(InvalidInput) as refused:
        Rule(**rule)
    wording(refused.value)


def test_a_margin_outside_of_the_range_is_refused(wording: Wording) -> None:
    with pytest.raises(InvalidInput) as refused:
        decide(Rule(kind="better", margin=1.0), _fed([0.0]))
    wording(refused.value)


@pytest.mark.parametrize(
    "given",
    [
        {"alpha": 0.0},
        {"alpha": 1.0},
        {"low": 1.0},
        {"high": math.inf},
        {"total_units": 0},
        {"largest_unit": 0},
    ],
)
def test_a_sequence_that_cannot_be_valid_is_refused(given: dict[str, float], wording: Wording) -> None:
    with pytest.raises(InvalidInput) as refused:
        PairedSequence(**{"alpha": 0.05, "low": -1.0, "high": 1.0, **given})
    wording(refused.value)


@pytest.mark.parametrize(
    ("differences", "sizes"),
    [
        ([0.0, 1.1], None),
        ([-2.0], None),
        ([math.inf], None),
        ([0.0, 0.0], [1]),
        ([0.0, 0.0], [2, 0]),
        ([0.0, 0.0, 0.0], [3]),
        ([0.0, 0.0, 0.0, 0.0], None),
    ],
)
def test_units_that_do_not_fit_are_refused_and_not_fed(
    differences: list[float], sizes: list[int] | None, wording: Wording
) -> None:
    sequence = PairedSequence(alpha=ALPHA, low=-1, high=1, total_units=3, largest_unit=2)
    with pytest.raises(InvalidInput) as refused:
        sequence.update(differences, sizes)
    wording(refused.value)
    assert sequence.units == 0


def test_a_difference_that_rounding_moved_out_of_its_range_is_accepted() -> None:
    sequence = _fed([1.0 + 1e-15, -1.0 - 1e-15])
    assert sequence.units == 2


# Input


def test_a_gain_follows_the_direction_of_the_metric_and_needs_both_values() -> None:
    assert gains([0.25, 1.0], [1.0, 0.5], direction="higher").tolist() == [0.75, -0.5]
    assert gains([0.25, 1.0], [1.0, 0.5], direction="lower").tolist() == [-0.75, 0.5]
    assert np.isnan(gains([None, 1.0], [1.0, None], direction="higher")).all()


def test_gains_of_a_metric_from_0_to_1_lie_between_minus_1_and_1() -> None:
    assert gains_of(Anls().description) == (-1.0, 1.0, "higher")
    assert gains_of(replace(Anls().description, range=(-1.0, 1.0))) == (-2.0, 2.0, "higher")


@pytest.mark.parametrize(
    "description",
    [
        Cer().description,
        replace(Anls().description, aggregation="pooled"),
        replace(Anls().description, range=(None, 1.0)),
        replace(Anls().description, range=(0.0, None)),
    ],
)
def test_pooled_metrics_and_open_scales_cannot_stop_a_run(description: object, wording: Wording) -> None:
    with pytest.raises(InvalidInput) as refused:
        gains_of(description)
    wording(refused.value)
