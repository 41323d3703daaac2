"""Summaries of measures over any group columns: value, interval, denominators, and what the missing rows could change.

`analysis.aggregation` says what a frame holds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import polars

from vlmhyperbench.analysis.aggregation import CLUSTER, Combining, aggregate
from vlmhyperbench.analysis.results import Interval
from vlmhyperbench_sdk.protocols import MetricDescription


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
    n_invalid: int
    """Answers out of which nothing could be read, with a value by policy or without."""
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
    interval: Interval | None
    """Of `value`; documents are its units."""
    lower: float | None
    """The lowest that `value` could be, whatever the answers without a value were; None where nobody can say."""
    upper: float | None
    """The highest. Where answers are missing, a pooled value has only the one of the two at which they are right."""

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

    Raises:
        InvalidInput: as `aggregate`.
    """
    table = aggregate(frame, metric, group_by=group_by, cluster=cluster, seed=seed)
    return [_summary(row, metric.description, group_by) for row in table.iter_rows(named=True)]


def _summary(row: dict[str, Any], description: MetricDescription, group_by: Sequence[str]) -> Summary:
    low, high, method, units = (row.pop(name) for name in ("ci_low", "ci_high", "ci_method", "ci_units"))
    group = tuple((column, row.pop(column)) for column in group_by)
    return Summary(
        metric=description.name,
        profile=description.profile,
        version=description.version,
        group=group,
        interval=None if method is None else Interval(low=low, high=high, method=method, units=units),
        **row,
    )
