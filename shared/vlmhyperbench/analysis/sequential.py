"""When enough is known: an interval of the mean paired difference that holds however often it is looked at.

A gambler bets that the mean lies above a hypothesis; whoever is right about the hypothesis lets the capital reach
2/α with probability α/2 at most, at any time (Ville 1939). What both gamblers, the one above and the one below, leave
standing is the confidence sequence: the hedged capital process of Waudby-Smith and Ramdas 2024 (JRSS B 86, theorem 3),
drawn without replacement (section 5) where the number of units is known. `docs/sequential.md` derives it.

The only thing assumed is the order: units come as `random_order` gives them. Pure; numpy only.
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

BOLDEST, STEP = 0.9, 1.5
"""Largest share of the capital that a bet puts at risk, and how much smaller each next bet is."""
OPEN_UNITS = 100_000
"""For how many units the bets are laid out where nobody knows how many there are."""
_HALVINGS = 20
_ROUNDING = 1e-9
"""Of the differences' range: what adding in floating point may lose, and no bet is made on."""
_NEVER = 2**63 - 1

Kind = Literal["better", "worse", "not_worse", "equivalent"]
_WITH_MARGIN = ("not_worse", "equivalent")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """What is asked of the gain g over the baseline; certainty either way stops.

    `better` g > margin, `worse` g < -margin, `not_worse` g > -margin, `equivalent` -margin < g < margin.
    """

    kind: Kind
    margin: float = 0.0
    """In the metric's unit."""
    min_units: int = 1
    """Before so many units nothing is decided."""

    def __post_init__(self) -> None:
        if self.kind not in get_args(Kind):
            raise InvalidInput(f"A rule is one of {', '.join(get_args(Kind))}, not {self.kind}.")
        if not (math.isfinite(self.margin) and self.margin >= 0):
            raise InvalidInput(f"A margin is a number from 0 up, not {self.margin}.")
        if self.kind in _WITH_MARGIN and self.margin == 0:
            raise InvalidInput(f"The rule {self.kind} needs a margin above 0: without one no sample can show it.")
        if self.min_units < 1:
            raise InvalidInput(f"A rule needs at least 1 unit, not {self.min_units}.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """A rule that is certain, and the unit after which it first was."""

    rule: Rule
    is_shown: bool
    """False where the rule is certain not to hold."""
    units: int
    samples: int
    """In these units."""
    unscored: int
    """Of these samples."""
    low: float
    """The interval after these units; `high` too."""
    high: float


class PairedSequence:
    """The confidence sequence of the mean gain of one metric over a baseline, fed with whole units in random order.

    A unit is what the plan shuffles by itself. With `total_units` the mean is that over all samples of these units, and
    samples may depend on each other in any way; without, it is that over what the units are independent draws from.
    """

    def __init__(
        self, *, alpha: float, low: float, high: float, total_units: int | None = None, largest_unit: int = 1
    ) -> None:
        """Begin without a unit.

        Args:
            alpha: probability that the interval ever misses the mean.
            low: smallest difference possible.
            high: largest difference possible.
            total_units: units of the whole dataset; None draws them from an endless supply.
            largest_unit: samples in the largest unit there is. No bet may lose more than such a unit can, so one large
                unit among small ones delays every stop.

        Raises:
            InvalidInput: `alpha` is not between 0 and 1, the range is empty or endless, or a count is below 1.
        """
        if not 0 < alpha < 1:
            raise InvalidInput(f"alpha lies between 0 and 1; {alpha} does not.")
        if not (math.isfinite(low) and math.isfinite(high) and low < high):
            raise InvalidInput(f"Differences need a range with two ends, not {low} to {high}.")
        if largest_unit < 1 or (total_units is not None and total_units < 1):
            raise InvalidInput("A dataset has at least 1 unit, of at least 1 sample.")
        self.alpha, self.low, self.high = alpha, low, high
        self.total_units, self.largest_unit = total_units, largest_unit
        finest = math.sqrt(2 * math.log(2 / alpha) / (total_units or OPEN_UNITS))
        steps = max(math.ceil(math.log(BOLDEST / finest, STEP)), 0)
        self._bets = BOLDEST * STEP ** -np.arange(steps + 1.0)
        self._batches: list[FloatArray] = [np.empty((4, 0))]
        self.units = 0
        """How many have been fed."""

    def update(
        self, differences: Sequence[float | None] | FloatArray, sizes: Sequence[int] | IntArray | None = None
    ) -> None:
        """Feed the next units; how they are cut into batches changes nothing.

        Args:
            differences: gain of each sample, unit by unit. None or NaN is unscored: it counts as the smallest
                difference for the lower end and as the largest for the upper. Shape: (samples,).
            sizes: samples of each unit; None makes every sample a unit. Shape: (units,).

        Raises:
            InvalidInput: a difference is out of range, or the sizes do not fit; then nothing has been fed.
        """
        given = np.asarray(differences, dtype=np.float64)
        counts = np.ones(len(given), dtype=np.int64) if sizes is None else np.asarray(sizes, dtype=np.int64)
        is_unscored = np.isnan(given)
        slack = _ROUNDING * (self.high - self.low)
        outside = given[(given < self.low - slack) | (given > self.high + slack)]
        if len(outside):
            raise InvalidInput(f"The difference {outside[0]} lies outside of {self.low} to {self.high}.")
        if counts.sum() != len(given) or (counts < 1).any() or (counts > self.largest_unit).any():
            raise InvalidInput(
                f"Sizes of units are 1 to {self.largest_unit} and add up to the {len(given)} differences; these do not."
            )
        if self.total_units is not None and self.units + len(counts) > self.total_units:
            raise InvalidInput(f"More units than the {self.total_units} of the dataset.")
        if len(counts) == 0:
            return
        clipped = given.clip(self.low, self.high)
        rows = np.stack(
            [
                np.where(is_unscored, self.low, clipped),
                np.where(is_unscored, self.high, clipped),
                is_unscored,
                np.ones(len(given)),
            ]
        )
        self.units += len(counts)
        self._batches.append(np.add.reduceat(rows, np.cumsum(counts) - counts, axis=1))

    def interval(self, units: int | None = None) -> tuple[float, float]:
        """Return the two ends after so many units, or after all; more units never widen it.

        Where the order is not random, or by the bad luck that `alpha` allows, low comes above high: no mean is left.
        """
        span = self.high - self.low
        low = high = 0
        # Only hypotheses that are certain to be wrong are cut off, so what rounding costs makes the interval wider.
        for halving in range(1, _HALVINGS + 1):
            step = 2 ** (_HALVINGS - halving)
            if self.above(self.low + span * (low + step) / 2**_HALVINGS, units) != _NEVER:
                low += step
            if self.below(self.high - span * (high + step) / 2**_HALVINGS, units) != _NEVER:
                high += step
        return self.low + span * low / 2**_HALVINGS, self.high - span * high / 2**_HALVINGS

    def above(self, mean: float, units: int | None = None) -> int:
        """Return the unit after which the mean was first certain to be above `mean`; a huge number where it is not.

        Only the first `units` are looked at, or all. `mean` lies within the range of differences.
        """
        fed = self._fed()[:, :units]
        return self._first(fed[0] - self.low * fed[3], fed[3], mean - self.low)

    def below(self, mean: float, units: int | None = None) -> int:
        """Return the unit after which the mean was first certain to be below `mean`, as `above` does."""
        fed = self._fed()[:, :units]
        return self._first(self.high * fed[3] - fed[1], fed[3], self.high - mean)

    def counts(self, units: int) -> tuple[int, int]:
        """Return the samples of the first units, and how many of them are unscored."""
        _, _, unscored, samples = self._fed()[:, :units].sum(axis=1)
        return round(samples), round(unscored)

    def _fed(self) -> FloatArray:
        """Sums of each unit: lowest and highest gain, unscored, samples. Shape: (4, units)."""
        if len(self._batches) > 1:
            self._batches = [np.concatenate(self._batches, axis=1)]
        return self._batches[0]

    def _first(self, excess: FloatArray, sizes: FloatArray, hypothesis: float) -> int:
        """Return the unit at which the gambler who bets on more than the hypothesis has 2/α.

        Args:
            excess: by how much the gain of each unit lies above the smallest possible, 0 and more. Shape: (units,).
            sizes: samples of each unit. Shape: (units,).
            hypothesis: how much a sample has above the smallest possible, on average.
        """
        if hypothesis <= 0:
            return _NEVER
        # A unit smaller than the largest is filled up with samples that are what the hypothesis says: they teach
        # nothing, and all units are of one size.
        values = excess + (self.largest_unit - sizes) * hypothesis
        expected = self.largest_unit * hypothesis
        fair, is_impossible = np.full(len(values), expected), np.zeros(len(values), dtype=np.bool_)
        if self.total_units is not None:
            left = self.total_units * expected - np.concatenate([[0.0], np.cumsum(values)])
            slack = _ROUNDING * self.total_units * self.largest_unit * (self.high - self.low)
            is_impossible = left[1:] < -slack
            # Where hardly anything is left the next value is known, and there is nothing to bet on.
            fair = np.where(left[:-1] > slack, left[:-1] / (self.total_units - np.arange(len(values))), values)
        growth = np.divide(values, fair, out=np.ones(len(values)), where=fair > 0) - 1
        capital = np.cumsum(np.log(1 + self._bets[:, None] * growth), axis=1)
        best = capital.max(axis=0)
        wanted = math.log(2 / self.alpha)
        # The mean of the bets' capitals is not above the largest of them.
        is_rich = best >= wanted
        mean = best[is_rich] + np.log(np.exp(capital[:, is_rich] - best[is_rich]).mean(axis=0))
        is_rich[is_rich] = mean >= wanted
        reached = np.flatnonzero(is_rich | is_impossible)
        return int(reached[0]) + 1 if len(reached) else _NEVER


def decide(rule: Rule, sequence: PairedSequence) -> Decision | None:
    """Return what a rule's first certain unit says, or None while it is uncertain.

    All rules read one interval, so any number of them may be asked of one sequence: the chance that any is ever
    answered wrongly is `alpha` at most.

    Raises:
        InvalidInput: the margin lies outside of the differences' range.
    """
    shown, refuted = certain_after(rule, sequence)
    units = max(min(shown, refuted), rule.min_units)
    # Where both ends pass the margin the order was not random, or luck was bad: nothing may be said.
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
        # The interval is rounded outwards, and must not seem to hold what it was found to exclude.
        low=max([low, *(mean for mean in margins if sequence.above(mean, units) <= units)]),
        high=min([high, *(mean for mean in margins if sequence.below(mean, units) <= units)]),
    )


def certain_after(rule: Rule, sequence: PairedSequence) -> tuple[int, int]:
    """Return the units after which a rule was first certain to hold, and certain not to; a huge number for never.

    Raises:
        InvalidInput: the margin lies outside of the differences' range.
    """
    margin = rule.margin
    if not (sequence.low < -margin and margin < sequence.high):
        raise InvalidInput(f"A margin of {margin} lies outside of {sequence.low} to {sequence.high}.")
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
    """Return the samples' places in a random order of their units; a unit's samples stay together.

    The order is that of the SHA-256 of seed and unit, so it is the same on every machine and does not depend on the
    dataset's own. The seed is drawn before an answer is known: trying seeds until a run stops is not covered.

    Args:
        units: of each sample, its unit: best its own key, so that each is shuffled by itself. Shape: (samples,).
        seed: another seed is another order.
    """
    places: dict[str, list[int]] = {}
    for place, unit in enumerate(units):
        places.setdefault(unit, []).append(place)
    ordered = sorted(places, key=lambda unit: sha256(f"{seed}:{unit}".encode()).digest())
    return [place for unit in ordered for place in places[unit]]


def request_order(keys: Sequence[str], *, repeats: int, seed: int) -> list[int]:
    """Return the ordinals of a run (repeat · samples + sample) as a run with a stop rule asks them.

    Samples are the units: the repeats of one follow each other.

    Args:
        keys: of each sample. Shape: (samples,).
        repeats: how often each is asked.
        seed: of `random_order`.
    """
    places = random_order(keys, seed=seed)
    return [repeat * len(keys) + place for place in places for repeat in range(repeats)]


def gains(
    baseline: Sequence[float | None] | FloatArray,
    other: Sequence[float | None] | FloatArray,
    *,
    direction: Literal["higher", "lower"],
) -> FloatArray:
    """Return how much better the other is than the baseline; NaN where either is unscored. All of shape (samples,)."""
    difference = np.asarray(other, dtype=np.float64) - np.asarray(baseline, dtype=np.float64)
    return difference if direction == "higher" else -difference


def gains_of(description: MetricDescription) -> tuple[float, float, Literal["higher", "lower"]]:
    """Return the smallest and the largest gain that a metric can show, and which end of its scale is good.

    Raises:
        InvalidInput: the metric is pooled, so no mean of differences, or its scale has an open end, or no good one.
    """
    low, high = description.range
    direction = description.direction
    if description.aggregation != "mean" or low is None or high is None or direction is None:
        raise InvalidInput(
            f"{description.name}@{description.profile} cannot stop a run: that needs a mean of values with two ends."
        )
    return low - high, high - low, direction
