"""Requests and tokens in equal bins of a run's time, for all requests at once.

Instants are integer nanoseconds on one clock. A bin includes its lower edge but not its upper edge; the last bin
includes both.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy

from vlmhyperbench.analysis.distributions import FloatArray, IntArray
from vlmhyperbench.analysis.scales import round_step
from vlmhyperbench.domain.units import NS_PER_S

MAX_BINS, MIN_BINS = 120, 12
REQUESTS_PER_BIN = 5
"""Smallest mean number of requests per bin: with fewer, bins show single requests instead of a rate."""
MIN_WIDTH_NS = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """Equal bins of time."""

    start_ns: int
    width_ns: int
    bins: int

    @property
    def edges_s(self) -> FloatArray:
        """Seconds from the start. Shape: (bins + 1,)."""
        return numpy.arange(self.bins + 1, dtype=numpy.float64) * self.width_s

    @property
    def width_s(self) -> float:
        return self.width_ns / NS_PER_S

    def count(self, instants_ns: IntArray, weights: FloatArray | None = None) -> FloatArray:
        """Count instants by bin, or sum their weights; instants outside the grid are left out. Shape: (bins,)."""
        since = instants_ns - self.start_ns
        is_inside = (since >= 0) & (since <= self.bins * self.width_ns)
        bins = numpy.minimum(since // self.width_ns, self.bins - 1)
        inside_weights = None if weights is None else weights[is_inside]
        return numpy.bincount(bins[is_inside], weights=inside_weights, minlength=self.bins).astype(numpy.float64)

    def mean_in_flight(self, began_ns: IntArray, ended_ns: IntArray) -> FloatArray:
        """Return the mean number of requests in flight over each bin. Shape: (bins,)."""
        edges = self.start_ns + self.width_ns * numpy.arange(self.bins + 1, dtype=numpy.int64)
        return numpy.diff(_sum_elapsed(began_ns, edges) - _sum_elapsed(ended_ns, edges)) / self.width_ns


def grid_of(first_ns: int, last_ns: int, *, requests: int) -> Grid:
    """Return at most `MAX_BINS` bins that cover a time, fewer for few requests.

    The width is 1, 2 or 5 times a power of ten.
    """
    max_bins = min(MAX_BINS, max(MIN_BINS, requests // REQUESTS_PER_BIN))
    width = int(max(MIN_WIDTH_NS, round_step(max(1, last_ns - first_ns) / max_bins)))
    return Grid(start_ns=first_ns, width_ns=width, bins=max(1, -(-(last_ns - first_ns) // width)))


def max_in_flight(began_ns: IntArray, ended_ns: IntArray) -> int:
    """Return the largest number of requests in flight at once; an end counts before a start at the same instant."""
    instants = numpy.concatenate((ended_ns, began_ns))
    steps = numpy.concatenate((numpy.full(ended_ns.size, -1), numpy.full(began_ns.size, 1)))
    order = numpy.argsort(instants, kind="stable")
    return int(numpy.cumsum(steps[order]).max(initial=0))


def _sum_elapsed(instants_ns: IntArray, until_ns: IntArray) -> FloatArray:
    """Sum, for each end, the times from all earlier instants to the end. Shape: that of `until_ns`."""
    origin = int(until_ns[0])
    since = numpy.sort(instants_ns - origin).astype(numpy.float64)
    sums = numpy.concatenate(([0.0], numpy.cumsum(since)))
    until = (until_ns - origin).astype(numpy.float64)
    before = numpy.searchsorted(since, until)
    return before * until - sums[before]
