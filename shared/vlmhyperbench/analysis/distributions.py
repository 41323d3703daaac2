"""Distributions of measured values: the rule of percentiles, values in order or in logarithmic buckets, a summary.

A percentile is a nearest rank everywhere: the smallest value that at least so many per cent of the values do not
exceed. It is always a value that was measured, or the middle of the bucket of one. Nothing here loops over values.
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
"""Upper over lower end of a bucket: its geometric middle is never further than 0.5 % from what lies in it."""
MIN_BUCKET_NS = 1e3
BUCKETS = 2800
"""From 1 µs to 14 days; what is beyond lies in the first or in the last."""


def rank_of(n: int, percent: float) -> int:
    """Return the nearest rank of a percentile among n values, at least 1; ranks count from 1."""
    # Rounded first: 99.9 % of 1000 is rank 999, though the product in floating point lies a little above.
    return max(1, math.ceil(round(percent * n / 100, 9)))


def nearest_rank(ordered: Sequence[float], percent: float) -> float | None:
    """Return a percentile of ascending values; None of none."""
    return ordered[rank_of(len(ordered), percent) - 1] if len(ordered) else None


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
        """Return a percentile; there is at least one value."""
        return float(self.at(numpy.array([rank_of(self.n, percent)]))[0])

    def describe(self) -> Distribution:
        """Summarise the values, which are milliseconds."""
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
    """Put values in order."""
    ascending = numpy.sort(numpy.asarray(values, dtype=numpy.float64))
    return Ordered(values=ascending, up_to=numpy.arange(1, ascending.size + 1))


def distribution_of(values_ns: FloatArray) -> Distribution:
    """Summarise times in nanoseconds; NaN stands for an undefined one, which does not take part."""
    return ordered(known(values_ns) / NS_PER_MS).describe()


def known(values: FloatArray) -> FloatArray:
    """Return the values that are defined, which are not NaN, in their order."""
    return values[~numpy.isnan(values)]


def bucket_counts(values_ns: FloatArray) -> IntArray:
    """Count times in nanoseconds by bucket. Shape: (BUCKETS,)."""
    places = numpy.floor(numpy.log(numpy.maximum(values_ns, MIN_BUCKET_NS) / MIN_BUCKET_NS) / math.log(BUCKET_RATIO))
    return numpy.bincount(numpy.minimum(places, BUCKETS - 1).astype(numpy.int64), minlength=BUCKETS)


def of_buckets(counts: IntArray) -> Ordered:
    """Put the geometric middle of its bucket in the place of every time; milliseconds.

    Args:
        counts: Sums of `bucket_counts`. Shape: (BUCKETS,).
    """
    held = numpy.flatnonzero(counts)
    middles = (MIN_BUCKET_NS * BUCKET_RATIO ** (held + 0.5)).astype(numpy.float64)
    return Ordered(values=middles * (1 / NS_PER_MS), up_to=numpy.cumsum(counts[held]))
