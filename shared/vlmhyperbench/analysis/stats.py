"""Confidence intervals and paired tests, with numpy alone: an API without scipy compares and ranks runs.

All functions work on **units**, which are drawn independently: the samples of a document are one unit. A unit is a row
of additive sums (for a mean: sum and count). An **estimator** maps the sums of any set of units to a value, so that
means, corpus BLEU and pooled CER are the same case.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from vlmhyperbench.analysis.combining import Combine, combine_rows
from vlmhyperbench.analysis.results import CONFIDENCE, Interval, Method
from vlmhyperbench.analysis.student import NORMAL, upper_quantile

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

Estimator = Callable[[FloatArray], FloatArray]
"""Sums of shape (…, statistics) → values of shape (…); NaN where a value is undefined."""

BOOTSTRAP_UNITS = 5000
"""Largest number of units of a bootstrap interval; with more, intervals are cluster-robust and normal."""
BOOTSTRAP_GROUPS, BOOTSTRAP_TABLE = 100, 50_000
"""Largest numbers of groups, and of units in groups up to `BOOTSTRAP_UNITS`, of a table with bootstrap intervals."""
RESAMPLES = 2000
PERMUTATIONS = 9999
_BATCH_NUMBERS = 2_000_000
_COMBINED = 10_000
"""Number of rows of sums that are converted to Python numbers at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PairedComparison:
    """Comparison of two targets on the same units; `difference` is the second minus the first."""

    units: int
    difference: float
    interval: Interval | None
    p_value: float
    test: Literal["mcnemar_exact", "permutation"]


def wilson(successes: int, n: int, *, confidence: float = CONFIDENCE) -> Interval | None:
    """Return Wilson's score interval of a proportion (Wilson 1927); None without a trial."""
    if n == 0:
        return None
    z2 = NORMAL.inv_cdf((1 + confidence) / 2) ** 2
    centre = (successes + z2 / 2) / (n + z2)
    half_width = math.sqrt(z2) / (n + z2) * math.sqrt(successes * (n - successes) / n + z2 / 4)
    low = 0.0 if successes == 0 else centre - half_width
    high = 1.0 if successes == n else centre + half_width
    return Interval(low=low, high=high, method="wilson", units=n, confidence=confidence)


@dataclass(frozen=True, slots=True, kw_only=True)
class Intervals:
    """Intervals of many groups, and the method of each. Shape of each: (groups,)."""

    low: FloatArray
    """Lower ends; like `high` NaN where a group has no interval."""
    high: FloatArray
    method: npt.NDArray[np.object_]
    """Values of `Method`; None where a group has no interval."""
    units: IntArray
    confidence: float = CONFIDENCE

    def __getitem__(self, group: int) -> Interval | None:
        method: Method | None = self.method[group]
        if method is None:
            return None
        low, high, units = float(self.low[group]), float(self.high[group]), int(self.units[group])
        return Interval(low=low, high=high, method=method, units=units, confidence=self.confidence)


def by_unit(statistics: FloatArray, units: Sequence[str] | npt.NDArray[np.str_] | IntArray) -> FloatArray:
    """Sum the statistics of the samples of each unit, units in order of their names. Shape: (units, statistics).

    Args:
        statistics: Statistics of each sample. Shape: (samples, statistics).
        units: Unit of each sample. Shape: (samples,).
    """
    _, unit, counts = np.unique(np.asarray(units), return_inverse=True, return_counts=True)
    return sums_of_runs(statistics[np.argsort(unit, kind="stable")], counts)


def sums_of_runs(rows: FloatArray, counts: IntArray) -> FloatArray:
    """Sum runs of consecutive rows; an empty run sums to zero. Shape: (runs, columns).

    Args:
        rows: Rows of all runs, run by run. Shape: (rows, columns).
        counts: Number of rows of each run. Shape: (runs,).
    """
    # A zero before each run gives empty runs a sum, and makes numpy add in the same order as `sum` over the run.
    starts = np.cumsum(counts + 1) - counts - 1
    is_row = np.ones(len(rows) + len(counts), dtype=np.bool_)
    is_row[starts] = False
    sums = np.empty((len(counts), rows.shape[1]))
    padded = np.zeros(len(is_row))
    for column in range(rows.shape[1]):
        padded[is_row] = rows[:, column]
        sums[:, column] = np.add.reduceat(padded, starts)
    return sums


def mean_of(sums: FloatArray) -> FloatArray:
    """Estimate a mean from (sum, count). Shape: (…, 2) → (…)."""
    with np.errstate(invalid="ignore", divide="ignore"):
        return sums[..., 0] / sums[..., 1]


