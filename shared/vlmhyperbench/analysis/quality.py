"""Summaries of measures over any group columns: value, interval, denominators, and what the missing rows could change.

A frame has one row per answer: `value` (null where there is none), `outcome`, the metric's additive statistics as
`stat.<name>`, for pooled metrics `wrong.<name>` and `right.<name>` where a value is missing, a column that names the
document (`cluster`), and whatever columns it is grouped by.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import polars

from vlmhyperbench.analysis import stats
from vlmhyperbench.analysis.performance import nearest_rank
from vlmhyperbench_sdk.protocols import MetricDescription

STATISTIC, WRONG, RIGHT = "stat.", "wrong.", "right."
CLUSTER = "cluster"


class Combining(Protocol):
    """What a summary needs of a metric."""

    @property
    def description(self) -> MetricDescription: ...

    def combine(self, sums: Mapping[str, float]) -> float | None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """One metric over one group of answers."""

    metric: str
    profile: str
    version: str
    group: tuple[tuple[str, object], ...]
    """(column, value) of each group column; empty for all answers."""
    n: int
    """Answers that were requested and have a row."""
    n_scored: int
    """Answers that have a value, model failures under the policy `zero` among them."""
    scored: int
    model_failures: int
    infrastructure_failures: int
    unscored: int
    """Counts by outcome; together they are `n`."""
    value: float | None
    """The metric's own aggregate: `pooled` where it is pooled, else `mean`."""
    mean: float | None
    pooled: float | None
    """`combine` of the summed statistics."""
    median: float | None
    p95: float | None
    p99: float | None
    minimum: float | None
    maximum: float | None
    interval: stats.Interval | None
    """Of `value`; documents are its units."""
    lower: float | None
    """The lowest that `value` could be if every missing answer were right or every one wrong."""
    upper: float | None
    """The highest. For an error rate this is the bound at which missing answers count as wrong."""

    @property
    def n_unscored(self) -> int:
        """Answers without a value, whatever the reason."""
        return self.n - self.n_scored

    @property
    def ci_low(self) -> float | None:
        return self.interval.low if self.interval else None

    @property
    def ci_high(self) -> float | None:
        return self.interval.high if self.interval else None


def summarise(
    frame: polars.DataFrame, metric: Combining, *, group_by: Sequence[str] = (), cluster: str = CLUSTER, seed: int = 0
) -> list[Summary]:
    """Summarise a metric for each combination of the group columns, in their order.

    Without group columns there is exactly one summary, also of an empty frame. Where the frame has no column
    `cluster`, every row is a document of its own.
    """
    return [
        _summary(part, metric, tuple(zip(group_by, key, strict=True)), cluster=cluster, seed=seed)
        for key, part in _parts(frame, group_by)
    ]


def _parts(frame: polars.DataFrame, group_by: Sequence[str]) -> Iterator[tuple[tuple[object, ...], polars.DataFrame]]:
    if not group_by:
        yield (), frame
        return
    ordered = frame.sort(list(group_by), nulls_last=True, maintain_order=True)
    yield from ordered.group_by(list(group_by), maintain_order=True)


def _summary(
    frame: polars.DataFrame, metric: Combining, group: tuple[tuple[str, object], ...], *, cluster: str, seed: int
) -> Summary:
    description = metric.description
    outcomes = dict(frame["outcome"].value_counts().iter_rows())
    present = frame.filter(polars.col("value").is_not_null())
    values = present["value"].to_numpy().astype(np.float64)
    ordered = np.sort(values).tolist()
    mean = float(values.mean()) if len(values) else None
    sums = _sums(present, STATISTIC)
    pooled = metric.combine(sums) if sums and len(values) else None
    value = pooled if description.aggregation == "pooled" else mean
    lower, upper = _bounds(frame.filter(polars.col("value").is_null()), metric, value, sums, values)
    counted = [outcomes.get(name, 0) for name in ("scored", "model_failure", "infrastructure_failure")]
    return Summary(
        metric=description.name,
        profile=description.profile,
        version=description.version,
        group=group,
        n=frame.height,
        n_scored=len(values),
        scored=counted[0],
        model_failures=counted[1],
        infrastructure_failures=counted[2],
        unscored=frame.height - sum(counted),
        value=value,
        mean=mean,
        pooled=pooled,
        median=nearest_rank(ordered, 50),
        p95=nearest_rank(ordered, 95),
        p99=nearest_rank(ordered, 99),
        minimum=nearest_rank(ordered, 0),
        maximum=nearest_rank(ordered, 100),
        interval=_interval(present, metric, values, cluster=cluster, seed=seed) if value is not None else None,
        lower=lower,
        upper=upper,
    )


def _interval(
    present: polars.DataFrame, metric: Combining, values: stats.FloatArray, *, cluster: str, seed: int
) -> stats.Interval | None:
    units = present[cluster].rank("dense").to_numpy() if cluster in present.columns else np.arange(len(values))
    if metric.description.aggregation == "pooled":
        names = _names(present, STATISTIC)
        columns = present.select(polars.col(f"{STATISTIC}{name}").fill_null(0.0) for name in names).to_numpy()
        return stats.interval(stats.by_unit(columns, units), stats.pooled(metric.combine, names), seed=seed)
    sums = stats.by_unit(np.column_stack([values, np.ones(len(values))]), units)
    if metric.description.proportion:
        return stats.proportion_interval(sums[:, 0], sums[:, 1], seed=seed)
    return stats.interval(sums, stats.mean_of, seed=seed)


def _bounds(
    missing: polars.DataFrame,
    metric: Combining,
    value: float | None,
    sums: Mapping[str, float],
    values: stats.FloatArray,
) -> tuple[float | None, float | None]:
    """Give the value's bounds; None where an end of the metric's range is open or a row says nothing of it."""
    if missing.height == 0:
        return value, value
    if metric.description.aggregation == "pooled":
        wrong, right = (_pooled_with(missing, metric, sums, prefix) for prefix in (WRONG, RIGHT))
        return (wrong, right) if metric.description.direction == "higher" else (right, wrong)
    n = len(values) + missing.height
    low, high = metric.description.range
    return (
        None if low is None else float(values.sum() + low * missing.height) / n,
        None if high is None else float(values.sum() + high * missing.height) / n,
    )


def _pooled_with(missing: polars.DataFrame, metric: Combining, sums: Mapping[str, float], prefix: str) -> float | None:
    columns = [f"{prefix}{name}" for name in _names(missing, prefix)]
    if not columns or any(missing[column].null_count() for column in columns):
        return None
    added = _sums(missing, prefix)
    return metric.combine({name: sums.get(name, 0.0) + added.get(name, 0.0) for name in {*sums, *added}})


def _names(frame: polars.DataFrame, prefix: str) -> list[str]:
    return sorted(name.removeprefix(prefix) for name in frame.columns if name.startswith(prefix))


def _sums(frame: polars.DataFrame, prefix: str) -> dict[str, float]:
    return {name: float(frame[f"{prefix}{name}"].sum() or 0.0) for name in _names(frame, prefix)}
