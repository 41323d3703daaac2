"""Intervals and paired tests: how much a number may be trusted. scipy computes; this says what is asked of it.

Everything works on **units**: what was drawn independently, so the samples of one document together are one unit. A
unit is its row of additive sums (for a mean: sum and count), and an **estimator** makes the value of any set of units
from the sums of their rows. Means, corpus BLEU and pooled CER are then the same case.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import Literal

import numpy as np
import numpy.typing as npt
from scipy import stats

from vlmhyperbench.analysis.results import CONFIDENCE, Interval, Method

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

Estimator = Callable[[FloatArray], FloatArray]
"""Sums of shape (…, statistics) → values of shape (…); NaN where a value is undefined."""

BOOTSTRAP_UNITS = 5000
"""Above so many units, intervals are cluster-robust normal ones."""
BOOTSTRAP_GROUPS, BOOTSTRAP_TABLE = 100, 50_000
"""In a table of more groups, or of more units in groups small enough, the bootstrap gives way to Student's t."""
RESAMPLES = 2000
PERMUTATIONS = 9999
_BATCH_NUMBERS = 2_000_000
_COMBINED = 10_000
"""Sums that are Python's numbers at a time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PairedComparison:
    """Two targets on the same units; `difference` is the second minus the first."""

    units: int
    difference: float
    interval: Interval | None
    p_value: float
    test: Literal["mcnemar_exact", "permutation"]


def wilson(successes: int, n: int, *, confidence: float = CONFIDENCE) -> Interval | None:
    """Give Wilson's score interval of a proportion (Wilson 1927); None without a trial."""
    if n == 0:
        return None
    found = stats.binomtest(successes, n).proportion_ci(confidence_level=confidence, method="wilson")
    return Interval(low=float(found.low), high=float(found.high), method="wilson", units=n, confidence=confidence)