def pooled(combine: Combine, names: Sequence[str]) -> Estimator:
    """Make an estimator from a metric's `combine`.

    Args:
        combine: Maps sums of statistics to a value, or None where it is undefined.
        names: Names of the statistics, in the order of the columns. Without statistics every value is undefined.
    """

    def values_of(rows: FloatArray) -> FloatArray:
        values = np.empty(len(rows))
        for first in range(0, len(rows), _COMBINED):
            part = slice(first, first + _COMBINED)
            values[part] = combine_rows(combine, names, rows[part].T.tolist())  # numpy reads None as NaN
        return values

    def estimate(sums: FloatArray) -> FloatArray:
        if not names:
            return np.full(sums.shape[:-1], np.nan)
        rows = sums.reshape(-1, len(names))
        if len(rows) <= _COMBINED:
            return values_of(rows).reshape(sums.shape[:-1])
        distinct, index = _distinct(rows)
        return values_of(distinct)[index].reshape(sums.shape[:-1])

    return estimate


def _distinct(rows: FloatArray) -> tuple[FloatArray, IntArray]:
    """Return the distinct rows and the index of each row, or all rows where few repeat; short texts have equal sums."""
    keys = rows @ np.random.default_rng(0).random(rows.shape[1])
    _, first, index = np.unique(keys, return_index=True, return_inverse=True)
    is_exact = len(first) < len(rows) // 2 and bool((rows[first[index]] == rows).all())
    return (rows[first], index) if is_exact else (rows, np.arange(len(rows)))


def proportion_intervals(
    units: FloatArray, counts: IntArray, *, seed: int, confidence: float = CONFIDENCE
) -> Intervals:
    """Return the interval of each group's share of right samples.

    It is Wilson's where every unit is one sample, and that of `intervals` where units have several samples. Where all
    samples of these are right, or all wrong, resamples do not vary; then it is Wilson's with each document as a trial.

    Args:
        units: Number of right samples and of samples of each unit, group by group. Shape: (units, 2).
        counts: Number of units of each group. Shape: (groups,).
        seed: Seed of the bootstrap.
        confidence: Confidence of the intervals.
    """
    totals = sums_of_runs(units, counts)
    right, n = totals[:, 0], totals[:, 1]
    is_single = n == counts
    trials = np.where(is_single, np.round(right), np.where(right > 0, counts, 0)).astype(np.int64)
    is_wilson = (is_single | (right == 0) | (right == n)) & (counts > 0)
    # Groups with Wilson's interval are not resampled, so they have no units here.
    is_resampled = np.repeat(~is_wilson, counts)
    result = intervals(units[is_resampled], np.where(is_wilson, 0, counts), mean_of, seed=seed, confidence=confidence)
    pairs, index = np.unique(np.column_stack([trials, counts])[is_wilson], axis=0, return_inverse=True)
    ends = np.array(
        [
            (interval.low, interval.high)
            for successes, total in pairs.tolist()
            if (interval := wilson(successes, total, confidence=confidence))
        ]
    )
    result.low[is_wilson], result.high[is_wilson] = ends.reshape(-1, 2)[index.ravel()].T
    result.method[is_wilson] = "wilson"
    result.units[:] = counts
    return result


def interval(units: FloatArray, estimator: Estimator, *, seed: int, confidence: float = CONFIDENCE) -> Interval | None:
    """Return the interval of one estimate, as `intervals` of a single group; None where it is undefined."""
    return intervals(units, np.array([len(units)]), estimator, seed=seed, confidence=confidence)[0]


def intervals(
    units: FloatArray, counts: IntArray, estimator: Estimator, *, seed: int, confidence: float = CONFIDENCE
) -> Intervals:
    """Return the interval of each group's estimate: BCa bootstrap up to 5,000 units, cluster-robust normal above.

    Large tables are not resampled. With more than 100 groups, or more than 50,000 units in groups of up to 5,000, the
    intervals of these groups are cluster-robust too, with Student's quantile of units − 1 degrees of freedom (Cameron
    and Miller 2015, section VI.D).

    A group of fewer than two units, or of units without variance, has no interval.

    Args:
        units: Additive sums of each unit, group by group. Shape: (units, statistics).
        counts: Number of units of each group. Shape: (groups,).
        estimator: Maps sums to a value.
        seed: Seed of the bootstrap; the same seed gives the same interval.
        confidence: Confidence of the intervals.
    """
    is_large = counts > BOOTSTRAP_UNITS
    is_large_table = len(counts) > BOOTSTRAP_GROUPS or int(counts[~is_large].sum()) > BOOTSTRAP_TABLE
    values, influence = _influences(units, counts, estimator)
    low, high = _cluster_robust(values, influence, counts, confidence)
    method = np.where(is_large, "cluster_normal", "cluster_t" if is_large_table else "bca").astype(np.object_)
    starts = np.cumsum(counts) - counts
    for group in np.flatnonzero(np.isfinite(low) & ~is_large).tolist() if not is_large_table else ():
        part = slice(starts[group], starts[group] + counts[group])
        low[group], high[group] = _bca(units[part], estimator, influence[part], seed, confidence)
    undefined = ~(np.isfinite(low) & np.isfinite(high))
    low[undefined], high[undefined], method[undefined] = np.nan, np.nan, None
    return Intervals(low=low, high=high, method=method, units=counts.copy(), confidence=confidence)


