"""Pair predictions with each of their references, so that a library compares all pairs in a single call."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
import numpy.typing as npt

from vlmhyperbench_sdk.types import Measures

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

NO_REFERENCE = "no_reference"

CHUNK_CHARS = 1 << 20
"""Approximate amount of text that is processed at a time, so that copies stay in the processor's cache."""


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
        """Return the index of each row's pair with the highest score, the first of equal ones. Shape: (rows,)."""
        if len(scores) == len(self.rows):
            return self.starts
        highest = np.maximum.reduceat(scores, self.starts)
        pairs_of_row = np.diff(self.starts, append=len(scores))
        candidates = np.flatnonzero(scores == np.repeat(highest, pairs_of_row))
        return candidates[np.searchsorted(candidates, self.starts)]

    def chunks(self, chars: int = CHUNK_CHARS) -> Iterator[slice]:
        """Split the pairs into parts of about this many characters, each with at least one pair."""
        if not self.predictions:
            return
        ends = np.cumsum(lengths(self.predictions) + lengths(self.references) + 1)
        cuts = np.searchsorted(ends, np.arange(chars, ends[-1], chars), side="right")
        bounds = sorted({0, *cuts.tolist(), len(ends)})
        yield from map(slice, bounds[:-1], bounds[1:])

    def measures(self, values: FloatArray, statistics: Mapping[str, FloatArray | IntArray]) -> Measures:
        """Turn per-row numbers into measures of the batch; samples without a reference are unscored. Shapes: (rows,).

        Every scored sample also gets the statistic `count` = 1.
        """
        spread = {name: self._spread(numbers) for name, numbers in statistics.items() if numbers is not values}
        own = self._spread(values)
        statistic = {name: spread.get(name, own) for name in statistics}
        reasons: list[str | None] = [None] * self.samples
        column: list[float | None] = [*own]
        counts = [1.0] * self.samples
        if len(self.rows) < self.samples:
            without = np.ones(self.samples, dtype=np.bool_)
            without[self.rows] = False
            for sample in np.flatnonzero(without).tolist():
                column[sample], reasons[sample], counts[sample] = None, NO_REFERENCE, 0.0
        return Measures(values=column, reasons=reasons, statistics={**statistic, "count": counts})

    def _spread(self, numbers: FloatArray | IntArray) -> list[float]:
        column = numbers.astype(np.float64)
        if len(self.rows) < self.samples:
            column = np.zeros(self.samples)
            column[self.rows] = numbers
        spread: list[float] = column.tolist()
        return spread


def lay_out(predictions: Sequence[str], references: Sequence[Sequence[str]]) -> Pairs:
    """Pair every prediction with each of its references. Both of shape (samples,).

    Raises:
        ValueError: they differ in length.
    """
    counts = lengths(references)
    if len(predictions) != len(counts):
        raise ValueError(f"{len(predictions)} predictions have {len(counts)} lists of references.")
    rows = np.flatnonzero(counts)
    starts = np.cumsum(counts) - counts
    if len(rows) == len(counts) == counts.sum():
        predicted, true = list(predictions), [text for (text,) in references]
    else:
        true = list(chain.from_iterable(references))
        predicted = [text for text, count in zip(predictions, counts.tolist(), strict=True) for _ in range(count)]
    return Pairs(
        predictions=predicted,
        references=true,
        rows=rows,
        starts=starts[rows],
        samples=len(predictions),
    )


def lengths(sequences: Sequence[Sequence[object]]) -> IntArray:
    """Return the length of each sequence. Shape: (sequences,)."""
    return np.fromiter(map(len, sequences), dtype=np.int64, count=len(sequences))


def share(sums: Mapping[str, float], part: str) -> float | None:
    """Return the mean of a statistic over the scored samples of a group; None without scored samples."""
    count = sums.get("count", 0.0)
    return sums[part] / count if count > 0 else None
