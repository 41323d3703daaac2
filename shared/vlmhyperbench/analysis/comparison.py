"""Compare runs on the same samples: paired differences with intervals, and the answers that flipped.

Answers are paired by (sample key, repeat), in whatever order they were asked. Samples of one document stay together:
the document (`cluster`) is the unit. A difference is the other run's value minus the baseline's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Literal

import numpy
import polars

from vlmhyperbench.analysis import stats
from vlmhyperbench.analysis.aggregation import STATISTIC
from vlmhyperbench.analysis.combining import Combine
from vlmhyperbench.analysis.equivalence import detectable_effect, equivalence, pseudo_values
from vlmhyperbench_sdk.protocols import MetricDescription

PAIR_KEY = ("key", "repeat")

MINIMUM_EFFECT = 0.005
"""A difference below this share of a metric's scale is too small to matter, even where it is certain."""
EQUIVALENCE_MARGIN = 0.02
"""Two targets are equivalent where their difference is shown to be below this share of a metric's scale."""
SIGNIFICANT = 0.05


class Verdict(StrEnum):
    """What a comparison of one metric shows."""

    BETTER = "better"
    WORSE = "worse"
    DIFFERS = "differs"
    """There is a difference, and the metric declares no direction."""
    TOO_SMALL = "too small to matter"
    EQUIVALENT = "equivalent"
    NOT_SHOWN = "no difference shown"
    """Neither a difference nor equivalence is shown."""
    NOT_COMPARABLE = "not comparable"


Disagreement = Literal["test", "interval", "holm"]
"""Why the interval, the p-value and the adjusted p-value of a difference do not agree.

`test`: the interval excludes 0, but the test does not reject it. `interval`: the test rejects 0, but the interval
includes it. `holm`: both show a difference, but the adjustment for several tests does not.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """A metric of one run, one row per answer.

    `frame` has the columns `key, repeat, cluster, value` and the additive statistics as `stat.<name>`.
    """

    key: str
    """Name of the metric in machine-readable results of its run."""
    label: str
    """Name of the metric for people."""
    definition: str
    """Digest of what the description does not contain, such as params (`identity.definition_of`)."""
    description: MetricDescription
    combine: Combine
    frame: polars.DataFrame

    def is_same(self, other: Measured) -> bool:
        """Return whether both metrics give the same value to the same answer: profile, version and params are equal."""
        return (self.definition, self.description) == (other.definition, other.description)


@dataclass(frozen=True, slots=True, kw_only=True)
class Delta:
    """The difference of one metric from the baseline, over the answers for which both runs have a value."""

    key: str
    """Name of the metric in machine-readable results of the baseline."""
    label: str
    direction: Literal["higher", "lower"] | None
    scale: float
    """Length of the metric's scale, with which differences of several metrics become comparable."""
    is_bounded: bool
    """Whether the difference of a single answer is at most the scale."""
    pairs: int
    lost: int
    """Number of answers of either run without a pair: the other run has no such answer, or one of them no value."""
    units: int
    """Number of documents that the pairs belong to."""
    baseline: float | None
    other: float | None
    difference: float | None
    low: float | None
    high: float | None
    p_value: float | None
    p_adjusted: float | None
    """p-value after Holm's adjustment over all metrics of all runs that are compared."""
    test: str
    detectable: float | None
    """Smallest true difference that this number of units shows with a power of 80 %."""
    equivalence_p: float | None
    """p-value of two one-sided tests against `EQUIVALENCE_MARGIN`."""
    wins: int | None
    """Number of answers that score better than in the baseline; like `losses` None for a metric without a direction."""
    ties: int
    losses: int | None
    verdict: Verdict
    tested: int = 1
    """Number of tests, one for each metric of each run, for which Holm adjusts."""

    @property
    def disagreement(self) -> Disagreement | None:
        """Why interval, p-value and adjusted p-value disagree; None where they agree, or nothing was tested."""
        if self.p_value is None or self.p_adjusted is None:
            return None
        is_rejected = self.p_value < SIGNIFICANT
        if self.low is not None and self.high is not None and is_rejected == self.holds_zero:
            return "interval" if is_rejected else "test"
        return "holm" if is_rejected and self.p_adjusted >= SIGNIFICANT else None

    @property
    def holds_zero(self) -> bool:
        """Whether there is an interval and it includes 0."""
        return self.low is not None and self.high is not None and self.low <= 0 <= self.high


