"""How the measured phase of a load was to be sent, and what its requests are grouped by."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from vlmhyperbench.domain.arrivals import Instants, Process


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenLoop:
    """How the measured phase was to be sent, where it was an open loop; of conversations, their first turns."""

    process: Process
    scheduled_ns: Instants
    """From the phase's start. Shape: (requests,), or (conversations,)."""
    cv: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Grouping:
    """What the requests of a phase are grouped by."""

    streams: int | None = None
    """Requests in flight at a time; 1 for an open loop, whose requests belong to no stream."""
    is_by_stream: bool = False
    samples_per_query: int = 0
    """How many requests, consecutive in order of ordinals, make one query; 0: there are no queries."""
    baseline_phase: int | None = None
    """The phase that sent one request at a time, to compare with."""
    pixels: Sequence[int] | None = None
    """Of each request's synthetic images, in order of ordinals. Shape: (requests,)."""
