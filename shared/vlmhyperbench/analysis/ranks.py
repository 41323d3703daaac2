"""Uncertainty of the order of runs: the ranks that they have on bootstrap resamples of the documents."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from vlmhyperbench.analysis.results import CONFIDENCE
from vlmhyperbench.analysis.stats import RESAMPLES, Estimator, FloatArray, IntArray

_BATCH_NUMBERS = 2_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class RankSpread:
    """Ranks of one run over resamples of the documents; 1 is best."""

    rank: int
    """Rank on the documents themselves. Runs of equal value share the better rank."""
    low: int
    high: int
    """Ends of the interval that contains 95 % of its ranks, each by nearest rank."""
    shares: tuple[float, ...]
    """Share of the resamples on which it has rank 1, 2, … Shape: (runs,)."""


def rank_spread(
    runs: Sequence[FloatArray],
    estimator: Estimator,
    *,
    direction: Literal["higher", "lower"],
    seed: int,
    resamples: int = RESAMPLES,
    confidence: float = CONFIDENCE,
) -> list[RankSpread] | None:
    """Rank runs on bootstrap resamples of the documents that all of them answered (Efron 1979).

    All runs are ranked on the same resamples, so that easy and hard documents cancel out. A resample on which a value
    is undefined is left out.

    Args:
        runs: Additive sums of each document for each run, in the same order of documents. Shape of each: (units,
            statistics).
        estimator: Maps sums to a value.
        direction: Which end of the scale is good.
        seed: Seed of the resamples; the same seed gives the same result.
        resamples: Number of resamples.
        confidence: Share of the ranks that the interval contains.

    Returns:
        None with fewer than two runs or two documents, or where a run has no value.
    """
    if len(runs) < 2 or min(len(units) for units in runs) < 2:
        return None
    sign = 1.0 if direction == "higher" else -1.0
    observed = np.array([[sign * float(estimator(units.sum(axis=0))) for units in runs]])
    if not np.isfinite(observed).all():
        return None
    resampled = sign * _resample(runs, estimator, seed=seed, resamples=resamples)
    resampled = resampled[np.isfinite(resampled).all(axis=1)]
    if not len(resampled):
        return None
    ranks, observed_ranks = _ranks(resampled), _ranks(observed)[0]
    tail = (1 - confidence) / 2
    low, high = (np.quantile(ranks, q, axis=0, method="inverted_cdf") for q in (tail, 1 - tail))
    return [
        RankSpread(
            rank=int(observed_ranks[i]),
            low=int(low[i]),
            high=int(high[i]),
            shares=tuple(float(np.mean(ranks[:, i] == rank)) for rank in range(1, len(runs) + 1)),
        )
        for i in range(len(runs))
    ]


def _resample(runs: Sequence[FloatArray], estimator: Estimator, *, seed: int, resamples: int) -> FloatArray:
    """Return every run's value on every resample. Shape: (resamples, runs)."""
    count = len(runs[0])
    rng = np.random.default_rng(seed)
    batch = max(1, _BATCH_NUMBERS // count)
    parts = []
    for start in range(0, resamples, batch):
        size = min(batch, resamples - start)
        counts = rng.multinomial(count, np.full(count, 1 / count), size=size).astype(np.float64)
        parts.append(np.column_stack([estimator(counts @ units) for units in runs]))
    return np.concatenate(parts)


def _ranks(values: FloatArray) -> IntArray:
    """Rank the runs of each row: 1 plus the number of better runs. Shape: (rows, runs) → the same.

    Values that differ only by floating-point rounding share a rank.
    """
    better = values[:, None, :] > values[:, :, None] + 1e-9 * np.maximum(1.0, np.abs(values[:, :, None]))
    ranks: IntArray = 1 + better.sum(axis=2, dtype=np.int64)
    return ranks