@dataclass(frozen=True, slots=True, kw_only=True)
class Flips:
    """Counts of answers by whether they are right in each run; `broke` and `mended` are the flips."""

    both_right: int
    broke: int
    """Right in the baseline, wrong in the other."""
    mended: int
    both_wrong: int

    @property
    def pairs(self) -> int:
        return self.both_right + self.broke + self.mended + self.both_wrong


def compare_metrics(
    baseline: Sequence[Measured], other: Sequence[Measured], *, seed: int = 0, minimum_effect: float = MINIMUM_EFFECT
) -> list[Delta]:
    """Return a delta for each metric of the baseline that the other run also has, in the baseline's order."""
    shared = [(first, same) for first in baseline if (same := next(filter(first.is_same, other), None)) is not None]
    deltas = [_compare(first, second, seed=seed) for first, second in shared]
    return adjust_together([deltas], minimum_effect=minimum_effect)[0]


def adjust_together(
    compared: Sequence[Sequence[Delta]], *, minimum_effect: float = MINIMUM_EFFECT
) -> list[list[Delta]]:
    """Return the deltas of several runs with p-values that are adjusted over all of them, and the verdicts on these.

    More runs have more chances to differ by chance, just as more metrics have.
    """
    tested = [delta.p_value for deltas in compared for delta in deltas if delta.p_value is not None]
    adjusted = iter(stats.holm(tested))

    def judge(delta: Delta) -> Delta:
        if delta.p_value is not None:
            delta = replace(delta, p_adjusted=next(adjusted), tested=len(tested))
        return replace(delta, verdict=_verdict_of(delta, minimum_effect=minimum_effect))

    return [[judge(delta) for delta in deltas] for deltas in compared]


def count_flips(baseline: Measured, other: Measured, *, perfect: float) -> Flips:
    """Count right and wrong answers of both runs; an answer is right where its value is `perfect`."""
    pairs = pair(baseline.frame, other.frame)
    first, second = (pairs[column].to_numpy() == perfect for column in ("value", "value_right"))
    return Flips(
        both_right=int((first & second).sum()),
        broke=int((first & ~second).sum()),
        mended=int((~first & second).sum()),
        both_wrong=int((~first & ~second).sum()),
    )


def pair(baseline: polars.DataFrame, other: polars.DataFrame) -> polars.DataFrame:
    """Join the answers for which both runs have a value, in the baseline's order.

    The names of the other run's columns end in `_right`.
    """
    return baseline.filter(polars.col("value").is_not_null()).join(
        other.filter(polars.col("value").is_not_null()), on=list(PAIR_KEY), how="inner", maintain_order="left"
    )


def _count_asked(*frames: polars.DataFrame) -> int:
    """Count the answers that either run asked for, up to the number of repeats that both have."""
    asked = polars.concat([frame.select(PAIR_KEY) for frame in frames]).unique()
    max_repeat = min((max(frame["repeat"].to_list()) for frame in frames if frame.height), default=0)
    return asked.filter(polars.col("repeat") <= max_repeat).height


def statistics_of(*frames: polars.DataFrame) -> list[str]:
    """Return the columns of statistics that any frame has: a label or a field may occur in one run only."""
    return sorted({name for frame in frames for name in frame.columns if name.startswith(STATISTIC)})


def with_statistics(frame: polars.DataFrame, names: Sequence[str]) -> polars.DataFrame:
    """Add the statistics that a frame lacks, as 0: what does not occur counts 0 times."""
    return frame.with_columns(polars.lit(0.0).alias(name) for name in names if name not in frame.columns)


