"""Measure the error rate of sequential stopping, and how many samples it saves, by simulation.

Usage: python -m benchmarks.sequential [RUNS]    2,000 runs of each scenario by default; the seeds are fixed.

False stops: the true mean lies exactly on the margin of the rule, so every stop is an error. The last column is the
error rate of a common practice: a paired t-test after every 50 units, until p < 0.05.

Samples at stop: a run without a decision counts with all its samples. The fixed sample sizes are those of the two-sided
paired t-test (for right and wrong answers, McNemar's) at the same α for the true difference, which is unknown before a
run: with power 0.8, and with the share of runs that the sequence decided as the power (all runs but one if it decided
all). For a whole dataset they are corrected for drawing without replacement: n / (1 + n / N).
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from rich.console import Console
from rich.table import Table
from scipy import stats

from vlmhyperbench.analysis.sequential import PairedSequence, Rule, certain_after, decide, random_order

ALPHA = 0.05
LOOK_UNITS = 50
SAMPLES = 5000
Draw = Callable[[int], "Drawn"]


class Drawn(NamedTuple):
    """One simulated run: gains in the order in which the sequence receives them."""

    gains: npt.NDArray[np.float64]
    sizes: npt.NDArray[np.int64] | None = None
    total_units: int | None = None


class Scenario(NamedTuple):
    """A population whose mean is `truth`, and how a run is drawn from it by its seed."""

    title: str
    truth: float
    draw: Draw


def main(runs: int) -> None:
    """Print the tables."""
    console = Console(width=150)
    table = Table(
        "scenario", "units", "false stops", "t-test at every look", title=f"False stops in {runs:,} runs, α = {ALPHA}"
    )
    for scenario in scenarios():
        units, false, naive = false_stops(scenario, runs)
        table.add_row(scenario.title, f"{units:,}", f"{false / runs:.2%}", f"{naive / runs:.1%}")
    console.print(table)
    small = (0.01, 0.02, 0.03, 0.05, 0.1)
    for title, rule, disagree, differences, is_whole in (
        ("better by > 0, 20 % of pairs differ", Rule(kind="better"), 0.2, small, True),
        ("better by > 0, 20 % of pairs differ", Rule(kind="better"), 0.2, small, False),
        ("better by > 0, 5 % of pairs differ", Rule(kind="better"), 0.05, small[:4], True),
        ("not worse by > 0.02", Rule(kind="not_worse", margin=0.02), 0.2, (-0.1, -0.05, 0.0, 0.02, 0.05), True),
        ("equivalent within 0.05", Rule(kind="equivalent", margin=0.05), 0.2, (0.0, 0.02, 0.1, 0.2), True),
    ):
        drawn = f"a dataset of {SAMPLES:,}" if is_whole else f"independent samples, {SAMPLES:,} at most"
        table = Table(
            *("true difference", "mean", "median", "decided early", "wrongly", "fixed, power 0.8", "fixed, same power"),
            title=f"Samples at stop, {drawn}: {title}; {runs // 4:,} runs",
        )
        for difference in differences:
            table.add_row(*_savings(rule, disagree, difference, runs // 4, is_whole=is_whole))
        console.print(table)
    console.print(_choices(runs // 4))
    console.print(_speed())


def scenarios() -> list[Scenario]:
    """Return populations whose mean is on the margin of the rule, where careless rules stop wrongly."""
    pages = np.random.default_rng(1)
    sizes = pages.geometric(0.3, 400).clip(1, 12)
    # All questions of a page have the same gain, and large pages gain more often: samples are far from independent.
    signs = np.where(pages.random(400) < 0.2 + 0.05 * sizes, 1.0, -1.0)
    mean = float((signs * sizes).sum() / sizes.sum())
    moved = np.repeat(signs, sizes) * 0.5 - 0.5 * mean + 0.02
    return [
        _accuracies("right or wrong, both right 50 %, i.i.d.", 0.5, 0.5),
        _accuracies("right or wrong, both right 90 %, i.i.d.", 0.9, 0.9),
        _accuracies("right or wrong, both right 99 %, i.i.d.", 0.99, 0.99),
        _accuracies("right or wrong, 80 % against 85 %, margin 0.05, i.i.d.", 0.8, 0.85),
        _whole("1,000 samples, 20 % differ, without replacement", [(-1.0, 100), (0.0, 800), (1.0, 100)]),
        _whole("480 samples, every pair differs, without replacement", [(-1.0, 240), (1.0, 240)]),
        _whole("1,000 samples of which 10 differ, without replacement", [(-1.0, 5), (0.0, 990), (1.0, 5)]),
        _whole("1,000 samples, rare large losses, without replacement", [(-1.0, 20), (0.02, 970), (0.03, 20)]),
        Scenario("similarities in [0, 1], i.i.d.", 0.0, _similarities),
        Scenario("pages of 1 to 12 questions of the same gain, shuffled by page", 0.02, _pages(moved, sizes)),
        Scenario("the same questions, shuffled singly", 0.02, _pages(moved, np.ones(len(moved), dtype=np.int64))),
        Scenario("dataset sorted by difficulty, shuffled by random_order", 0.0, _sorted_dataset),
    ]


def false_stops(scenario: Scenario, runs: int) -> tuple[int, int, int]:
    """Return the units of a run, and how many runs the rule and the repeated t-test stop."""
    false, naive, units = 0, 0, 0
    rule = Rule(kind="better", margin=scenario.truth)
    for seed in range(runs):
        drawn = scenario.draw(seed)
        sequence = _fed(drawn)
        units = sequence.units
        false += decide(rule, sequence) is not None
        naive += _t_test_stops(drawn.gains - scenario.truth)
    return units, false, naive


def _accuracies(title: str, first: float, second: float) -> Scenario:
    def draw(seed: int) -> Drawn:
        rng = np.random.default_rng([2, seed])
        return Drawn((rng.random(1000) < second).astype(float) - (rng.random(1000) < first))

    return Scenario(title, round(second - first, 10), draw)


def _whole(title: str, counts: list[tuple[float, int]]) -> Scenario:
    population = np.repeat([value for value, _ in counts], [count for _, count in counts])

    def draw(seed: int) -> Drawn:
        return Drawn(np.random.default_rng([3, seed]).permutation(population), None, len(population))

    return Scenario(title, max(float(population.mean()), 0.0), draw)


def _similarities(seed: int) -> Drawn:
    rng = np.random.default_rng([4, seed])
    return Drawn(rng.beta(0.5, 0.2, 1000) - rng.beta(0.5, 0.2, 1000))


def _pages(gains: npt.NDArray[np.float64], sizes: npt.NDArray[np.int64]) -> Draw:
    parts = np.split(gains, np.cumsum(sizes)[:-1])

    def draw(seed: int) -> Drawn:
        order = np.random.default_rng([5, seed]).permutation(len(sizes))
        return Drawn(np.concatenate([parts[page] for page in order]), sizes[order], len(sizes))

    return draw


def _sorted_dataset(seed: int) -> Drawn:
    # Easy samples come first, where the baseline loses; then hard samples, where it wins.
    gains = np.repeat([0.0, 1.0, 0.0, -1.0], [150, 50, 150, 50])
    return Drawn(gains[random_order([str(sample) for sample in range(400)], seed=seed)], None, 400)


def _fed(drawn: Drawn) -> PairedSequence:
    largest = 1 if drawn.sizes is None else int(drawn.sizes.max())
    sequence = PairedSequence(alpha=ALPHA, low=-1, high=1, total_units=drawn.total_units, largest_unit=largest)
    sequence.update(drawn.gains, drawn.sizes)
    return sequence


def _t_test_stops(gains: npt.NDArray[np.float64]) -> bool:
    counts = np.arange(LOOK_UNITS, len(gains) + 1, LOOK_UNITS)
    means = np.cumsum(gains)[counts - 1] / counts
    variances = (np.cumsum(gains**2)[counts - 1] - counts * means**2) / (counts - 1)
    # While all gains are equal, the t-test is not defined.
    is_spread = variances > 1e-12
    t = np.abs(means[is_spread]) / np.sqrt(variances[is_spread] / counts[is_spread])
    return bool(np.any(2 * stats.t.sf(t, counts[is_spread] - 1) < ALPHA))


def _savings(rule: Rule, disagree: float, difference: float, runs: int, *, is_whole: bool) -> tuple[str, ...]:
    up, down = round(SAMPLES * (disagree + difference) / 2), round(SAMPLES * (disagree - difference) / 2)
    population = np.repeat([1.0, -1.0, 0.0], [up, down, SAMPLES - up - down])
    holds = difference > -rule.margin if rule.kind == "not_worse" else difference > rule.margin
    if rule.kind == "equivalent":
        holds = abs(difference) < rule.margin
    units, decided, wrong = [], 0, 0
    for seed in range(runs):
        rng = np.random.default_rng([6, seed])
        gains = rng.permutation(population) if is_whole else rng.choice(population, SAMPLES)
        shown, refuted = certain_after(rule, _fed(Drawn(gains, None, SAMPLES if is_whole else None)))
        units.append(min(shown, refuted, SAMPLES))
        decided += min(shown, refuted) < SAMPLES
        wrong += min(shown, refuted) < SAMPLES and (shown < refuted) != holds
    powers = (0.8, min(decided, runs - 1) / runs)
    return (
        f"{difference:+.2f}",
        f"{np.mean(units):,.0f}",
        f"{np.median(units):,.0f}",
        f"{decided / runs:.1%}",
        f"{wrong / runs:.1%}",
        *(f"{_fixed(rule, disagree, difference, power, is_whole=is_whole):,.0f}" for power in powers),
    )


def _fixed(rule: Rule, disagree: float, difference: float, power: float, *, is_whole: bool) -> float:
    """Return the sample size with which the two-sided test, or both tests of equivalence, have the given power."""
    ends = {"not_worse": [-rule.margin], "equivalent": [-rule.margin, rule.margin]}.get(rule.kind, [rule.margin])
    spread = np.sqrt(disagree - difference**2)
    away = min(abs(difference - end) for end in ends)
    critical = stats.norm.ppf(1 - ALPHA / 2)
    # In the middle of an equivalence both tests must succeed.
    needed = stats.norm.ppf((1 + power) / 2 if rule.kind == "equivalent" and difference == 0 else power)
    endless = float(((critical + needed) * spread / away) ** 2)
    return endless / (1 + endless / SAMPLES) if is_whole else endless


def _choices(runs: int) -> Table:
    """Compare units and bets: 1,500 pages, about 0.05 better, half of whose questions have the gain of their page."""
    table = Table("shuffled units, and bets", "samples", "mean", "median", title=f"Other choices; {runs:,} runs")
    pages = np.random.default_rng(8)
    sizes = pages.geometric(0.3, 1500).clip(1, 12)
    for title, largest in (("pages of 1 to 12 questions", 12), ("pages of 1 to 12, and one of 50", 50)):
        sizes[0] = largest
        page = np.repeat(np.arange(len(sizes)), sizes)
        drawn = (pages.choice([-1.0, 0.0, 1.0], p=[0.075, 0.8, 0.125], size=len(units)) for units in (sizes, page))
        of_page, of_question = drawn
        values = np.where(pages.random(len(page)) < 0.5, of_page[page], of_question)
        for units, draw in (
            (title, _pages(values, sizes)),
            ("their questions singly", _pages(values, np.ones_like(page))),
        ):
            counts = []
            for seed in range(runs):
                sequence = _fed(draw(seed))
                shown, refuted = certain_after(Rule(kind="better"), sequence)
                counts.append(sequence.counts(min(shown, refuted, sequence.units))[0])
            table.add_row(units, f"{len(values):,}", f"{np.mean(counts):,.0f}", f"{np.median(counts):,.0f}")
    plug_in = [min(_plug_in(gains), _plug_in(-gains)) for gains in (draw(seed).gains for seed in range(runs))]
    table.add_row(
        "questions singly, plug-in bets", f"{len(values):,}", f"{np.mean(plug_in):,.0f}", f"{np.median(plug_in):,.0f}"
    )
    return table


def _plug_in(gains: npt.NDArray[np.float64]) -> int:
    """Return the samples until the plug-in bets of Waudby-Smith and Ramdas 2024 (section 4) are certain of a gain."""
    n, values = len(gains), (gains + 1) / 2
    t = np.arange(1, n + 1)
    means = (0.5 + np.cumsum(values)) / (t + 1)
    variances = np.concatenate([[0.25], (0.25 + np.cumsum((values - means) ** 2)) / (t + 1)])[:-1]
    left = (n / 2 - np.concatenate([[0.0], np.cumsum(values)[:-1]])) / (n - t + 1)
    bets = np.sqrt(2 * np.log(2 / ALPHA) / (variances * t * np.log(1 + t)))
    fair = np.maximum(left, 1e-9)
    capital = np.cumsum(np.log(1 + np.minimum(bets, 0.75 / fair) * (values - fair)))
    reached = np.flatnonzero((capital >= np.log(2 / ALPHA)) | (left < 0))
    return int(reached[0]) + 1 if len(reached) else n


def _speed() -> str:
    rng = np.random.default_rng(7)
    gains = rng.choice([-1.0, 0.0, 1.0], p=[0.1, 0.8, 0.1], size=100_000)
    start = time.perf_counter()
    sequence = _fed(Drawn(gains, None, 200_000))
    decide(Rule(kind="not_worse", margin=0.001), sequence)
    decided_s = time.perf_counter() - start
    sequence.interval()
    return f"100,000 units: update and one decision {decided_s:.2f} s, interval {time.perf_counter() - start:.2f} s"


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 2000)
