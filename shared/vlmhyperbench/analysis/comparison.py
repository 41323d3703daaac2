"""Compare runs on the same samples: paired differences with intervals, and the answers that flipped.

Runs are paired by (sample key, repeat), however their samples were asked for. Samples of one document stay together:
the cluster is the unit. The baseline comes first, and a difference is the other minus the baseline.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy
import polars

from vlmhyperbench.analysis import stats
from vlmhyperbench.analysis.equivalence import detectable_effect, equivalence, pseudo_values
from vlmhyperbench_sdk.protocols import MetricDescription

PAIR_KEY = ("key", "repeat")
_STATISTIC = "stat."
MINIMUM_EFFECT = 0.005
"""A difference below this share of a metric's scale is not worth acting on, however certain it is."""
EQUIVALENCE_MARGIN = 0.02
"""Two targets count as alike where their difference is shown to be below this share of a metric's scale."""
SIGNIFICANT = 0.05

Verdict = Literal[
    "better", "worse", "differs", "too small to matter", "equivalent", "no difference shown", "not comparable"
]

Disagreement = Literal["test", "interval", "holm"]
"""Which of the numbers of one difference would be a contradiction without its reason.

`test`: the interval leaves 0 out, the test does not reject it. `interval`: the test rejects 0, the interval holds it.
`holm`: both see a difference, which the adjustment for several metrics takes back.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """A metric of one run, one row per answer.

    `frame` has `key, repeat, cluster, value` and the additive statistics as `stat.<name>`.
    """

    key: str
    """How machines name it in its run."""
    label: str
    """How people do."""
    definition: str
    """Digest of what a description need not show, such as params (`identity.definition_of`)."""
    description: MetricDescription
    combine: Callable[[Mapping[str, float]], float | None]
    frame: polars.DataFrame

    def is_same(self, other: Measured) -> bool:
        """Whether both give the same number to the same answer: another profile, version or param is another metric."""
        return (self.definition, self.description) == (other.definition, other.description)


@dataclass(frozen=True, slots=True, kw_only=True)
class Delta:
    """How one metric differs from the baseline, on the answers that both runs have a value for."""

    key: str
    """How machines name the metric in the baseline."""
    label: str
    direction: Literal["higher", "lower"] | None
    scale: float
    """Length of the metric's scale, so that differences of several metrics are comparable."""
    is_bounded: bool
    """Whether no single difference is longer than the scale."""
    pairs: int
    lost: int
    """Answers of either run that are no pair: the other has no such answer, or one of the two no value."""
    units: int
    """Documents that the pairs belong to."""
    baseline: float | None
    other: float | None
    difference: float | None
    low: float | None
    high: float | None
    p_value: float | None
    p_adjusted: float | None
    """After Holm, over all metrics of the comparison."""
    test: str
    detectable: float | None
    """The smallest true difference that so many units show in 80 of 100 comparisons."""
    equivalence_p: float | None
    """Of two one-sided tests against `EQUIVALENCE_MARGIN`."""
    wins: int | None
    """Answers that score better than in the baseline; None where nobody says what is better, `losses` too."""
    ties: int
    losses: int | None
    verdict: Verdict
    tested: int = 1
    """Metrics that were tested at once, for which Holm adjusts."""

    @property
    def disagreement(self) -> Disagreement | None:
        """Why its interval, p and adjusted p do not say one thing; None where they do, or nothing was tested."""
        if self.p_value is None or self.p_adjusted is None:
            return None
        is_rejected = self.p_value < SIGNIFICANT
        if self.low is not None and self.high is not None and is_rejected == self.holds_zero:
            return "interval" if is_rejected else "test"
        return "holm" if is_rejected and self.p_adjusted >= SIGNIFICANT else None

    @property
    def holds_zero(self) -> bool:
        """Whether its interval, where there is one, holds 0."""
        return self.low is not None and self.high is not None and self.low <= 0 <= self.high


@dataclass(frozen=True, slots=True, kw_only=True)
class Flips:
    """How often an answer is right or wrong in both runs; `broke` and `mended` are the flips."""

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
    """Return one delta per metric of the baseline that the other run has too, in the baseline's order."""
    shared = [(first, same) for first in baseline if (same := next(filter(first.is_same, other), None)) is not None]
    deltas = [_compare(first, second, seed=seed) for first, second in shared]
    tested = [i for i, delta in enumerate(deltas) if delta.p_value is not None]
    adjusted = stats.holm([deltas[i].p_value or 0.0 for i in tested])
    for i, p_value in zip(tested, adjusted, strict=True):
        known = replace(deltas[i], p_adjusted=p_value, tested=len(tested))
        deltas[i] = _judged(known, minimum_effect=minimum_effect)
    return deltas


