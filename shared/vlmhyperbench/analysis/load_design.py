"""The schedule of a load's measured phase, and what its requests are grouped by."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from vlmhyperbench.domain.arrivals import Instants, Process


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenLoop:
    """Schedule of a measured phase that is an open loop; of conversations it has the first turns only."""

    process: Process
    scheduled_ns: Instants
    """Nanoseconds from the phase's start. Shape: (requests,), or (conversations,)."""
    cv: float = 1.0
    """Coefficient of variation of a gamma process."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Grouping:
    """Properties by which the requests of a phase are grouped."""

    streams: int | None = None
    """Number of requests in flight at a time; 1 for an open loop, whose requests belong to no stream."""
    is_by_stream: bool = False
    samples_per_query: int = 0
    """Number of requests, consecutive by ordinal, that make one query; 0 where there are no queries."""
    baseline_phase: int | None = None
    """Phase that sent one request at a time, for comparison."""
    pixels: Sequence[int] | None = None
    """Pixels of each request's synthetic images, by ordinal. Shape: (requests,)."""
