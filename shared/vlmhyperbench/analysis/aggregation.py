"""Aggregate measures over any group columns, all groups at once: ten million rows in seconds.

A frame has one row per answer: `value` (null where there is none), `outcome`, the metric's additive statistics as
`stat.<name>`, for pooled metrics `right.<name>` where a value is missing (what a right answer would add; nulls alone
where nobody can say), a column that names the document (`cluster`), `is_invalid` where answers were read, and whatever
columns it is grouped by.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Protocol

import numpy as np
import numpy.typing as npt
import polars

from vlmhyperbench.analysis import stats
from vlmhyperbench.analysis.distributions import rank_of
from vlmhyperbench_sdk.errors import InvalidInput
from vlmhyperbench_sdk.protocols import MetricDescription

STATISTIC, RIGHT = "stat.", "right."
CLUSTER = "cluster"

AGGREGATORS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "general": (),
        "by_doc_type": ("doc_class",),
        "by_doc_question": ("doc_class", "question_type"),
        "by_field": ("field",),
    }
)
"""The usual groupings and what they group by; by sample, `describe` is enough."""

_OUTCOMES = {
    "scored": "scored",
    "model_failures": "model_failure",
    "infrastructure_failures": "infrastructure_failure",
}
_PERCENTILES = {"median": 50, "p95": 95, "p99": 99, "minimum": 0, "maximum": 100}
_DESCRIBED = ("n", "n_scored", "n_invalid", *_OUTCOMES, "unscored", "mean", *_PERCENTILES)
_INVALID = "is_invalid"
_JUDGED = ("value", "pooled", "lower", "upper", "ci_low", "ci_high", "ci_method", "ci_units")
_PLACE, _DOCUMENT = "place of the row", "number of the document"


class Combining(Protocol):
    """What aggregation needs of a metric."""

    @property
    def description(self) -> MetricDescription: ...

    def combine(self, sums: Mapping[str, float]) -> float | None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class _Grouped:
    """The rows of a frame, arranged group by group."""

    groups: polars.DataFrame
    """Group columns, if any, with the counts of rows. Height: groups."""
    present: polars.DataFrame
    """Rows with a value."""
    missing: polars.DataFrame
    """Rows without."""

    @property
    def n_present(self) -> stats.IntArray:
        """Rows of each group in `present`. Shape: (groups,)."""
        return self.groups["n_scored"].to_numpy().astype(np.int64)

    @property
    def n_missing(self) -> stats.IntArray:
        """Rows of each group in `missing`. Shape: (groups,)."""
        return self.groups["n"].to_numpy().astype(np.int64) - self.n_present


def describe(frame: polars.DataFrame, *, group_by: Sequence[str] = ()) -> polars.DataFrame:
    """Count the answers of each group and say how their values are distributed; groups as they come in the frame.

    Returns:
        The group columns, then `n`, `n_scored`, `n_invalid`, `scored`, `model_failures`, `infrastructure_failures`,
        `unscored`, `mean`, `median`, `p95`, `p99`, `minimum` and `maximum` (by nearest rank; null without a value).

    Raises:
        InvalidInput: a group column is missing or is named like one of these; a value is no finite number.
    """
    grouped = _group(frame, group_by, kept=(), is_sorted=False)
    return _with(grouped.groups, _distribution(grouped))


def aggregate(
    frame: polars.DataFrame, metric: Combining, *, group_by: Sequence[str] = (), cluster: str = CLUSTER, seed: int = 0
) -> polars.DataFrame:
    """Aggregate a metric for each combination of the group columns, in their order, nulls last.

    Without group columns there is exactly one row, also of an empty frame. Where the frame has no column `cluster`,
    every row is a document of its own; the column holds names, or what `number_documents` made of them.
    `stats.intervals` says which interval a group gets; one that leaves the metric's range is cut to it.

    Returns:
        What `describe` returns, and `value`, `pooled`, `lower`, `upper`, `ci_low`, `ci_high`, `ci_method` and
        `ci_units`: `quality.Summary` says what each of them means. Undefined numbers are null.

    Raises:
        InvalidInput: as `describe`; or a statistic is no finite number.
    """
    kept = [name for name in frame.columns if name.startswith((STATISTIC, RIGHT))]
    if cluster in frame.columns:
        documents = frame[cluster]
        numbers = documents if documents.dtype == polars.UInt32 else number_documents(documents)
        frame = frame.with_columns(numbers.alias(_DOCUMENT))
        kept.append(_DOCUMENT)
    grouped = _group(frame, group_by, kept=kept, is_sorted=True)
    described = _distribution(grouped)
    names = _names(grouped.present, STATISTIC)
    sums = stats.sums_of_runs(_columns(grouped.present, STATISTIC, names), grouped.n_present)
    pooled = _combined(metric, names, sums, grouped.n_present > 0)
    value = pooled if metric.description.aggregation == "pooled" else described["mean"]
    lower, upper = _bounds(grouped, metric, value=value, names=names, sums=sums)
    found = _intervals(grouped, metric, names=names, seed=seed)
    low, high = metric.description.range
    judged = {
        "value": value,
        "pooled": pooled,
        "lower": lower,
        "upper": upper,
        "ci_low": np.clip(found.low, low, high),
        "ci_high": np.clip(found.high, low, high),
    }
    method = polars.Series("ci_method", found.method.tolist(), dtype=polars.String)
    return _with(grouped.groups, described | judged).with_columns(method, polars.Series("ci_units", found.units))


def number_documents(names: polars.Series) -> polars.Series:
    """Number documents in order of their names, null as 0: what `aggregate` takes as quickly as it can be done once.

    Returns:
        32-bit numbers. Shape as `names`.
    """
    run = names.rle_id()  # neighbours are often the same document
    firsts = names.filter(run.diff().fill_null(1) > 0)
    return firsts.rank("dense").fill_null(0).cast(polars.UInt32)[run]


def _group(frame: polars.DataFrame, group_by: Sequence[str], *, kept: Sequence[str], is_sorted: bool) -> _Grouped:
    for name in group_by:
        if name not in frame.columns:
            raise InvalidInput(f"There is no column {name} to group by.")
        if name in {*_DESCRIBED, *_JUDGED} or name.startswith((STATISTIC, RIGHT)):
            raise InvalidInput(f"A column named {name} cannot be grouped by: tables of aggregates use the name.")
    used = frame.select(*dict.fromkeys([*group_by, "outcome", "value", *kept]), _invalid(frame))
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
        groups = used.with_row_index(_PLACE).group_by(group_by, maintain_order=True).agg(_PLACE, *counts)
        if is_sorted:
            groups = groups.sort(group_by, nulls_last=True)
        order = groups[_PLACE].explode()
        groups = groups.drop(_PLACE)
    else:
        groups, order = used.select(counts), polars.int_range(used.height, eager=True)
    has_value = used["value"].is_not_null()[order]
    of_missing = [name for name in kept if name.startswith(RIGHT)]
    of_present = [name for name in kept if name not in of_missing]
    unscored = polars.col("n") - polars.sum_horizontal(*_OUTCOMES)
    return _Grouped(
        groups=groups.with_columns(unscored.alias("unscored")),
        present=used.select("value", *of_present)[order.filter(has_value)],
        missing=used.select("value", *of_missing)[order.filter(~has_value)],
    )


def _invalid(frame: polars.DataFrame) -> polars.Expr:
    """Say of each row whether nothing could be read out of its answer; a frame that knows nothing of it has none."""
    known = polars.col(_INVALID) if _INVALID in frame.columns else polars.lit(value=False)
    return known.fill_null(value=False).alias(_INVALID)


def _check_finite(frame: polars.DataFrame) -> None:
    """Refuse what would make every number of its group one that is none."""
    numbers = [name for name in frame.columns if name == "value" or name.startswith((STATISTIC, RIGHT))]
    finite = frame.select(polars.col(numbers).cast(polars.Float64).is_finite().all())
    for name in numbers:
        if not finite[name].item():
            raise InvalidInput(f"A measure's {name} is no finite number: its file was not written by a score job.")


def _distribution(grouped: _Grouped) -> dict[str, stats.FloatArray]:
    """Give mean and percentiles of each group's values. Each of shape (groups,)."""
    counts = grouped.n_present
    values = grouped.present["value"].to_numpy()
    ordered, ends = values.copy(), np.cumsum(counts)
    for group in np.flatnonzero(counts > 1).tolist():
        ordered[ends[group] - counts[group] : ends[group]].sort()
    filled = counts > 0
    starts, many = (ends - counts)[filled], counts[filled]
    described = {"mean": _divided(stats.sums_of_runs(values[:, None], counts)[:, 0], counts)}
    for name, percent in _PERCENTILES.items():
        described[name] = np.full(len(counts), np.nan)
        rank = np.array([rank_of(count, percent) for count in many.tolist()], dtype=np.int64)
        described[name][filled] = ordered[starts + rank - 1]
    return described


