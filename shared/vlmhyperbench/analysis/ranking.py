"""Rank runs by one metric, on the answers that all of them have."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy
import polars

from vlmhyperbench.analysis import stats
from vlmhyperbench.analysis.aggregation import STATISTIC
from vlmhyperbench.analysis.comparison import PAIR_KEY, Measured, statistics_of, with_statistics
from vlmhyperbench.analysis.ranks import RankSpread, rank_spread


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranking:
    """Ranks of several runs, in their order."""

    spreads: tuple[RankSpread, ...]
    answers: int
    """Number of answers that all runs have."""
    documents: int


def rank_measured(
    metrics: Sequence[Measured], *, direction: Literal["higher", "lower"], seed: int = 0
) -> Ranking | None:
    """Rank runs by a metric that is the same in all of them.

    None with fewer than two runs or two common documents, or where a run has no value.
    """
    if len(metrics) < 2:
        return None
    first = metrics[0]
    common = common_answers([metric.frame for metric in metrics])
    if not common.height:
        return None
    names = statistics_of(*(metric.frame for metric in metrics))
    is_pooled = first.description.aggregation == "pooled" and bool(names)
    keys = [name.removeprefix(STATISTIC) for name in names]
    estimator = stats.pooled(first.combine, keys) if is_pooled else stats.mean_of
    documents = numpy.array(common["document"].to_list())
    units = [stats.by_unit(_sums(common, metric.frame, names if is_pooled else []), documents) for metric in metrics]
    spreads = rank_spread(units, estimator, direction=direction, seed=seed)
    if spreads is None:
        return None
    return Ranking(spreads=tuple(spreads), answers=common.height, documents=len(units[0]))


def common_answers(frames: Sequence[polars.DataFrame]) -> polars.DataFrame:
    """Return the answers for which every frame has a value, with the documents of the first frame."""
    first, *others = [frame.filter(polars.col("value").is_not_null()) for frame in frames]
    common = first.select(*PAIR_KEY, polars.col("cluster").alias("document"))
    for other in others:
        common = common.join(other.select(PAIR_KEY), on=list(PAIR_KEY), how="semi")
    return common


def _sums(common: polars.DataFrame, frame: polars.DataFrame, names: Sequence[str]) -> stats.FloatArray:
    """Return statistics of the common answers, or value and count without names. Shape: (answers, statistics)."""
    rows = common.join(with_statistics(frame, names), on=list(PAIR_KEY), how="left", maintain_order="left")
    columns = [rows[name].fill_null(0.0).to_numpy() for name in names]
    return numpy.column_stack(columns or [rows["value"].to_numpy(), numpy.ones(rows.height)]).astype(numpy.float64)
