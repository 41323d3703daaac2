"""Aggregate measures over any group columns, all groups at once: ten million rows in seconds.

A frame has one row per answer, with these columns:

- `value`: null where there is none.
- `outcome`.
- `stat.<name>`: the metric's additive statistics.
- `right.<name>`: of pooled metrics, the statistics that a right answer would add, in rows without a value; null where
  they are unknown.
- `cluster`: the document. It may be missing.
- `is_invalid`: whether the answer could not be parsed. It may be missing.
- the group columns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars

from vlmhyperbench.analysis import stats
from vlmhyperbench.analysis.combining import Combining
from vlmhyperbench.analysis.distributions import rank_of
from vlmhyperbench_sdk.errors import InvalidInput
from vlmhyperbench_sdk.protocols import MetricDescription

STATISTIC, RIGHT = "stat.", "right."
CLUSTER = "cluster"

_OUTCOMES = {
    "scored": "scored",
    "model_failures": "model_failure",
    "infrastructure_failures": "infrastructure_failure",
}
_PERCENTILES = {"median": 50, "p95": 95, "p99": 99, "minimum": 0, "maximum": 100}
_DESCRIBED = ("n", "n_scored", "n_invalid", *_OUTCOMES, "unscored", "mean", *_PERCENTILES)
_INVALID = "is_invalid"
_AGGREGATED = ("value", "pooled", "lower", "upper", "ci_low", "ci_high", "ci_method", "ci_units")
_INDEX, _DOCUMENT = "index of the row", "number of the document"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Grouped:
    """The rows of a frame, in order of their groups."""

    groups: polars.DataFrame
    """Group columns, if any, with the counts of rows. Height: groups."""
    present: polars.DataFrame
    """Rows with a value."""
    missing: polars.DataFrame
    """Rows without a value."""

    @property
    def n_present(self) -> stats.IntArray:
        """Number of rows of each group in `present`. Shape: (groups,)."""
        return self.groups["n_scored"].to_numpy().astype(np.int64)

    @property
    def n_missing(self) -> stats.IntArray:
        """Number of rows of each group in `missing`. Shape: (groups,)."""
        return self.groups["n"].to_numpy().astype(np.int64) - self.n_present


def describe(frame: polars.DataFrame, *, group_by: Sequence[str] = ()) -> polars.DataFrame:
    """Count the answers of each group and describe the distribution of their values.

    Returns:
        The group columns, then `n`, `n_scored`, `n_invalid`, `scored`, `model_failures`, `infrastructure_failures`,
        `unscored`, `mean`, `median`, `p95`, `p99`, `minimum` and `maximum` (by nearest rank; null without a value).
        Groups are in the order of their first rows.

    Raises:
        InvalidInput: a group column is missing or has one of these names; a value is not finite.
    """
    grouped = _group(frame, group_by, statistics=(), is_sorted=False)
    return _with_columns(grouped.groups, _distribution(grouped))


def aggregate(
    frame: polars.DataFrame, metric: Combining, *, group_by: Sequence[str] = (), cluster: str = CLUSTER, seed: int = 0
) -> polars.DataFrame:
    """Aggregate a metric for each combination of the group columns, in their order, nulls last.

    Without group columns the result has one row, also for an empty frame. Where the frame has no column `cluster`,
    every row is a document of its own. The column holds names of documents, or numbers from `number_documents`.
    `stats.intervals` decides which interval a group gets; its ends are clipped to the metric's range.

    Returns:
        The columns of `describe`, and `value`, `pooled`, `lower`, `upper`, `ci_low`, `ci_high`, `ci_method` and
        `ci_units`, which `results.Aggregate` describes. Undefined numbers are null.

    Raises:
        InvalidInput: as `describe`; or a statistic is not finite.
    """
    statistics = [name for name in frame.columns if name.startswith((STATISTIC, RIGHT))]
    if cluster in frame.columns:
        documents = frame[cluster]
        numbers = documents if documents.dtype == polars.UInt32 else number_documents(documents)
        frame = frame.with_columns(numbers.alias(_DOCUMENT))
        statistics.append(_DOCUMENT)
    grouped = _group(frame, group_by, statistics=statistics, is_sorted=True)
    described = _distribution(grouped)
    names = _names(grouped.present, STATISTIC)
    sums = stats.sums_of_runs(_columns(grouped.present, STATISTIC, names), grouped.n_present)
    is_pooled = metric.description.aggregation == "pooled"
    # A metric that is averaged combines sums to the mean by its contract, so its code is not needed.
    value = _combine(metric, names, sums, grouped.n_present > 0) if is_pooled else described["mean"]
    lower, upper = _bounds(grouped, metric, value=value, names=names, sums=sums)
    intervals = _intervals(grouped, metric, names=names, seed=seed)
    low, high = metric.description.range
    aggregated = {
        "value": value,
        "pooled": value,
        "lower": lower,
        "upper": upper,
        "ci_low": np.clip(intervals.low, low, high),
        "ci_high": np.clip(intervals.high, low, high),
    }
    return _with_columns(grouped.groups, described | aggregated).with_columns(
        polars.Series("ci_method", intervals.method.tolist(), dtype=polars.String),
        polars.Series("ci_units", intervals.units),
    )


def number_documents(names: polars.Series) -> polars.Series:
    """Number documents in order of their names, null as 0, so that several calls of `aggregate` need it only once.

    Returns:
        32-bit numbers. Shape: that of `names`.
    """
    run = names.rle_id()  # adjacent rows are often of the same document
    firsts = names.filter(run.diff().fill_null(1) > 0)
    return firsts.rank("dense").fill_null(0).cast(polars.UInt32)[run]


def _group(frame: polars.DataFrame, group_by: Sequence[str], *, statistics: Sequence[str], is_sorted: bool) -> _Grouped:
    """Arrange the rows by group; `statistics` are further columns that the result keeps."""
    for name in group_by:
        if name not in frame.columns:
            raise InvalidInput(f"The group column {name} is missing.", cure="Group by a column that the data has.")
        if name in {*_DESCRIBED, *_AGGREGATED} or name.startswith((STATISTIC, RIGHT)):
            raise InvalidInput(
                f"The column {name} cannot be a group column: a table of aggregates has a column of this name.",
                cure="Rename the column.",
            )
    used = frame.select(*dict.fromkeys([*group_by, "outcome", "value", *statistics]), _is_invalid(frame))
    used = used.with_columns(polars.col("value").cast(polars.Float64))
    _check_finite(used)
    outcomes = [(polars.col("outcome") == of).sum().alias(name) for name, of in _OUTCOMES.items()]
    counts = [
        polars.len().alias("n"),
        polars.col("value").count().alias("n_scored"),
        polars.col(_INVALID).sum().alias("n_invalid"),
        *outcomes,
    ]
    if group_by:
        groups = used.with_row_index(_INDEX).group_by(group_by, maintain_order=True).agg(_INDEX, *counts)
        if is_sorted:
            groups = groups.sort(group_by, nulls_last=True)
        order = groups[_INDEX].explode()
        groups = groups.drop(_INDEX)
    else:
        groups, order = used.select(counts), polars.int_range(used.height, eager=True)
    has_value = used["value"].is_not_null()[order]
    of_missing = [name for name in statistics if name.startswith(RIGHT)]
    of_present = [name for name in statistics if name not in of_missing]
    unscored = polars.col("n") - polars.sum_horizontal(*_OUTCOMES)
    return _Grouped(
        groups=groups.with_columns(unscored.alias("unscored")),
        present=used.select("value", *of_present)[order.filter(has_value)],
        missing=used.select("value", *of_missing)[order.filter(~has_value)],
    )


def _is_invalid(frame: polars.DataFrame) -> polars.Expr:
    """Say of each row whether its answer could not be parsed; false where the frame does not record it."""
    recorded = polars.col(_INVALID) if _INVALID in frame.columns else polars.lit(value=False)
    return recorded.fill_null(value=False).alias(_INVALID)


def _check_finite(frame: polars.DataFrame) -> None:
    """Refuse NaN and infinities, which would spread to every number of their group."""
    numbers = [name for name in frame.columns if name == "value" or name.startswith((STATISTIC, RIGHT))]
    is_finite = frame.select(polars.col(numbers).cast(polars.Float64).is_finite().all())
    for name in numbers:
        if not is_finite[name].item():
            raise InvalidInput(
                f"A measure's {name} is not a finite number: its file was not written by a score job.",
                cure="Score the answers of the run again: `vlmhyperbench rescore`.",
            )


def _distribution(grouped: _Grouped) -> dict[str, stats.FloatArray]:
    """Return mean and percentiles of each group's values. Shape of each: (groups,)."""
    counts = grouped.n_present
    values = grouped.present["value"].to_numpy()
    ordered, ends = values.copy(), np.cumsum(counts)
    for group in np.flatnonzero(counts > 1).tolist():
        ordered[ends[group] - counts[group] : ends[group]].sort()
    filled = counts > 0
    starts, sizes = (ends - counts)[filled], counts[filled]
    described = {"mean": _divide(stats.sums_of_runs(values[:, None], counts)[:, 0], counts)}
    for name, percent in _PERCENTILES.items():
        described[name] = np.full(len(counts), np.nan)
        rank = np.array([rank_of(size, percent) for size in sizes.tolist()], dtype=np.int64)
        described[name][filled] = ordered[starts + rank - 1]
    return described


