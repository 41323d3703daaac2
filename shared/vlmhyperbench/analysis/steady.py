"""Rates of a load with their uncertainty: the window in which it was steady, batch means, goodput over all requests.

Pure. What starts up and what drains is cut by one rule, and what was cut is said.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import special

from vlmhyperbench.analysis.distributions import FloatArray
from vlmhyperbench.analysis.results import CONFIDENCE, Goodput
from vlmhyperbench.domain.units import NS_PER_S
from vlmhyperbench_sdk.errors import InvalidInput

Instants = npt.NDArray[np.int64]

RULE = (
    "from the end of the first requests (as many as there are streams; one of an open loop) to when the first stream "
    "has ended its last one; of an open loop, to its last arrival"
)
MAX_BATCHES, MIN_BATCHES = 20, 5
"""Between 10 and 30 batches are enough for any interval (Schmeiser 1982, Operations Research 30:556)."""
BATCH_EVENTS = 10
"""So many events a batch, on average, at least: with fewer, neighbouring batches say hardly anything of their own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """When a load was steady: every stream had ended its first request, and all of them went on."""

    start_ns: int
    end_ns: int

    @property
    def duration_s(self) -> float:
        """Its length."""
        return (self.end_ns - self.start_ns) / NS_PER_S


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """Events a second over a window, with the interval of batch means."""

    per_s: float
    low: float | None
    """None where there are too few events for `MIN_BATCHES` batches; so is `high`."""
    high: float | None
    batches: int
    confidence: float = CONFIDENCE


def first_idle_ns(stream: npt.NDArray[np.integer], end_ns: Instants) -> int:
    """Return when the first stream had ended its last request.

    Args:
        stream: Whose each request is, of one at least. Shape: (requests,).
        end_ns: When each ended. Shape: (requests,).
    """
    names, which = np.unique(stream, return_inverse=True)
    last = np.full(names.size, np.iinfo(np.int64).min)
    np.maximum.at(last, which, end_ns)
    return int(last.min())


def steady_window(sent_ns: Instants, end_ns: Instants, *, streams: int, over_ns: int) -> Window | None:
    """Cut the start and the end off; None where nothing is left between them.

    Args:
        sent_ns: When each request was sent. Shape: (requests,).
        end_ns: When each ended, well or not. Shape: (requests,).
        streams: Requests under way at a time, of a closed loop; 1 of an open one.
        over_ns: When there was no longer as much to do: `first_idle_ns`; of an open loop, the last arrival.

    Raises:
        InvalidInput: there is no stream, or the columns differ in length.
    """
    if streams < 1 or sent_ns.shape != end_ns.shape:
        raise InvalidInput("A window needs a stream, and an end of each request that was sent.")
    if sent_ns.size <= streams:
        return None
    first = np.argsort(sent_ns, kind="stable")[:streams]
    start = int(end_ns[first].max())
    return Window(start_ns=start, end_ns=over_ns) if over_ns > start else None


def rate_within(
    window: Window, at_ns: Instants, weights: FloatArray | None = None, *, confidence: float = CONFIDENCE
) -> Rate:
    """Count what happened within a window; the interval is Student's t over batches of equal duration.

    Args:
        window: Its start is not part of it, its end is.
        at_ns: When events happened, in any order. Shape: (events,).
        weights: What each counts, such as its tokens; None: 1. Shape: (events,).
        confidence: Of the interval.
    """
    is_within = (at_ns > window.start_ns) & (at_ns <= window.end_ns)
    since = at_ns[is_within] - window.start_ns
    counted = np.ones(since.size) if weights is None else weights[is_within]
    per_s = float(counted.sum()) / window.duration_s
    batches = min(MAX_BATCHES, since.size // BATCH_EVENTS)
    if batches < MIN_BATCHES:
        return Rate(per_s=per_s, low=None, high=None, batches=0, confidence=confidence)
    # An event at the end of a batch is part of it, as with the window.
    edges = np.linspace(0, window.end_ns - window.start_ns, batches + 1)
    batch = np.clip(np.searchsorted(edges, since, side="left") - 1, 0, batches - 1)
    sums = np.bincount(batch, weights=counted, minlength=batches) / (window.duration_s / batches)
    reach = float(special.stdtrit(batches - 1, (1 + confidence) / 2) * sums.std(ddof=1) / batches**0.5)
    return Rate(per_s=per_s, low=max(0.0, per_s - reach), high=per_s + reach, batches=batches, confidence=confidence)


def goodput_of(met: int, *, scheduled: int, duration_s: float, confidence: float = CONFIDENCE) -> Goodput:
    """State how many of all scheduled requests kept the SLO, failed ones among those that did not.

    Raises:
        InvalidInput: more requests kept it than were scheduled.
    """
    # scipy.stats takes a second of CPU to import, which a load without an SLO need not pay.
    from vlmhyperbench.analysis.stats import wilson

    if not 0 <= met <= scheduled:
        raise InvalidInput(f"{met} of {scheduled} requests cannot have kept the SLO.")
    interval = wilson(met, scheduled, confidence=confidence)
    low, high = (None, None) if interval is None else (interval.low, interval.high)

    def a_second(count: float | None) -> float | None:
        return None if count is None or duration_s <= 0 else count / duration_s

    return Goodput(
        met=met,
        scheduled=scheduled,
        share=met / scheduled if scheduled else None,
        low=low,
        high=high,
        per_s=a_second(met),
        low_per_s=a_second(None if low is None else low * scheduled),
        high_per_s=a_second(None if high is None else high * scheduled),
        confidence=confidence,
    )