def _compare(baseline: Measured, other: Measured, *, seed: int) -> Delta:
    names = statistics_of(baseline.frame, other.frame)
    pairs = pair(with_statistics(baseline.frame, names), with_statistics(other.frame, names))
    direction = baseline.description.direction
    untested = Delta(
        key=baseline.key,
        label=baseline.label,
        direction=direction,
        scale=scale_of(baseline.description),
        is_bounded=None not in baseline.description.range and baseline.description.aggregation == "mean",
        pairs=pairs.height,
        lost=_count_asked(baseline.frame, other.frame) - pairs.height,
        units=pairs["cluster"].n_unique(),
        baseline=None,
        other=None,
        difference=None,
        low=None,
        high=None,
        p_value=None,
        p_adjusted=None,
        test="",
        detectable=None,
        equivalence_p=None,
        wins=None,
        ties=0,
        losses=None,
        verdict=Verdict.NOT_COMPARABLE,
    )
    if pairs.height == 0:
        return untested
    is_pooled = baseline.description.aggregation == "pooled" and bool(names)
    keys = [name.removeprefix(STATISTIC) for name in names]
    estimator = stats.pooled(baseline.combine, keys) if is_pooled else stats.mean_of
    units = numpy.array(pairs["cluster"].to_list())
    sides = []
    for suffix in ("", "_right"):
        columns = (
            [pairs[f"{name}{suffix}"].fill_null(0.0).to_numpy() for name in names]
            if is_pooled
            else [pairs[f"value{suffix}"].to_numpy(), numpy.ones(pairs.height)]
        )
        sides.append(stats.by_unit(numpy.column_stack(columns).astype(numpy.float64), units))
    compared = stats.compare_paired(
        sides[0], sides[1], estimator, seed=seed, is_binary=baseline.description.proportion and not is_pooled
    )
    if compared is None:
        return untested
    pseudo = pseudo_values(sides[0], sides[1], estimator)
    tost = equivalence(pseudo, margin=EQUIVALENCE_MARGIN * untested.scale, scale=untested.scale)
    gain = (pairs["value_right"] - pairs["value"]).to_numpy() * (-1 if direction == "lower" else 1)
    return replace(
        untested,
        baseline=float(estimator(sides[0].sum(axis=0))),
        other=float(estimator(sides[1].sum(axis=0))),
        difference=compared.difference,
        low=compared.interval.low if compared.interval else None,
        high=compared.interval.high if compared.interval else None,
        p_value=compared.p_value,
        test=compared.test,
        detectable=detectable_effect(pseudo),
        equivalence_p=tost.p_value if tost else None,
        wins=int((gain > 0).sum()) if direction else None,
        ties=int((gain == 0).sum()),
        losses=int((gain < 0).sum()) if direction else None,
    )


def _verdict_of(delta: Delta, *, minimum_effect: float) -> Verdict:
    """Return the verdict on a difference; one that was not tested is not comparable.

    A difference is shown where the interval excludes 0 and the adjusted p-value is below 0.05. Where all units differ
    by the same amount there is no interval, and the p-value alone decides. Where no difference is shown, the two
    one-sided tests decide whether the targets are equivalent.
    """
    difference, p_value = delta.difference, delta.p_adjusted
    if difference is None or p_value is None:
        return Verdict.NOT_COMPARABLE
    if delta.holds_zero or p_value >= SIGNIFICANT:
        is_equivalent = delta.equivalence_p is not None and delta.equivalence_p < SIGNIFICANT
        return Verdict.EQUIVALENT if is_equivalent else Verdict.NOT_SHOWN
    if abs(difference) < minimum_effect * delta.scale:
        return Verdict.TOO_SMALL
    if delta.direction is None:
        return Verdict.DIFFERS
    return Verdict.BETTER if (difference > 0) == (delta.direction == "higher") else Verdict.WORSE


def scale_of(description: MetricDescription) -> float:
    """Return the length of a metric's scale; one with an open end counts as 1."""
    low, high = description.range
    return high - low if low is not None and high is not None else 1.0
