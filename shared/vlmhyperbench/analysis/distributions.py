"""Distributions of measured values: percentiles, sorted values, logarithmic buckets, and a summary.

A percentile is always a nearest rank: p is the smallest value that at least p % of the values do not exceed. It is a
measured value, or the middle of the bucket of one. No function loops over values in Python.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy
import numpy.typing as npt

from vlmhyperbench.analysis.results import Distribution
from vlmhyperbench.domain.units import NS_PER_MS

FloatArray = npt.NDArray[numpy.float64]
IntArray = npt.NDArray[numpy.int64]

BUCKET_RATIO = 1.01
"""Upper end of a bucket over its lower end: its geometric middle is within 0.5 % of every value in it."""
MIN_BUCKET_NS = 1e3
BUCKETS = 2800
"""Buckets from 1 µs to 14 days. Shorter times count in the first bucket, longer ones in the last."""


def rank_of(n: int, percent: float) -> int:
    """Return the nearest rank of a percentile among n values, counted from 1."""
    # The product is rounded first: 99.9 % of 1000 is rank 999, but the floating-point product is slightly above 999.
    return max(1, math.ceil(round(percent * n / 100, 9)))


def nearest_rank(ordered: Sequence[float], percent: float) -> float | None:
    """Return a percentile of ascending values; None where there are no values."""
    return ordered[rank_of(len(ordered), percent) - 1] if len(ordered) else None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Ordered:
    """Values in ascending order, with their cumulative counts."""

    values: FloatArray
    """Distinct or repeated values, ascending. Shape: (values,)."""
    up_to: IntArray
    """Cumulative count: the number of occurrences up to each value, inclusive. Shape: (values,)."""

    @property
    def n(self) -> int:
        """Number of occurrences of all values."""
        return int(self.up_to[-1]) if self.up_to.size else 0

    def at(self, ranks: IntArray) -> FloatArray:
        """Return the values at ranks, which count from 1. Shape: that of `ranks`."""
        values: FloatArray = self.values[numpy.searchsorted(self.up_to, ranks)]
        return values

    def percentile(self, percent: float) -> float:
        """Return a percentile. There must be at least one value."""
        return float(self.at(numpy.array([rank_of(self.n, percent)]))[0])

    def describe(self) -> Distribution:
        """Summarise the values, which must be milliseconds."""
        if not self.n:
            return Distribution(n=0, mean=None, p50=None, p90=None, p99=None, max=None)
        return Distribution(
            n=self.n,
            mean=float(numpy.average(self.values, weights=numpy.diff(self.up_to, prepend=0))),
            p50=self.percentile(50),
            p90=self.percentile(90),
            p99=self.percentile(99),
            max=float(self.values[-1]),
        )


def ordered(values: Sequence[float] | FloatArray) -> Ordered:
    """Sort values."""
    ascending = numpy.sort(numpy.asarray(values, dtype=numpy.float64))
    return Ordered(values=ascending, up_to=numpy.arange(1, ascending.size + 1))


def distribution_of(values_ns: FloatArray) -> Distribution:
    """Summarise times in nanoseconds; undefined times, which are NaN, are left out."""
    return ordered(known(values_ns) / NS_PER_MS).describe()


def known(values: FloatArray) -> FloatArray:
    """Return the values that are not NaN, in their order."""
    return values[~numpy.isnan(values)]


def bucket_counts(values_ns: FloatArray) -> IntArray:
    """Count times in nanoseconds by bucket. Shape: (BUCKETS,)."""
    buckets = numpy.floor(numpy.log(numpy.maximum(values_ns, MIN_BUCKET_NS) / MIN_BUCKET_NS) / math.log(BUCKET_RATIO))
    return numpy.bincount(numpy.minimum(buckets, BUCKETS - 1).astype(numpy.int64), minlength=BUCKETS)


def of_buckets(counts: IntArray) -> Ordered:
    """Return counted times in milliseconds, each replaced by the geometric middle of its bucket.

    Args:
        counts: Sums of `bucket_counts`. Shape: (BUCKETS,).
    """
    filled = numpy.flatnonzero(counts)
    middles = (MIN_BUCKET_NS * BUCKET_RATIO ** (filled + 0.5)).astype(numpy.float64)
    return Ordered(values=middles * (1 / NS_PER_MS), up_to=numpy.cumsum(counts[filled]))
