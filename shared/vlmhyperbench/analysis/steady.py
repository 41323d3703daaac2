"""Rates of a load with their uncertainty: the steady window, batch means, and goodput over all requests. Pure."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from vlmhyperbench.analysis.distributions import FloatArray
from vlmhyperbench.analysis.repeats import half_width_of_mean
from vlmhyperbench.analysis.results import CONFIDENCE, Goodput
from vlmhyperbench.domain.units import NS_PER_S
from vlmhyperbench_sdk.errors import InvalidInput

Instants = npt.NDArray[np.int64]

RULE = (
    "from the end of the first N requests, where N is the number of streams (1 for an open loop), to the end of the "
    "stream that finishes first; for an open loop, to its last arrival"
)
MAX_BATCHES, MIN_BATCHES = 20, 5
"""Between 10 and 30 batches are enough for any interval (Schmeiser 1982, Operations Research 30:556)."""
BATCH_EVENTS = 10
"""Smallest mean number of events per batch: smaller batches are too noisy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """Time in which a load was steady: after every stream's first request and before the first stream became idle."""

    start_ns: int
    end_ns: int

    @property
    def duration_s(self) -> float:
        """Length of the window."""
        return (self.end_ns - self.start_ns) / NS_PER_S


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """Events per second over a window, with the interval of batch means."""

    per_s: float
    low: float | None
    """Lower end of the interval; like `high` None with too few events for `MIN_BATCHES` batches."""
    high: float | None
    batches: int
    confidence: float = CONFIDENCE


def first_idle_ns(stream: npt.NDArray[np.integer], end_ns: Instants) -> int:
    """Return the instant at which the first stream had ended its last request.

    Args:
        stream: Stream of each request; there is at least one request. Shape: (requests,).
        end_ns: End of each request. Shape: (requests,).
    """
    names, index = np.unique(stream, return_inverse=True)
    last = np.full(names.size, np.iinfo(np.int64).min)
    np.maximum.at(last, index, end_ns)
    return int(last.min())


def steady_window(sent_ns: Instants, end_ns: Instants, *, streams: int, until_ns: int) -> Window | None:
    """Return the time without the ramp-up at the start and the drain at the end; None where nothing remains.

    Args:
        sent_ns: Instant at which each request was sent. Shape: (requests,).
        end_ns: End of each request, successful or not. Shape: (requests,).
        streams: Number of requests in flight of a closed loop; 1 for an open loop.
        until_ns: Start of the drain: `first_idle_ns`, or the last arrival of an open loop.

    Raises:
        InvalidInput: there is no stream, or the columns differ in length.
    """
    if streams < 1 or sent_ns.shape != end_ns.shape:
        message = "The steady window has no stream, or not one end for each request that was sent."
        raise InvalidInput(message, cure="Give at least one stream, and the end of each request.")
    if sent_ns.size <= streams:
        return None
    first = np.argsort(sent_ns, kind="stable")[:streams]
    start = int(end_ns[first].max())
    return Window(start_ns=start, end_ns=until_ns) if until_ns > start else None


def rate_within(
    window: Window, at_ns: Instants, weights: FloatArray | None = None, *, confidence: float = CONFIDENCE
) -> Rate:
    """Return the rate of events within a window; the interval is Student's t over batches of equal duration.

    Args:
        window: Window that includes its end but not its start.
        at_ns: Instant of each event, in any order. Shape: (events,).
        weights: Weight of each event, such as its tokens; None: 1. Shape: (events,).
        confidence: Confidence of the interval.
    """
    is_within = (at_ns > window.start_ns) & (at_ns <= window.end_ns)
    since = at_ns[is_within] - window.start_ns
    counted = np.ones(since.size) if weights is None else weights[is_within]
    per_s = float(counted.sum()) / window.duration_s
    batches = min(MAX_BATCHES, since.size // BATCH_EVENTS)
    if batches < MIN_BATCHES:
        return Rate(per_s=per_s, low=None, high=None, batches=0, confidence=confidence)
    # Like the window, a batch includes its end.
    edges = np.linspace(0, window.end_ns - window.start_ns, batches + 1)
    batch = np.clip(np.searchsorted(edges, since, side="left") - 1, 0, batches - 1)
    sums = np.bincount(batch, weights=counted, minlength=batches) / (window.duration_s / batches)
    half_width = half_width_of_mean(float(sums.std(ddof=1)), batches, confidence=confidence)
    low, high = max(0.0, per_s - half_width), per_s + half_width
    return Rate(per_s=per_s, low=low, high=high, batches=batches, confidence=confidence)


def goodput_of(met: int, *, scheduled: int, duration_s: float, confidence: float = CONFIDENCE) -> Goodput:
    """Return the share and the rate of requests that met the SLO; failed requests did not meet it.

    Raises:
        InvalidInput: more requests met the SLO than were scheduled.
    """
    # scipy.stats takes a second of CPU to import, which a load without an SLO does not need.
    from vlmhyperbench.analysis.stats import wilson

    if not 0 <= met <= scheduled:
        message = f"{met} of {scheduled} requests cannot have met the SLO."
        raise InvalidInput(message, cure=f"Give a number from 0 to {scheduled}.")
    interval = wilson(met, scheduled, confidence=confidence)
    low, high = (None, None) if interval is None else (interval.low, interval.high)

    def per_second(count: float | None) -> float | None:
        return None if count is None or duration_s <= 0 else count / duration_s

    return Goodput(
        met=met,
        scheduled=scheduled,
        share=met / scheduled if scheduled else None,
        low=low,
        high=high,
        per_s=per_second(met),
        low_per_s=per_second(None if low is None else low * scheduled),
        high_per_s=per_second(None if high is None else high * scheduled),
        confidence=confidence,
    )