def _intervals(grouped: _Grouped, metric: Combining, *, names: Sequence[str], seed: int) -> stats.Intervals:
    """Return the interval of each group's value; documents are the units."""
    present, counts = grouped.present, grouped.n_present
    is_pooled = metric.description.aggregation == "pooled"
    if is_pooled:
        rows = _columns(present, STATISTIC, names)
    else:
        rows = np.column_stack([present["value"].to_numpy(), np.ones(present.height)])
    if _DOCUMENT in present.columns:
        rows, counts = _sum_documents(rows, counts, present[_DOCUMENT].to_numpy().astype(np.int64))
    if is_pooled:
        return stats.intervals(rows, counts, stats.pooled(metric.combine, names), seed=seed)
    if metric.description.proportion:
        return stats.proportion_intervals(rows, counts, seed=seed)
    return stats.intervals(rows, counts, stats.mean_of, seed=seed)


def _sum_documents(
    rows: stats.FloatArray, counts: stats.IntArray, documents: stats.IntArray
) -> tuple[stats.FloatArray, stats.IntArray]:
    """Sum the rows of each document in each group, and count the documents of each group."""
    n_documents = int(documents.max(initial=0)) + 1
    key = np.repeat(np.arange(len(counts)) * n_documents, counts) + documents
    order = np.argsort(key, kind="stable")
    key = key[order]
    starts = np.flatnonzero(np.diff(key, prepend=-1))
    samples = np.diff(starts, append=len(key))
    return stats.sums_of_runs(rows[order], samples), np.bincount(key[starts] // n_documents, minlength=len(counts))


def _bounds(
    grouped: _Grouped, metric: Combining, *, value: stats.FloatArray, names: Sequence[str], sums: stats.FloatArray
) -> tuple[stats.FloatArray, stats.FloatArray]:
    """Return the smallest and largest possible value of each group; NaN where a bound is unknown.

    For a mean, missing values take the two ends of the metric's range; an open end gives no bound. A pooled value has
    a bound at its good end only. The worst possible answer is unknown: a longer answer has more errors, and an answer
    of another class lowers the precision of that class.
    """
    n_missing = grouped.n_missing
    if metric.description.aggregation == "pooled":
        ends = [np.full(len(n_missing), np.nan), _combine_with_right(grouped, metric, names=names, sums=sums)]
        if metric.description.direction == "lower":
            ends.reverse()
    else:
        total = stats.sums_of_runs(grouped.present["value"].to_numpy()[:, None], grouped.n_present)[:, 0]
        ends = [
            _divide(total + (np.nan if end is None else end) * n_missing, grouped.n_present + n_missing)
            for end in metric.description.range
        ]
    lower, upper = (np.where(n_missing == 0, value, end) for end in ends)
    return lower, upper


def _combine_with_right(
    grouped: _Grouped, metric: Combining, *, names: Sequence[str], sums: stats.FloatArray
) -> stats.FloatArray:
    """Return the pooled values as if every missing answer were right; NaN where unknown. Shape: (groups,)."""
    missing, counts = grouped.missing, grouped.n_missing
    added = _names(missing, RIGHT)
    if not added or not _is_right_best(metric.description):
        return np.full(len(counts), np.nan)
    is_unknown = missing.select(polars.all_horizontal(polars.col(f"{RIGHT}{name}").is_null() for name in added))
    is_known = stats.sums_of_runs(is_unknown.cast(polars.Float64).to_numpy(), counts)[:, 0] == 0
    every = sorted({*names, *added})
    totals = np.zeros((len(counts), len(every)))
    totals[:, [every.index(name) for name in names]] = sums
    totals[:, [every.index(name) for name in added]] += stats.sums_of_runs(_columns(missing, RIGHT, added), counts)
    return _combine(metric, every, totals, is_known & (counts > 0))


def _is_right_best(description: MetricDescription) -> bool:
    """Return whether a right answer improves a pooled value at least as much as any other answer.

    This holds where errors, fields or classes are counted. Scores of free text also reward length: where answers are
    short overall, a long wrong answer can raise BLEU more than the right one.
    """
    return description.direction == "lower" or (description.direction == "higher" and description.kind != "text")


def _combine(
    metric: Combining, names: Sequence[str], sums: stats.FloatArray, is_asked: npt.NDArray[np.bool_]
) -> stats.FloatArray:
    """Combine each group's sums; NaN where the value is undefined or not asked for. Shape: (groups,)."""
    values = np.full(len(sums), np.nan)
    values[is_asked] = stats.pooled(metric.combine, names)(sums[is_asked])
    return values


def _names(frame: polars.DataFrame, prefix: str) -> list[str]:
    return sorted(name.removeprefix(prefix) for name in frame.columns if name.startswith(prefix))


def _columns(frame: polars.DataFrame, prefix: str, names: Sequence[str]) -> stats.FloatArray:
    """Return statistics as numbers, 0 where a row has none. Shape: (rows, names)."""
    columns = [polars.col(f"{prefix}{name}").cast(polars.Float64).fill_null(0.0) for name in names]
    return frame.select(columns).to_numpy() if columns else np.zeros((frame.height, 0))


def _divide(sums: stats.FloatArray, counts: stats.IntArray) -> stats.FloatArray:
    """Divide sums by counts; NaN where a count is 0."""
    means = np.full(len(sums), np.nan)
    np.divide(sums, counts, out=means, where=counts > 0)
    return means


def _with_columns(groups: polars.DataFrame, numbers: Mapping[str, stats.FloatArray]) -> polars.DataFrame:
    """Add columns of numbers; NaN becomes null."""
    return groups.with_columns(polars.Series(name, column).fill_nan(None) for name, column in numbers.items())
