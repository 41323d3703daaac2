"""Many values in ascending order, each once or in fixed buckets, and their exact ranks: nothing loops over values."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy
import numpy.typing as npt

FloatArray = npt.NDArray[numpy.float64]
IntArray = npt.NDArray[numpy.int64]

BUCKET_RATIO = 1.01
"""Upper over lower end of a bucket: its geometric middle is never further than 0.5 % from what lies in it."""
LEAST = 1e3
BUCKETS = 2800
"""From 1 µs to 14 days, in nanoseconds; what is beyond lies in the first or in the last."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Ordered:
    """Values with the number of times that each occurs."""

    values: FloatArray
    """Ascending. Shape: (values,)."""
    up_to: IntArray
    """How many are not above each. Shape: (values,)."""

    @property
    def n(self) -> int:
        """How many there are."""
        return int(self.up_to[-1]) if self.up_to.size else 0

    def at(self, ranks: IntArray) -> FloatArray:
        """Return the values of ranks, which count from 1. Shape: that of `ranks`."""
        found: FloatArray = self.values[numpy.searchsorted(self.up_to, ranks)]
        return found

    def percentile(self, percent: float) -> float:
        """Return the nearest rank's value (`performance.nearest_rank`); there is at least one value."""
        rank = max(1, math.ceil(round(percent * self.n / 100, 9)))
        return float(self.at(numpy.array([rank]))[0])

    def scaled(self, factor: float) -> Ordered:
        """Return every value times a factor above 0: milliseconds of nanoseconds."""
        return Ordered(values=self.values * factor, up_to=self.up_to)


def ordered(values: Sequence[float] | FloatArray) -> Ordered:
    """Put values in order."""
    ascending = numpy.sort(numpy.asarray(values, dtype=numpy.float64))
    return Ordered(values=ascending, up_to=numpy.arange(1, ascending.size + 1))


def bucket_counts(values_ns: FloatArray) -> IntArray:
    """Count values in nanoseconds by bucket. Shape: (BUCKETS,)."""
    places = numpy.floor(numpy.log(numpy.maximum(values_ns, LEAST) / LEAST) / math.log(BUCKET_RATIO))
    return numpy.bincount(numpy.minimum(places, BUCKETS - 1).astype(numpy.int64), minlength=BUCKETS)


def of_buckets(counts: IntArray) -> Ordered:
    """Stand the geometric middle of its bucket for every value; nanoseconds.

    Args:
        counts: sums of `bucket_counts`. Shape: (BUCKETS,).
    """
    held = numpy.flatnonzero(counts)
    middles = (LEAST * BUCKET_RATIO ** (held + 0.5)).astype(numpy.float64)
    return Ordered(values=middles, up_to=numpy.cumsum(counts[held]))