@dataclass(frozen=True, slots=True, kw_only=True)
class Intervals:
    """The intervals of many groups, and how each was made. Each of shape (groups,)."""

    low: FloatArray
    """NaN where a group has no interval; so is `high`."""
    high: FloatArray
    method: npt.NDArray[np.object_]
    """Of `Method`; None where a group has no interval."""
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

    `statistics` has shape (samples, statistics); `units` says which unit each sample belongs to, shape (samples,).
    """
    _, place, counts = np.unique(np.asarray(units), return_inverse=True, return_counts=True)
    return sums_of_runs(statistics[np.argsort(place, kind="stable")], counts)


def sums_of_runs(rows: FloatArray, counts: IntArray) -> FloatArray:
    """Sum neighbouring rows, so many at a time; a run of none sums to zero. Shape: (runs, columns).

    `rows` has shape (rows, columns); `counts`, the rows of each run, (runs,).
    """
    # A zero before each run makes empty runs sums too, and numpy add in the same order as `sum` of the run does.
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


def pooled(combine: Callable[[Mapping[str, float]], float | None], names: Sequence[str]) -> Estimator:
    """Make an estimator of a metric's `combine`; `names` are the statistics in the order of the columns.

    Without statistics every value is undefined.
    """

    def values_of(rows: FloatArray) -> FloatArray:
        values = np.empty(len(rows))
        for first in range(0, len(rows), _COMBINED):
            part = slice(first, first + _COMBINED)
            combined = map(combine, map(dict, map(zip, repeat(names), zip(*rows[part].T.tolist(), strict=True))))
            values[part] = list(combined)  # numpy reads None as NaN
        return values

    def estimate(sums: FloatArray) -> FloatArray:
        if not names:
            return np.full(sums.shape[:-1], np.nan)
        rows = sums.reshape(-1, len(names))
        if len(rows) <= _COMBINED:
            return values_of(rows).reshape(sums.shape[:-1])
        distinct, place = _distinct(rows)
        return values_of(distinct)[place].reshape(sums.shape[:-1])

    return estimate


def _distinct(rows: FloatArray) -> tuple[FloatArray, IntArray]:
    """Give each of many rows once, where it is worth it, and which one each row is: short texts have the same sums."""
    keys = rows @ np.random.default_rng(0).random(rows.shape[1])
    _, first, place = np.unique(keys, return_index=True, return_inverse=True)
    is_exact = len(first) < len(rows) // 2 and bool((rows[first[place]] == rows).all())
    return (rows[first], place) if is_exact else (rows, np.arange(len(rows)))


def proportion_intervals(
    units: FloatArray, counts: IntArray, *, seed: int, confidence: float = CONFIDENCE
) -> Intervals:
    """Give the interval of each group's share of samples: Wilson's where every unit is one sample, else by document.

    Where all samples of several documents agree, resampling knows no spread: then each document is one trial.

    Args:
        units: right samples and samples of each unit, group by group. Shape: (units, 2).
        counts: units of each group. Shape: (groups,).
        seed: of the bootstrap.
        confidence: of the intervals.
    """
    totals = sums_of_runs(units, counts)
    right, n = totals[:, 0], totals[:, 1]
    is_single = n == counts
    trials = np.where(is_single, np.round(right), np.where(right > 0, counts, 0)).astype(np.int64)
    is_wilson = (is_single | (right == 0) | (right == n)) & (counts > 0)
    # What Wilson's interval answers is not resampled: its units count as none.
    kept = np.repeat(~is_wilson, counts)
    found = intervals(units[kept], np.where(is_wilson, 0, counts), mean_of, seed=seed, confidence=confidence)
    pairs, place = np.unique(np.column_stack([trials, counts])[is_wilson], axis=0, return_inverse=True)
    ends = np.array(
        [
            (interval.low, interval.high)
            for k, of in pairs.tolist()
            if (interval := wilson(k, of, confidence=confidence))
        ]
    )
    found.low[is_wilson], found.high[is_wilson] = ends.reshape(-1, 2)[place.ravel()].T
    found.method[is_wilson] = "wilson"
    found.units[:] = counts
    return found


def interval(units: FloatArray, estimator: Estimator, *, seed: int, confidence: float = CONFIDENCE) -> Interval | None:
    """Give the interval of one estimate, as `intervals` does of a single group; None where it is undefined."""
    return intervals(units, np.array([len(units)]), estimator, seed=seed, confidence=confidence)[0]


def intervals(
    units: FloatArray, counts: IntArray, estimator: Estimator, *, seed: int, confidence: float = CONFIDENCE
) -> Intervals:
    """Give the interval of each group's estimate: BCa bootstrap up to 5,000 units, cluster-robust normal above.

    A large table is not resampled: where there are more than 100 groups, or more than 50,000 units in groups of up to
    5,000, these groups' intervals are cluster-robust too, with Student's quantile of units − 1 degrees of freedom
    (Cameron and Miller 2015, section VI.D).

    No interval where it is undefined: fewer than two units, or no spread among them.

    Args:
        units: additive sums of each unit, group by group. Shape: (units, statistics).
        counts: units of each group. Shape: (groups,).
        estimator: from sums to value.
        seed: of the bootstrap; the same seed gives the same interval.
        confidence: of the intervals.
    """
    is_large = counts > BOOTSTRAP_UNITS
    many = len(counts) > BOOTSTRAP_GROUPS or int(counts[~is_large].sum()) > BOOTSTRAP_TABLE
    values, influence = _influences(units, counts, estimator)
    low, high = _cluster_robust(values, influence, counts, confidence)
    method = np.where(is_large, "cluster_normal", "cluster_t" if many else "bca").astype(np.object_)
    starts = np.cumsum(counts) - counts
    for group in np.flatnonzero(np.isfinite(low) & ~is_large).tolist() if not many else ():
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
    """Compare two targets measured on the same units; None without a unit or where a value is undefined.

    McNemar's exact test where every unit is one right or wrong sample; else a permutation test that exchanges the
    two targets' whole units, so that the samples of one document stay together.

    Args:
        first: sums of each unit for one target. Shape: (units, statistics).
        second: the same units, in the same order, for the other. Shape: (units, statistics).
        estimator: from sums to value.
        seed: of bootstrap and permutation.
        is_binary: the first statistic counts right samples, the second samples.
        confidence: of the interval of the difference.
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
    """Give the two-sided exact p-value of McNemar's test from the discordant pairs (McNemar 1947)."""
    discordant = only_first + only_second
    return float(stats.binomtest(only_first, discordant, 0.5).pvalue) if discordant else 1.0


def holm(p_values: Sequence[float]) -> list[float]:
    """Adjust p-values for having asked several questions at once (Holm 1979), in the order given."""
    order = np.argsort(p_values, kind="stable")
    ranked = np.asarray(p_values, dtype=np.float64)[order] * np.arange(len(order), 0, -1)
    adjusted = np.empty(len(order))
    adjusted[order] = np.minimum(np.maximum.accumulate(ranked), 1.0)
    result: list[float] = adjusted.tolist()
    return result


def _influences(units: FloatArray, counts: IntArray, estimator: Estimator) -> tuple[FloatArray, FloatArray]:
    """Each group's value, and how much it moves when one unit is left out. Shapes: (groups,), (units,).

    NaN, unasked, for groups of one unit: they have no interval.
    """
    totals = sums_of_runs(units, counts)
    has_several = counts > 1
    values, influence = np.full(len(counts), np.nan), np.full(len(units), np.nan)
    values[has_several] = estimator(totals[has_several])
    group = np.repeat(np.arange(len(counts)), counts)
    asked = np.repeat(has_several, counts)
    group = group[asked]
    influence[asked] = values[group] - estimator(totals[group] - units[asked])
    return values, influence


