"""Aggregates of one metric over groups of answers: value, interval, denominators, and bounds for missing values.

`analysis.aggregation` describes the frame.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Any

import polars

from vlmhyperbench.analysis.aggregation import CLUSTER, aggregate
from vlmhyperbench.analysis.combining import Combining
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
    low, high, method, units = (row[name] for name in ("ci_low", "ci_high", "ci_method", "ci_units"))
    columns = {
        **row,
        "n_unscored": row["n"] - row["n_scored"],
        "interval": None if method is None else Interval(low=low, high=high, method=method, units=units),
    }
    return Aggregate(**{field.name: columns[field.name] for field in fields(Aggregate)})