def compare_paired(
    first: FloatArray,
    second: FloatArray,
    estimator: Estimator,
    *,
    seed: int,
    is_binary: bool = False,
    confidence: float = CONFIDENCE,
) -> PairedComparison | None:
    """Compare two targets measured on the same units.

    The test is McNemar's exact test where every unit is one right or wrong sample. Otherwise it is a permutation test
    that exchanges whole units between the targets, so that the samples of a document stay together.

    Args:
        first: Sums of each unit for one target. Shape: (units, statistics).
        second: Sums of the same units, in the same order, for the other target. Shape: (units, statistics).
        estimator: Maps sums to a value.
        seed: Seed of bootstrap and permutation.
        is_binary: Whether the first statistic counts right samples and the second samples.
        confidence: Confidence of the interval of the difference.

    Returns:
        None without a unit, or where a value is undefined.
    """
    both = np.hstack([first, second])
    width = first.shape[1]

    def difference(sums: FloatArray) -> FloatArray:
        return estimator(sums[..., width:]) - estimator(sums[..., :width])

    observed = float(difference(both.sum(axis=0)))
    if len(both) == 0 or not np.isfinite(observed):
        return None
    is_mcnemar = is_binary and bool((first[:, 1] == 1).all() and (second[:, 1] == 1).all())
    return PairedComparison(
        units=len(both),
        difference=observed,
        interval=interval(both, difference, seed=seed, confidence=confidence),
        p_value=_mcnemar(first[:, 0], second[:, 0]) if is_mcnemar else _permutation(first, second, estimator, seed),
        test="mcnemar_exact" if is_mcnemar else "permutation",
    )


def mcnemar_exact(only_first: int, only_second: int) -> float:
    """Return the two-sided exact p-value of McNemar's test from the discordant pairs (McNemar 1947)."""
    discordant = only_first + only_second
    tail, ways = 0, 1  # whole numbers, so that nothing is rounded before the end
    for drawn in range(min(only_first, only_second) + 1):
        tail += ways
        ways = ways * (discordant - drawn) // (drawn + 1)
    return min(2 * tail / (1 << discordant), 1.0)


def holm(p_values: Sequence[float]) -> list[float]:
    """Adjust p-values for multiple comparisons (Holm 1979), in the order given."""
    order = np.argsort(p_values, kind="stable")
    ranked = np.asarray(p_values, dtype=np.float64)[order] * np.arange(len(order), 0, -1)
    adjusted = np.empty(len(order))
    adjusted[order] = np.minimum(np.maximum.accumulate(ranked), 1.0)
    result: list[float] = adjusted.tolist()
    return result


def _influences(units: FloatArray, counts: IntArray, estimator: Estimator) -> tuple[FloatArray, FloatArray]:
    """Return each group's value, and the change of the value by each unit. Shapes: (groups,), (units,).

    The influence of a unit is the value minus the value without the unit. Groups of one unit have no interval; their
    values and influences are NaN.
    """
    totals = sums_of_runs(units, counts)
    has_several = counts > 1
    values, influence = np.full(len(counts), np.nan), np.full(len(units), np.nan)
    values[has_several] = estimator(totals[has_several])
    is_estimated = np.repeat(has_several, counts)
    group = np.repeat(np.arange(len(counts)), counts)[is_estimated]
    influence[is_estimated] = values[group] - estimator(totals[group] - units[is_estimated])
    return values, influence


def _cluster_robust(
    values: FloatArray, influence: FloatArray, counts: IntArray, confidence: float
) -> tuple[FloatArray, FloatArray]:
    """Return the ends of jackknife intervals over clusters. Shape of both: (groups,).

    For a mean the variance is the sandwich variance up to terms of 1/units. The ends are NaN where an influence is not
    finite, or where units have no variance.
    """
    means = sums_of_runs(influence[:, None], counts)[:, 0] / np.maximum(counts, 1)
    squares = sums_of_runs(((influence - np.repeat(means, counts)) ** 2)[:, None], counts)[:, 0]
    error = np.sqrt((counts - 1) / np.maximum(counts, 1) * squares)
    freedom = np.where(counts > BOOTSTRAP_UNITS, np.inf, np.maximum(counts - 1, 1))
    distinct, index = np.unique(freedom, return_inverse=True)
    quantiles = np.array([upper_quantile((1 - confidence) / 2, each) for each in distinct.tolist()])
    half_width = quantiles[index] * error
    half_width[~_have_variance(influence, counts)] = np.nan
    return values - half_width, values + half_width


