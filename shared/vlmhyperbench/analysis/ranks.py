"""How sure the order of runs is: the ranks they take when the documents are drawn again and again."""

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
    """The ranks of one run over resamples of the documents; 1 is best."""

    rank: int
    """On the documents as they are. Runs of equal value share the better rank."""
    low: int
    high: int
    """Ends of the interval that holds 95 % of its ranks, each by nearest rank."""
    shares: tuple[float, ...]
    """In which share of the resamples it took rank 1, 2, … Shape: (runs,)."""


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
    is undefined is left out. None with fewer than two runs or two documents, or where a run has no value.

    Args:
        runs: additive sums of each document for each run, documents in one order. Each of shape (units, statistics).
        estimator: from sums to value.
        direction: which end is good.
        seed: of the resamples; the same seed gives the same spread.
        resamples: how many.
        confidence: share of the ranks that the interval holds.
    """
    if len(runs) < 2 or min(len(units) for units in runs) < 2:
        return None
    sign = 1.0 if direction == "higher" else -1.0
    observed = np.array([[sign * float(estimator(units.sum(axis=0))) for units in runs]])
    if not np.isfinite(observed).all():
        return None
    drawn = sign * _resampled(runs, estimator, seed=seed, resamples=resamples)
    drawn = drawn[np.isfinite(drawn).all(axis=1)]
    if not len(drawn):
        return None
    ranks, now = _ranks(drawn), _ranks(observed)[0]
    tail = (1 - confidence) / 2
    low, high = (np.quantile(ranks, q, axis=0, method="inverted_cdf") for q in (tail, 1 - tail))
    return [
        RankSpread(
            rank=int(now[i]),
            low=int(low[i]),
            high=int(high[i]),
            shares=tuple(float(np.mean(ranks[:, i] == rank)) for rank in range(1, len(runs) + 1)),
        )
        for i in range(len(runs))
    ]


def _resampled(runs: Sequence[FloatArray], estimator: Estimator, *, seed: int, resamples: int) -> FloatArray:
    """Give every run's value on every resample. Shape: (resamples, runs)."""
    count = len(runs[0])
    rng = np.random.default_rng(seed)
    batch = max(1, _BATCH_NUMBERS // count)
    parts = []
    for start in range(0, resamples, batch):
        size = min(batch, resamples - start)
        times = rng.multinomial(count, np.full(count, 1 / count), size=size).astype(np.float64)
        parts.append(np.column_stack([estimator(times @ units) for units in runs]))
    return np.concatenate(parts)


def _ranks(values: FloatArray) -> IntArray:
    """One more than the number of runs that are better. Shape: (rows, runs) → the same.

    Sums in another order differ in the last digits: what is equal up to those shares a rank.
    """
    better = values[:, None, :] > values[:, :, None] + 1e-9 * np.maximum(1.0, np.abs(values[:, :, None]))
    ranks: IntArray = 1 + better.sum(axis=2, dtype=np.int64)
    return ranks
