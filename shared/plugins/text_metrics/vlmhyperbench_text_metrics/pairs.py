"""Lay predictions beside each of their references, so that a library compares all pairs in one call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from vlmhyperbench_sdk.types import Measures

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

NO_REFERENCE = "no_reference"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pairs:
    """All (prediction, reference) pairs of a batch, sample by sample; samples without a reference have none."""

    predictions: list[str]
    """Shape: (pairs,)."""
    references: list[str]
    """Shape: (pairs,)."""
    rows: IntArray
    """Indices of the samples that have a reference, ascending. Shape: (rows,)."""
    starts: IntArray
    """First pair of each row. Shape: (rows,)."""
    samples: int
    """Size of the batch."""

    def best(self, scores: FloatArray) -> IntArray:
        """Return, for each row, its pair of the highest score, the first among equals. Shape: (rows,)."""
        pairs = np.arange(len(scores))
        owner = np.searchsorted(self.starts, pairs, side="right")
        return np.lexsort((pairs, -scores, owner))[self.starts]

    def measures(self, values: FloatArray, statistics: Mapping[str, FloatArray | IntArray]) -> Measures:
        """Spread per-row numbers over the batch; what has no reference is unscored. Each of shape (rows,).

        Every scored sample also gets the statistic `count` = 1.
        """
        column: list[float | None] = [None] * self.samples
        reasons: list[str | None] = [NO_REFERENCE] * self.samples
        for row, value in zip(self.rows.tolist(), values.tolist(), strict=True):
            column[row] = value
            reasons[row] = None
        spread = {name: self._spread(numbers) for name, numbers in statistics.items()}
        return Measures(
            values=column, reasons=reasons, statistics={**spread, "count": self._spread(np.ones(len(self.rows)))}
        )

    def _spread(self, numbers: FloatArray | IntArray) -> list[float]:
        column = np.zeros(self.samples)
        column[self.rows] = numbers
        spread: list[float] = column.tolist()
        return spread


def lay_out(predictions: Sequence[str], references: Sequence[Sequence[str]]) -> Pairs:
    """Pair every prediction with each of its references. Both of shape (samples,)."""
    counts = np.fromiter(map(len, references), dtype=np.int64, count=len(references))
    rows = np.flatnonzero(counts)
    ends = np.cumsum(counts[rows])
    return Pairs(
        predictions=[text for text, own in zip(predictions, references, strict=True) for _ in own],
        references=[reference for own in references for reference in own],
        rows=rows,
        starts=ends - counts[rows],
        samples=len(predictions),
    )


def lengths(sequences: Sequence[Sequence[object]]) -> IntArray:
    """Length of each sequence. Shape: (sequences,)."""
    return np.fromiter(map(len, sequences), dtype=np.int64, count=len(sequences))


def share(sums: Mapping[str, float], part: str) -> float | None:
    """Mean of a statistic over the scored samples of a group; None where nothing was scored."""
    count = sums.get("count", 0.0)
    return sums[part] / count if count > 0 else None
