"""Aggregates of one metric over groups of answers: value, interval, denominators, and bounds for missing values.

`analysis.aggregation` describes the frame.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import polars

from vlmhyperbench.analysis.aggregation import CLUSTER, Combining, aggregate
from vlmhyperbench.analysis.results import Aggregate, Interval


def aggregates_of(
    frame: polars.DataFrame, metric: Combining, *, group_by: Sequence[str] = (), cluster: str = CLUSTER, seed: int = 0
) -> dict[tuple[object, ...], Aggregate]:
    """Aggregate a metric for each combination of the group columns: values of the columns → aggregate, in their order.

    Without group columns the only key is (), also of an empty frame. Where the frame has no column `cluster`, every
    row is a document of its own.

    Raises:
        InvalidInput: as `aggregate`.
    """
    table = aggregate(frame, metric, group_by=group_by, cluster=cluster, seed=seed)
    return {tuple(row[column] for column in group_by): _aggregate(row) for row in table.iter_rows(named=True)}


def _aggregate(row: dict[str, Any]) -> Aggregate:
    method = row["ci_method"]
    return Aggregate(
        n=row["n"],
        n_scored=row["n_scored"],
        n_unscored=row["n"] - row["n_scored"],
        n_invalid=row["n_invalid"],
        unscored=row["unscored"],
        model_failures=row["model_failures"],
        infrastructure_failures=row["infrastructure_failures"],
        value=row["value"],
        mean=row["mean"],
        pooled=row["pooled"],
        median=row["median"],
        p95=row["p95"],
        p99=row["p99"],
        minimum=row["minimum"],
        maximum=row["maximum"],
        interval=None
        if method is None
        else Interval(low=row["ci_low"], high=row["ci_high"], method=method, units=row["ci_units"]),
        lower=row["lower"],
        upper=row["upper"],
    )
