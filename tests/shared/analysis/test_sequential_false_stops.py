"""False stops, counted by simulation: the mean is exactly the margin, so that every stop is wrong."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from scipy import stats

from vlmhyperbench.analysis.sequential import PairedSequence, Rule, decide, random_order

ALPHA = 0.05
RUNS = 2000


def _fed(
    values: np.ndarray, sizes: np.ndarray | None = None, *, total_units: int | None = None, largest_unit: int = 1
) -> PairedSequence:
    sequence = PairedSequence(alpha=ALPHA, low=-1, high=1, total_units=total_units, largest_unit=largest_unit)
    sequence.update(values, sizes)
    return sequence


def _shuffled(values: list[float], counts: list[int], seed: int) -> np.ndarray:
    return np.random.default_rng(seed).permutation(np.repeat(values, counts))


def _iid(first: float, second: float) -> Callable[[int], PairedSequence]:
    def run(seed: int) -> PairedSequence:
        rng = np.random.default_rng([1, seed])
        return _fed((rng.random(500) < second).astype(float) - (rng.random(500) < first))

    return run


def _whole(values: list[float], counts: list[int]) -> Callable[[int], PairedSequence]:
    return lambda seed: _fed(_shuffled(values, counts, seed), total_units=sum(counts))


def _mixed_sizes(seed: int) -> PairedSequence:
    """Pages of 1 to 8 questions that gain or lose alike; large pages gain, small ones lose, 0.1 in the mean."""
    sizes = np.repeat([1, 2, 8], [200, 100, 25])
    values = np.repeat([-0.5, -0.1, 0.8], [200, 100, 25])
    assert (sizes * values).sum() / sizes.sum() == pytest.approx(0.0666666667)
    order = np.random.default_rng([2, seed]).permutation(len(sizes))
    moved = values[order] + 0.1 - 1 / 15
    return _fed(np.repeat(moved, sizes[order]), sizes[order], total_units=325, largest_unit=8)


def _questions_one_by_one(seed: int) -> PairedSequence:
    """30 pages of 8 questions that gain alike and 30 that lose alike, each question shuffled by itself."""
    names = [f"{page}/{question}" for page in range(60) for question in range(8)]
    values = np.repeat(np.tile([1.0, -1.0], 30), 8)
    return _fed(values[random_order(names, seed=seed)], total_units=480)


def _endless_pages(seed: int) -> PairedSequence:
    """Pages of 1 or 3 questions, the small ones gain 0.3 and the large ones lose 0.1 in the mean: 0.3 - 3 * 0.1 = 0."""
    rng = np.random.default_rng([3, seed])
    is_large = rng.random(300) < 0.5
    sizes = np.where(is_large, 3, 1)
    values = np.where(is_large, -0.1, 0.3) + rng.choice([-0.6, 0.6], size=300)
    return _fed(np.repeat(values, sizes), sizes, largest_unit=3)


def _sorted_by_difficulty(seed: int) -> PairedSequence:
    values = np.repeat([0.0, 1.0, 0.0, -1.0], [100, 50, 100, 50])
    return _fed(values[random_order([str(number) for number in range(300)], seed=seed)], total_units=300)


def _half_unscored(seed: int) -> PairedSequence:
    """Every loss is unscored: the lower end must not rise with the remaining gains."""
    values = _shuffled([-1.0, 0.0, 1.0], [50, 300, 50], seed)
    return _fed(np.where(values < 0, np.nan, values), total_units=400)


@pytest.mark.parametrize(
    ("rule", "run"),
    [
        pytest.param(Rule(kind="better"), _iid(0.5, 0.5), id="half are right"),
        pytest.param(Rule(kind="better"), _iid(0.9, 0.9), id="nine of ten are right"),
        pytest.param(Rule(kind="better"), _iid(0.99, 0.99), id="nearly all are right"),
        pytest.param(Rule(kind="better", margin=0.1), _iid(0.7, 0.8), id="better by exactly the margin"),
        pytest.param(Rule(kind="not_worse", margin=0.05), _iid(0.85, 0.8), id="worse by exactly the margin"),
        pytest.param(Rule(kind="better"), _whole([-1, 0, 1], [60, 280, 60]), id="a whole dataset"),
        pytest.param(Rule(kind="better"), _whole([-1, 0, 1], [3, 494, 3]), id="ties but for six"),
        pytest.param(Rule(kind="better"), _whole([-1.0, 0.02], [8, 400]), id="rare large losses"),
        pytest.param(Rule(kind="better", margin=0.1), _mixed_sizes, id="large pages gain, small ones lose"),
        pytest.param(Rule(kind="better"), _questions_one_by_one, id="questions of a page are alike"),
        pytest.param(Rule(kind="better"), _endless_pages, id="pages from an endless supply"),
        pytest.param(Rule(kind="better"), _sorted_by_difficulty, id="sorted by difficulty, then shuffled"),
        pytest.param(Rule(kind="better"), _half_unscored, id="every loss is unscored"),
    ],
)
def test_false_stops_are_rarer_than_alpha(rule: Rule, run: Callable[[int], PairedSequence]) -> None:
    stops = sum(decide(rule, run(seed)) is not None for seed in range(RUNS))
    # 150 stops would refute alpha at one in a million; no more than 100 are allowed. The most are 86, of every second
    # pair won and the others lost, in an order that is the same everywhere; numpy's orders give 55 at most, so another
    # numpy passes too.
    assert stats.binom.sf(149, RUNS, ALPHA) < 1e-6
    assert stats.binom.sf(100, RUNS, 0.03) < 1e-6
    assert stops <= ALPHA * RUNS


def test_equivalence_at_the_margin_is_falsely_shown_less_often_than_alpha() -> None:
    rule, run = Rule(kind="equivalent", margin=0.1), _whole([-1, 0, 1], [20, 320, 60])
    assert sum(decide(rule, run(seed)) is not None for seed in range(RUNS)) <= ALPHA * RUNS


def test_the_simulation_detects_a_rule_that_looks_too_often() -> None:
    rng = np.random.default_rng(4)
    values = rng.choice([-1.0, 0.0, 1.0], p=[0.15, 0.7, 0.15], size=(RUNS, 500))
    counts = np.arange(1, 501)
    means = np.cumsum(values, axis=1) / counts
    error = np.sqrt(np.maximum(np.cumsum(values**2, axis=1) / counts - means**2, 1e-9) / counts)
    is_significant = np.abs(means / error) > 1.96
    assert is_significant[:, 49::50].any(axis=1).sum() > 0.15 * RUNS


def test_in_the_order_of_a_sorted_dataset_decisions_are_wrong() -> None:
    values = np.repeat([0.0, 1.0, 0.0, -1.0], [100, 50, 100, 50])
    result = decide(Rule(kind="better"), _fed(values, total_units=300))
    assert result is not None
    assert result.is_shown
    assert values.mean() == 0
