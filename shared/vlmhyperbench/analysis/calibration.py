"""Calibration: whether answers with a confidence of 80 % are right in 80 % of the cases."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from vlmhyperbench.analysis import stats
from vlmhyperbench.analysis.results import Interval
from vlmhyperbench.analysis.stats import FloatArray

BINS = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class ReliabilityBin:
    """Answers whose confidence is above `low` and at most `high`; the first bin includes its low end."""

    low: float
    high: float
    n: int
    confidence: float
    """Mean confidence of its answers."""
    right: float
    """Share of its answers that are right."""
    interval: Interval | None
    """Of that share, with documents as units."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """How well confidences predict which answers are right."""

    n: int
    mean_confidence: float
    right: float
    """Share of the answers that are right."""
    ece: float
    """Expected calibration error: mean distance of confidence and share of right answers, bin by bin. With few answers
    it is biased upwards, since each bin's chance deviation counts as an error."""
    brier: float
    """Mean square of confidence minus rightness: 0 is perfect."""
    brier_interval: Interval | None
    bins: tuple[ReliabilityBin, ...]
    """Bins that have answers, in order."""


def calibration(
    confidences: FloatArray, right: npt.NDArray[np.bool_], clusters: Sequence[str], *, bins: int = BINS, seed: int = 0
) -> Calibration | None:
    """Describe the calibration of confidences; None without an answer.

    The expected calibration error is that of Guo et al. 2017, arXiv:1706.04599, eq. 3, with bins of equal width; the
    score of Brier 1950, in its form for two outcomes.

    Args:
        confidences: Confidence of each answer, from 0 to 1; answers with NaN are left out. Shape: (answers,).
        right: Whether each answer is right. Shape: (answers,).
        clusters: Document of each answer. Shape: (answers,).
        bins: Number of bins of equal width.
        seed: Seed of the bootstrap.
    """
    is_known = np.isfinite(confidences)
    shown, hits = confidences[is_known], right[is_known].astype(np.float64)
    documents = np.asarray(clusters)[is_known]
    if not len(shown):
        return None
    # A confidence such as 0.7, computed as a quotient, must not fall into another bin by its last bit.
    index = np.clip(np.ceil(np.round(shown * bins, 9)) - 1, 0, bins - 1).astype(np.int64)
    filled = tuple(
        _bin(number, bins, shown[index == number], hits[index == number], documents[index == number], seed)
        for number in np.unique(index).tolist()
    )
    squares = np.column_stack([(shown - hits) ** 2, np.ones(len(hits))])
    return Calibration(
        n=len(hits),
        mean_confidence=float(shown.mean()),
        right=float(hits.mean()),
        ece=sum(part.n * abs(part.confidence - part.right) for part in filled) / len(hits),
        brier=float(squares[:, 0].mean()),
        brier_interval=stats.interval(stats.by_unit(squares, documents), stats.mean_of, seed=seed),
        bins=filled,
    )


def _bin(
    number: int, bins: int, shown: FloatArray, hits: FloatArray, documents: npt.NDArray[np.str_], seed: int
) -> ReliabilityBin:
    units = stats.by_unit(np.column_stack([hits, np.ones(len(hits))]), documents)
    return ReliabilityBin(
        low=number / bins,
        high=(number + 1) / bins,
        n=len(hits),
        confidence=float(shown.mean()),
        right=float(hits.mean()),
        interval=stats.proportion_intervals(units, np.array([len(units)]), seed=seed)[0],
    )