def _have_variance(influence: FloatArray, counts: IntArray) -> npt.NDArray[np.bool_]:
    """Say of which groups the influences differ; false where one is not finite. Shape: (groups,)."""
    varies = np.zeros(len(counts), dtype=np.bool_)
    filled = counts > 0
    starts = (np.cumsum(counts) - counts)[filled]
    if len(starts):
        with np.errstate(invalid="ignore"):
            width = np.maximum.reduceat(influence, starts) - np.minimum.reduceat(influence, starts)
            varies[filled] = np.isfinite(width) & (width > 1e-12)
    return varies


def _bca(
    units: FloatArray, estimator: Estimator, influence: FloatArray, seed: int, confidence: float
) -> tuple[float, float]:
    """Return the ends of the BCa interval: bias-corrected and accelerated percentiles (Efron 1987, eq. 6.8).

    The acceleration is computed from the influences in one pass.
    """
    columns = np.ascontiguousarray(units.T)
    rng, size = np.random.default_rng(seed), _batch(units)
    resampled = np.empty(RESAMPLES)
    for first in range(0, RESAMPLES, size):
        drawn = rng.integers(0, len(units), size=(min(size, RESAMPLES - first), len(units)))
        sums = np.stack([column[drawn].sum(axis=-1) for column in columns], axis=-1)
        resampled[first : first + len(drawn)] = estimator(sums)
    if not np.isfinite(resampled).all():
        return math.nan, math.nan
    value = float(estimator(units.sum(axis=0)))
    below = float(np.mean(resampled < value) + np.mean(resampled <= value)) / 2
    # A value outside of all resamples would have an infinite bias.
    below = min(max(below, 0.5 / RESAMPLES), 1 - 0.5 / RESAMPLES)
    centred = influence - influence.mean()
    acceleration = float(np.sum(centred**3) / (6 * np.sum(centred**2) ** 1.5))
    bias = NORMAL.inv_cdf(below)
    tails = [bias + NORMAL.inv_cdf(share) for share in ((1 - confidence) / 2, (1 + confidence) / 2)]
    ranks = [NORMAL.cdf(bias + tail / (1 - acceleration * tail)) for tail in tails]
    return float(np.quantile(resampled, ranks[0])), float(np.quantile(resampled, ranks[1]))


def _permutation(first: FloatArray, second: FloatArray, estimator: Estimator, seed: int) -> float:
    """Return the p-value of exchanging units between the targets: at random, or exactly where exchanges are few."""
    change = second - first
    total_first, total_second = first.sum(axis=0), second.sum(axis=0)
    observed = abs(float(estimator(total_second) - estimator(total_first)))
    count = len(first)
    is_exact = 2**count <= PERMUTATIONS + 1
    rng = np.random.default_rng(seed)
    extreme, tried = 0, 0
    while tried < (2**count if is_exact else PERMUTATIONS):
        size = 2**count if is_exact else min(_batch(change), PERMUTATIONS - tried)
        swaps = _all_swaps(count) if is_exact else rng.integers(0, 2, size=(size, count), dtype=np.int8)
        moved = swaps.astype(np.float64) @ change
        differences = np.abs(estimator(total_second - moved) - estimator(total_first + moved))
        # The tolerance makes differences equal that differ only by floating-point rounding.
        extreme += int((~(differences < observed * (1 - 1e-9) - 1e-12)).sum())
        tried += size
    return extreme / tried if is_exact else (extreme + 1) / (tried + 1)


def _all_swaps(count: int) -> npt.NDArray[np.int8]:
    """Return every subset of a number of units, as 0 and 1. Shape: (2 ** count, count)."""
    return ((np.arange(2**count)[:, None] >> np.arange(count)) & 1).astype(np.int8)


def _mcnemar(first: FloatArray, second: FloatArray) -> float:
    return mcnemar_exact(int(((first == 1) & (second == 0)).sum()), int(((first == 0) & (second == 1)).sum()))


def _batch(units: FloatArray) -> int:
    """Return the number of resamples that fit into a bounded amount of memory."""
    return max(1, _BATCH_NUMBERS // max(units.size, 1))
