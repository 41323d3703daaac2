"""Sequential testing: an interval of the mean paired difference that stays valid however often it is looked at.

For each hypothetical mean, a gambler bets that the true mean is above it. If the hypothesis is true, the gambler's
capital reaches 2/α at any time with a probability of at most α/2 (Ville 1939). A second gambler bets that the mean is
below. The hypotheses against which neither has reached 2/α form the confidence sequence: the hedged capital process of
Waudby-Smith and Ramdas 2024 (JRSS B 86, theorem 3), without replacement (section 5) where the number of units is known.
`docs/sequential.md` derives it.

The only assumption is that units arrive in the order of `random_order`. Pure; numpy only.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

from vlmhyperbench_sdk.errors import InvalidInput
from vlmhyperbench_sdk.protocols import MetricDescription

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

MAX_BET, BET_RATIO = 0.9, 1.5
"""Largest share of the capital that a bet puts at risk, and the ratio of each bet to the next smaller one."""
OPEN_UNITS = 100_000
"""Number of units that the bets are designed for where the number is unknown."""
_HALVINGS = 20
_ROUNDING = 1e-9
"""Share of the differences' range that floating-point sums may lose; smaller remainders are not bet on."""
_NEVER = 2**63 - 1

Kind = Literal["better", "worse", "not_worse", "equivalent"]
_WITH_MARGIN = ("not_worse", "equivalent")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """Question about the gain g over the baseline. Certainty stops the run, whether the rule holds or not.

    `better` g > margin, `worse` g < -margin, `not_worse` g > -margin, `equivalent` -margin < g < margin.
    """

    kind: Kind
    margin: float = 0.0
    """Margin in the metric's unit."""
    min_units: int = 1
    """Smallest number of units after which a decision is made."""

    def __post_init__(self) -> None:
        if self.kind not in get_args(Kind):
            cure = f"Choose one of {', '.join(get_args(Kind))}."
            raise InvalidInput(f"There is no stop rule {self.kind!r}.", cure=cure)
        if not (math.isfinite(self.margin) and self.margin >= 0):
            raise InvalidInput(f"The margin of a stop rule cannot be {self.margin}.", cure="Write a number from 0 up.")
        if self.kind in _WITH_MARGIN and self.margin == 0:
            cure = "Add a margin, in the metric's unit."
            raise InvalidInput(f"The stop rule {self.kind} needs a margin above 0.", cure=cure)
        if self.min_units < 1:
            message = f"A stop rule cannot be decided after {self.min_units} units."
            raise InvalidInput(message, cure="Write a whole number from 1 up.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """A rule that is certain, and the number of units after which it first was."""

    rule: Rule
    is_shown: bool
    """Whether the rule certainly holds; False where it certainly does not."""
    units: int
    samples: int
    """Number of samples in these units."""
    unscored: int
    """Number of these samples that are unscored."""
    low: float
    """Lower end of the interval after these units."""
    high: float


class PairedSequence:
    """Confidence sequence of the mean gain of one metric over a baseline, fed with whole units in random order.

    Units are shuffled as a whole. With `total_units` the mean is that of all samples of these units, which may depend
    on each other in any way. Without it, the mean is that of the population from which units are independently drawn.
    """

    def __init__(
        self, *, alpha: float, low: float, high: float, total_units: int | None = None, largest_unit: int = 1
    ) -> None:
        """Start without units.

        Args:
            alpha: Probability that the interval ever misses the mean.
            low: Smallest possible difference.
            high: Largest possible difference.
            total_units: Number of units of the whole dataset; None for an infinite population.
            largest_unit: Number of samples in the largest unit. No bet may lose more than such a unit can lose, so that
                one large unit among small ones delays every stop.

        Raises:
            InvalidInput: `alpha` is not between 0 and 1, the range is empty or infinite, or a count is below 1.
        """
        if not 0 < alpha < 1:
            message = f"alpha, the probability of a wrong decision, cannot be {alpha}."
            raise InvalidInput(message, cure="Write a number between 0 and 1, such as 0.05.")
        if not (math.isfinite(low) and math.isfinite(high) and low < high):
            message = f"The range of the differences, {low} to {high}, is empty or infinite."
            raise InvalidInput(message, cure="Choose a metric with a smallest and a largest possible value.")
        if largest_unit < 1 or (total_units is not None and total_units < 1):
            raise InvalidInput("The dataset has no samples.", cure="Give at least 1 unit of at least 1 sample.")
        self.alpha, self.low, self.high = alpha, low, high
        self.total_units, self.largest_unit = total_units, largest_unit
        min_bet = math.sqrt(2 * math.log(2 / alpha) / (total_units or OPEN_UNITS))
        steps = max(math.ceil(math.log(MAX_BET / min_bet, BET_RATIO)), 0)
        self._bets = MAX_BET * BET_RATIO ** -np.arange(steps + 1.0)
        self._batches: list[FloatArray] = [np.empty((4, 0))]
        self.units = 0
        """Number of units that have been fed."""

    def update(
        self, differences: Sequence[float | None] | FloatArray, sizes: Sequence[int] | IntArray | None = None
    ) -> None:
        """Feed the next units; batches of any size have the same result.

        Args:
            differences: Gain of each sample, unit by unit. None or NaN is unscored: it counts as the smallest
                difference for the lower end and as the largest for the upper. Shape: (samples,).
            sizes: Number of samples of each unit; None makes every sample a unit. Shape: (units,).

        Raises:
            InvalidInput: a difference is out of range, or the sizes do not fit; then nothing has been fed.
        """
        values = np.asarray(differences, dtype=np.float64)
        counts = np.ones(len(values), dtype=np.int64) if sizes is None else np.asarray(sizes, dtype=np.int64)
        is_unscored = np.isnan(values)
        slack = _ROUNDING * (self.high - self.low)
        outside = values[(values < self.low - slack) | (values > self.high + slack)]
        if len(outside):
            message = f"The difference {outside[0]} lies outside of the possible range, {self.low} to {self.high}."
            raise InvalidInput(message, cure="Correct the range in the metric's description, or its values.")
        if counts.sum() != len(values) or (counts < 1).any() or (counts > self.largest_unit).any():
            raise InvalidInput(
                f"The sizes of the units are not numbers from 1 to {self.largest_unit} whose sum is {len(values)}, the "
                "number of differences.",
                cure="Give the number of samples of every unit.",
            )
        if self.total_units is not None and self.units + len(counts) > self.total_units:
            message = f"{self.units + len(counts)} units were given, but the dataset has {self.total_units}."
            raise InvalidInput(message, cure="Give every unit once.")
        if len(counts) == 0:
            return
        clipped = values.clip(self.low, self.high)
        rows = np.stack(
            [
                np.where(is_unscored, self.low, clipped),
                np.where(is_unscored, self.high, clipped),
                is_unscored,
                np.ones(len(values)),
            ]
        )
        self.units += len(counts)
        self._batches.append(np.add.reduceat(rows, np.cumsum(counts) - counts, axis=1))

    def interval(self, units: int | None = None) -> tuple[float, float]:
        """Return the lower and upper end after a number of units, by default all; more units never widen the interval.

        Where the order is not random, or with probability `alpha`, low can exceed high: every mean is excluded.
        """
        span = self.high - self.low
        low = high = 0
        # Bisection excludes only hypotheses that are certainly wrong, so its rounding makes the interval wider.
        for halving in range(1, _HALVINGS + 1):
            step = 2 ** (_HALVINGS - halving)
            if self.above(self.low + span * (low + step) / 2**_HALVINGS, units) != _NEVER:
                low += step
            if self.below(self.high - span * (high + step) / 2**_HALVINGS, units) != _NEVER:
                high += step
        return self.low + span * low / 2**_HALVINGS, self.high - span * high / 2**_HALVINGS

    def above(self, mean: float, units: int | None = None) -> int:
        """Return the number of units after which the true mean was first certainly above `mean`.

        Args:
            mean: Hypothesis within the range of differences.
            units: Number of units to look at; None: all.

        Returns:
            A huge number where it is not certain.
        """
        fed = self._fed()[:, :units]
        return self._first(fed[0] - self.low * fed[3], fed[3], mean - self.low)

    def below(self, mean: float, units: int | None = None) -> int:
        """Return the number of units after which the true mean was first certainly below `mean`, like `above`."""
        fed = self._fed()[:, :units]
        return self._first(self.high * fed[3] - fed[1], fed[3], self.high - mean)

    def counts(self, units: int) -> tuple[int, int]:
        """Return the number of samples in the first units, and how many of them are unscored."""
        _, _, unscored, samples = self._fed()[:, :units].sum(axis=1)
        return round(samples), round(unscored)

    def _fed(self) -> FloatArray:
        """Return the sums of each unit: lowest gain, highest gain, unscored, samples. Shape: (4, units)."""
        if len(self._batches) > 1:
            self._batches = [np.concatenate(self._batches, axis=1)]
        return self._batches[0]

    def _first(self, excess: FloatArray, sizes: FloatArray, hypothesis: float) -> int:
        """Return the number of units at which the gambler who bets on more than the hypothesis first has 2/α.

        Args:
            excess: Gain of each unit minus the smallest possible gain, so 0 or more. Shape: (units,).
            sizes: Number of samples of each unit. Shape: (units,).
            hypothesis: Hypothetical mean excess of a sample.
        """
        if hypothesis <= 0:
            return _NEVER
        # Smaller units are padded with samples of the hypothetical mean, which do not change the capital, so that all
        # units have the same size.
        values = excess + (self.largest_unit - sizes) * hypothesis
        expected = self.largest_unit * hypothesis
        fair, is_impossible = np.full(len(values), expected), np.zeros(len(values), dtype=np.bool_)
        if self.total_units is not None:
            left = self.total_units * expected - np.concatenate([[0.0], np.cumsum(values)])
            slack = _ROUNDING * self.total_units * self.largest_unit * (self.high - self.low)
            is_impossible = left[1:] < -slack
            # Where the remainder is within rounding, the next value is known and there is no bet.
            fair = np.where(left[:-1] > slack, left[:-1] / (self.total_units - np.arange(len(values))), values)
        growth = np.divide(values, fair, out=np.ones(len(values)), where=fair > 0) - 1
        capital = np.cumsum(np.log(1 + self._bets[:, None] * growth), axis=1)
        largest = capital.max(axis=0)
        threshold = math.log(2 / self.alpha)
        # The mean of the capitals is at most the largest, so the mean is computed only where the largest suffices.
        is_reached = largest >= threshold
        mean = largest[is_reached] + np.log(np.exp(capital[:, is_reached] - largest[is_reached]).mean(axis=0))
        is_reached[is_reached] = mean >= threshold
        reached = np.flatnonzero(is_reached | is_impossible)
        return int(reached[0]) + 1 if len(reached) else _NEVER


def decide(rule: Rule, sequence: PairedSequence) -> Decision | None:
    """Return the decision at the first unit at which a rule is certain, or None while it is uncertain.

    All rules use the same interval, so any number of rules may be asked of one sequence: the probability that any of
    them is ever decided wrongly is at most `alpha`.

    Raises:
        InvalidInput: the margin lies outside of the differences' range.
    """
    shown, refuted = certain_after(rule, sequence)
    units = max(min(shown, refuted), rule.min_units)
    # Where both ends have passed the margin, the order was not random or the interval is wrong: there is no decision.
    if units > sequence.units or max(shown, refuted) <= units:
        return None
    low, high = sequence.interval(units)
    margins = (-rule.margin, rule.margin)
    samples, unscored = sequence.counts(units)
    return Decision(
        rule=rule,
        is_shown=shown < refuted,
        units=units,
        samples=samples,
        unscored=unscored,
        # The interval is rounded outwards; its ends are moved inwards to the margins that are certainly excluded.
        low=max([low, *(mean for mean in margins if sequence.above(mean, units) <= units)]),
        high=min([high, *(mean for mean in margins if sequence.below(mean, units) <= units)]),
    )


def certain_after(rule: Rule, sequence: PairedSequence) -> tuple[int, int]:
    """Return the numbers of units after which a rule first certainly held, and first certainly did not.

    A huge number stands for never.

    Raises:
        InvalidInput: the margin lies outside of the differences' range.
    """
    margin = rule.margin
    if not (sequence.low < -margin and margin < sequence.high):
        message = f"The margin {margin} lies outside of the possible gains, {sequence.low} to {sequence.high}."
        raise InvalidInput(message, cure="Choose a smaller margin.")
    above, below = sequence.above, sequence.below
    match rule.kind:
        case "better":
            return above(margin), below(margin)
        case "worse":
            return below(-margin), above(-margin)
        case "not_worse":
            return above(-margin), below(-margin)
        case _:
            return max(above(-margin), below(margin)), min(above(margin), below(-margin))


def random_order(units: Sequence[str], *, seed: int) -> list[int]:
    """Return the indices of samples in a random order of their units; the samples of a unit stay together.

    Units are sorted by the SHA-256 of seed and unit, so the order is the same on every machine and independent of the
    dataset's order. The seed must be chosen before any answer is known: trying seeds until a run stops is not valid.

    Args:
        units: Unit of each sample, preferably the sample's own key, so that each sample is shuffled on its own. Shape:
            (samples,).
        seed: Another seed gives another order.
    """
    members: dict[str, list[int]] = {}
    for sample, unit in enumerate(units):
        members.setdefault(unit, []).append(sample)
    ordered = sorted(members, key=lambda unit: sha256(f"{seed}:{unit}".encode()).digest())
    return [sample for unit in ordered for sample in members[unit]]


def request_order(keys: Sequence[str], *, repeats: int, seed: int) -> list[int]:
    """Return the ordinals (repeat · samples + sample) in the order in which a run with a stop rule asks them.

    Samples are the units: the repeats of a sample follow each other.

    Args:
        keys: Key of each sample. Shape: (samples,).
        repeats: Number of times that each sample is asked.
        seed: Seed of `random_order`.
    """
    samples = random_order(keys, seed=seed)
    return [repeat * len(keys) + sample for sample in samples for repeat in range(repeats)]


def gains(
    baseline: Sequence[float | None] | FloatArray,
    other: Sequence[float | None] | FloatArray,
    *,
    direction: Literal["higher", "lower"],
) -> FloatArray:
    """Return the gains of another run over a baseline; NaN where one is unscored. Shape of all: (samples,)."""
    difference = np.asarray(other, dtype=np.float64) - np.asarray(baseline, dtype=np.float64)
    return difference if direction == "higher" else -difference


def gains_of(description: MetricDescription) -> tuple[float, float, Literal["higher", "lower"]]:
    """Return the smallest and the largest gain that a metric can show, and which end of its scale is good.

    Raises:
        InvalidInput: the metric is pooled instead of averaged, its scale has an open end, or it has no direction.
    """
    low, high = description.range
    direction = description.direction
    if description.aggregation != "mean" or low is None or high is None or direction is None:
        raise InvalidInput(
            f"{description.name}@{description.profile} cannot stop a run: the metric is not a mean, has an unbounded "
            "range, or has no better direction.",
            cure="Name another metric in the stop rule, such as exact_match, or leave the stop rule out.",
        )
    return low - high, high - low, direction