def count_flips(baseline: Measured, other: Measured, *, perfect: float) -> Flips:
    """Count rights and wrongs of both runs; an answer is right where its value is `perfect`."""
    pairs = pair(baseline.frame, other.frame)
    first, second = (pairs[column].to_numpy() == perfect for column in ("value", "value_right"))
    return Flips(
        both_right=int((first & second).sum()),
        broke=int((first & ~second).sum()),
        mended=int((~first & second).sum()),
        both_wrong=int((~first & ~second).sum()),
    )


def pair(baseline: polars.DataFrame, other: polars.DataFrame) -> polars.DataFrame:
    """Join two runs' answers that both have a value, in the baseline's order; the other's columns end in `_right`."""
    return baseline.filter(polars.col("value").is_not_null()).join(
        other.filter(polars.col("value").is_not_null()), on=list(PAIR_KEY), how="inner", maintain_order="left"
    )


def _asked(*frames: polars.DataFrame) -> int:
    """Count what either run asked; repeats beyond those of the other are draws of answers that it has."""
    asked = polars.concat([frame.select(PAIR_KEY) for frame in frames]).unique()
    most = min((max(frame["repeat"].to_list()) for frame in frames if frame.height), default=0)
    return asked.filter(polars.col("repeat") <= most).height


def statistics_of(*frames: polars.DataFrame) -> list[str]:
    """Return the columns of statistics that any frame has: a label or field may have been met by one run only."""
    return sorted({name for frame in frames for name in frame.columns if name.startswith(_STATISTIC)})


def with_statistics(frame: polars.DataFrame, names: Sequence[str]) -> polars.DataFrame:
    """Add the statistics that a frame lacks; what was never met was met 0 times."""
    return frame.with_columns(polars.lit(0.0).alias(name) for name in names if name not in frame.columns)


def _compare(baseline: Measured, other: Measured, *, seed: int) -> Delta:
    names = statistics_of(baseline.frame, other.frame)
    pairs = pair(with_statistics(baseline.frame, names), with_statistics(other.frame, names))
    direction = baseline.description.direction
    blank = Delta(
        key=baseline.key,
        label=baseline.label,
        direction=direction,
        scale=scale_of(baseline.description),
        is_bounded=None not in baseline.description.range and baseline.description.aggregation == "mean",
        pairs=pairs.height,
        lost=_asked(baseline.frame, other.frame) - pairs.height,
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
        verdict="not comparable",
    )
    if pairs.height == 0:
        return blank
    is_pooled = baseline.description.aggregation == "pooled" and bool(names)
    keys = [name.removeprefix(_STATISTIC) for name in names]
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
    found = stats.compare_paired(
        sides[0], sides[1], estimator, seed=seed, is_binary=baseline.description.proportion and not is_pooled
    )
    if found is None:
        return blank
    pseudo = pseudo_values(sides[0], sides[1], estimator)
    alike = equivalence(pseudo, margin=EQUIVALENCE_MARGIN * blank.scale, scale=blank.scale)
    gain = (pairs["value_right"] - pairs["value"]).to_numpy() * (-1 if direction == "lower" else 1)
    return replace(
        blank,
        baseline=float(estimator(sides[0].sum(axis=0))),
        other=float(estimator(sides[1].sum(axis=0))),
        difference=found.difference,
        low=found.interval.low if found.interval else None,
        high=found.interval.high if found.interval else None,
        p_value=found.p_value,
        test=found.test,
        detectable=detectable_effect(pseudo),
        equivalence_p=alike.p_value if alike else None,
        wins=int((gain > 0).sum()) if direction else None,
        ties=int((gain == 0).sum()),
        losses=int((gain < 0).sum()) if direction else None,
    )


def _judged(delta: Delta, *, minimum_effect: float) -> Delta:
    """Give a verdict: a difference needs an interval without 0, an adjusted p below 0.05 and a size that matters.

    Where all units differ alike there is no spread to draw an interval from, and p alone decides. A difference that
    is not shown is either shown to be small, or the samples are too few to tell.
    """
    difference, p_value = delta.difference, delta.p_adjusted
    assert difference is not None and p_value is not None, "only what was tested is judged"  # noqa: S101, PT018
    verdict: Verdict
    if delta.holds_zero or p_value >= SIGNIFICANT:
        is_alike = delta.equivalence_p is not None and delta.equivalence_p < SIGNIFICANT
        verdict = "equivalent" if is_alike else "no difference shown"
    elif abs(difference) < minimum_effect * delta.scale:
        verdict = "too small to matter"
    elif delta.direction is None:
        verdict = "differs"
    else:
        verdict = "better" if (difference > 0) == (delta.direction == "higher") else "worse"
    return replace(delta, verdict=verdict)


def scale_of(description: MetricDescription) -> float:
    """Return the length of a metric's scale; one with an open end counts as 1."""
    low, high = description.range
    return high - low if low is not None and high is not None else 1.0