def _intervals(grouped: _Grouped, metric: Combining, *, names: Sequence[str], seed: int) -> stats.Intervals:
    """Give the interval of each group's value; documents are the units."""
    present, counts = grouped.present, grouped.n_present
    is_pooled = metric.description.aggregation == "pooled"
    if is_pooled:
        rows = _columns(present, STATISTIC, names)
    else:
        rows = np.column_stack([present["value"].to_numpy(), np.ones(present.height)])
    if _DOCUMENT in present.columns:
        rows, counts = _by_unit(rows, counts, present[_DOCUMENT].to_numpy().astype(np.int64))
    if is_pooled:
        return stats.intervals(rows, counts, stats.pooled(metric.combine, names), seed=seed)
    if metric.description.proportion:
        return stats.proportion_intervals(rows, counts, seed=seed)
    return stats.intervals(rows, counts, stats.mean_of, seed=seed)


def _by_unit(
    rows: stats.FloatArray, counts: stats.IntArray, documents: stats.IntArray
) -> tuple[stats.FloatArray, stats.IntArray]:
    """Sum the rows of each document in each group, in order of the documents; and count these in each group."""
    many = int(documents.max(initial=0)) + 1
    key = np.repeat(np.arange(len(counts)) * many, counts) + documents
    order = np.argsort(key, kind="stable")
    key = key[order]
    starts = np.flatnonzero(np.diff(key, prepend=-1))
    samples = np.diff(starts, append=len(key))
    return stats.sums_of_runs(rows[order], samples), np.bincount(key[starts] // many, minlength=len(counts))


def _bounds(
    grouped: _Grouped, metric: Combining, *, value: stats.FloatArray, names: Sequence[str], sums: stats.FloatArray
) -> tuple[stats.FloatArray, stats.FloatArray]:
    """Give the value's bounds; NaN where nobody can say.

    A mean reaches from one end of the metric's range to the other, as far as they are closed. A pooled value has a
    bound at its good end alone: nobody can say which answer would be the worst, since a longer one has more errors, and
    one of another class takes from the precision of that class.
    """
    n_missing = grouped.n_missing
    if metric.description.aggregation == "pooled":
        ends = [np.full(len(n_missing), np.nan), _with_right(grouped, metric, names=names, sums=sums)]
        if metric.description.direction == "lower":
            ends.reverse()
    else:
        total = stats.sums_of_runs(grouped.present["value"].to_numpy()[:, None], grouped.n_present)[:, 0]
        ends = [
            _divided(total + (np.nan if end is None else end) * n_missing, grouped.n_present + n_missing)
            for end in metric.description.range
        ]
    lower, upper = (np.where(n_missing == 0, value, end) for end in ends)
    return lower, upper


def _with_right(
    grouped: _Grouped, metric: Combining, *, names: Sequence[str], sums: stats.FloatArray
) -> stats.FloatArray:
    """Combine what is there with what the missing rows would add if they were right. Shape: (groups,)."""
    missing, counts = grouped.missing, grouped.n_missing
    added = _names(missing, RIGHT)
    if not added or not _is_right_best(metric.description):
        return np.full(len(counts), np.nan)
    silent = missing.select(polars.all_horizontal(polars.col(f"{RIGHT}{name}").is_null() for name in added))
    is_known = stats.sums_of_runs(silent.cast(polars.Float64).to_numpy(), counts)[:, 0] == 0
    every = sorted({*names, *added})
    totals = np.zeros((len(counts), len(every)))
    totals[:, [every.index(name) for name in names]] = sums
    totals[:, [every.index(name) for name in added]] += stats.sums_of_runs(_columns(missing, RIGHT, added), counts)
    return _combined(metric, every, totals, is_known & (counts > 0))


def _is_right_best(description: MetricDescription) -> bool:
    """Whether no answer does a pooled value more good than the right one.

    It is so where errors, fields or classes are counted. Scores of free text reward length as well: where answers are
    short on the whole, a long wrong one can raise BLEU further.
    """
    return description.direction == "lower" or (description.direction == "higher" and description.kind != "text")


def _combined(
    metric: Combining, names: Sequence[str], sums: stats.FloatArray, is_asked: npt.NDArray[np.bool_]
) -> stats.FloatArray:
    """Combine each group's sums; NaN where the value is undefined or not asked for. Shape: (groups,)."""
    combined = np.full(len(sums), np.nan)
    combined[is_asked] = stats.pooled(metric.combine, names)(sums[is_asked])
    return combined


def _names(frame: polars.DataFrame, prefix: str) -> list[str]:
    return sorted(name.removeprefix(prefix) for name in frame.columns if name.startswith(prefix))


def _columns(frame: polars.DataFrame, prefix: str, names: Sequence[str]) -> stats.FloatArray:
    """Take statistics as numbers; a row that does not say adds nothing. Shape: (rows, names)."""
    columns = [polars.col(f"{prefix}{name}").cast(polars.Float64).fill_null(0.0) for name in names]
    return frame.select(columns).to_numpy() if columns else np.zeros((frame.height, 0))


def _divided(sums: stats.FloatArray, counts: stats.IntArray) -> stats.FloatArray:
    means = np.full(len(sums), np.nan)
    np.divide(sums, counts, out=means, where=counts > 0)
    return means


def _with(groups: polars.DataFrame, numbers: Mapping[str, stats.FloatArray]) -> polars.DataFrame:
    return groups.with_columns(polars.Series(name, column).fill_nan(None) for name, column in numbers.items())