def _cluster_robust(
    values: FloatArray, influence: FloatArray, counts: IntArray, confidence: float
) -> tuple[FloatArray, FloatArray]:
    """Jackknife over clusters: for a mean it is the sandwich variance up to terms of 1/units.

    NaN where an influence is not finite, or where there is no spread.
    """
    means = sums_of_runs(influence[:, None], counts)[:, 0] / np.maximum(counts, 1)
    squares = sums_of_runs(((influence - np.repeat(means, counts)) ** 2)[:, None], counts)[:, 0]
    error = np.sqrt((counts - 1) / np.maximum(counts, 1) * squares)
    freedom = np.where(counts > BOOTSTRAP_UNITS, np.inf, np.maximum(counts - 1, 1))
    reach = stats.t.ppf((1 + confidence) / 2, freedom) * error
    reach[~_have_spread(influence, counts)] = np.nan
    return values - reach, values + reach


def _have_spread(influence: FloatArray, counts: IntArray) -> npt.NDArray[np.bool_]:
    """Say which groups' units differ in what they do to the value; false where one has no number."""
    found = np.zeros(len(counts), dtype=np.bool_)
    filled = counts > 0
    starts = (np.cumsum(counts) - counts)[filled]
    if len(starts):
        with np.errstate(invalid="ignore"):
            width = np.maximum.reduceat(influence, starts) - np.minimum.reduceat(influence, starts)
            found[filled] = np.isfinite(width) & (width > 1e-12)
    return found


def _bca(
    units: FloatArray, estimator: Estimator, influence: FloatArray, seed: int, confidence: float
) -> tuple[float, float]:
    """Bias-corrected and accelerated percentiles of scipy's bootstrap (Efron 1987, eq. 6.8).

    The acceleration is taken from the influences, which cost one pass, where scipy's own jackknife costs units².
    """
    columns = np.ascontiguousarray(units.T)

    def statistic(indices: IntArray, axis: int) -> FloatArray:
        del axis  # scipy always resamples along the last one
        return estimator(np.stack([column[indices].sum(axis=-1) for column in columns], axis=-1))

    with warnings.catch_warnings():
        # Resamples without a defined value give NaN, which the caller turns into "no interval".
        warnings.simplefilter("ignore", stats.DegenerateDataWarning)
        found = stats.bootstrap(
            (np.arange(len(units)),),
            statistic,
            n_resamples=RESAMPLES,
            batch=_batch(units),
            vectorized=True,
            confidence_level=confidence,
            method="percentile",
            rng=np.random.default_rng(seed),
        )
    resampled = found.bootstrap_distribution
    value = float(estimator(units.sum(axis=0)))
    below = float(np.mean(resampled < value) + np.mean(resampled <= value)) / 2
    # A value outside of all resamples would have an infinite bias.
    below = min(max(below, 0.5 / RESAMPLES), 1 - 0.5 / RESAMPLES)
    spread = influence - influence.mean()
    acceleration = float(np.sum(spread**3) / (6 * np.sum(spread**2) ** 1.5))
    bias = stats.norm.ppf(below)
    tails = bias + stats.norm.ppf([(1 - confidence) / 2, (1 + confidence) / 2])
    ranks = np.asarray(stats.norm.cdf(bias + tails / (1 - acceleration * tails)))
    return float(np.quantile(resampled, ranks[0])), float(np.quantile(resampled, ranks[1]))


def _permutation(first: FloatArray, second: FloatArray, estimator: Estimator, seed: int) -> float:
    """Exchange the two targets' units at random; all exchanges where they are few enough, then the test is exact."""
    change = second - first
    total_first, total_second = first.sum(axis=0), second.sum(axis=0)
    observed = abs(float(estimator(total_second) - estimator(total_first)))
    count = len(first)
    is_exact = 2**count <= PERMUTATIONS + 1
    rng = np.random.default_rng(seed)
    extreme, tried = 0, 0
    while tried < (2**count if is_exact else PERMUTATIONS):
        many = 2**count if is_exact else min(_batch(change), PERMUTATIONS - tried)
        swaps = _all_swaps(count) if is_exact else rng.integers(0, 2, size=(many, count), dtype=np.int8)
        moved = swaps.astype(np.float64) @ change
        found = np.abs(estimator(total_second - moved) - estimator(total_first + moved))
        # Sums in another order differ in the last digits: an equal exchange must count as equal.
        extreme += int((~(found < observed * (1 - 1e-9) - 1e-12)).sum())
        tried += many
    return extreme / tried if is_exact else (extreme + 1) / (tried + 1)


def _all_swaps(count: int) -> npt.NDArray[np.int8]:
    """Every way to exchange some of so many units. Shape: (2 ** count, count)."""
    return ((np.arange(2**count)[:, None] >> np.arange(count)) & 1).astype(np.int8)


def _mcnemar(first: FloatArray, second: FloatArray) -> float:
    return mcnemar_exact(int(((first == 1) & (second == 0)).sum()), int(((first == 0) & (second == 1)).sum()))


def _batch(units: FloatArray) -> int:
    """How many resamples fit into a bounded piece of memory."""
    return max(1, _BATCH_NUMBERS // max(units.size, 1))
