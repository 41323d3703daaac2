"""When the requests of an open loop are to be sent: drawn once, before the clock starts, from a seed.

Instants are int64 nanoseconds from the phase's start, ascending. Nothing here knows what happens to the requests, so a
slow server changes no arrival (an open loop has no coordinated omission).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

from vlmhyperbench_sdk.errors import InvalidInput

Process = Literal["constant", "poisson", "gamma", "burst", "ramp", "trace"]
Instants = npt.NDArray[np.int64]

MOST_RATE_PER_S = 100_000.0
MOST_ARRIVALS = 10_000_000
MOST_SECONDS = 1e9
"""No schedule lasts longer: an int64 holds nine times as many nanoseconds, and a clock's instant is added to them."""

_S = 1e9


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrivals:
    """An arrival process and its parameters.

    Raises:
        InvalidInput: a parameter is out of range.
    """

    process: Process
    rate_per_s: float
    """Requests a second on average; of a ramp, its first rate."""
    cv: float = 1.0
    """Of gamma: standard deviation of the gaps over their mean. 1 is Poisson, more is burstier."""
    burst_size: int = 1
    """Of burst: so many requests leave at once; the bursts keep the rate on average and come as in Poisson."""
    last_rate_per_s: float | None = None
    """Of ramp: the rate at its end."""

    def __post_init__(self) -> None:
        if self.process not in get_args(Process):
            raise InvalidInput(f"There is no arrival process {self.process!r}.", cure=", ".join(get_args(Process)))
        _check("rate_per_s", self.rate_per_s, 1e-6, MOST_RATE_PER_S)
        _check("cv", self.cv, 0.01, 100.0)
        _check("burst_size", self.burst_size, 1, 100_000)
        if self.process == "ramp":
            if self.last_rate_per_s is None:
                raise InvalidInput("A ramp needs the rate at its end.", cure="Give last_rate_per_s.")
            _check("last_rate_per_s", self.last_rate_per_s, 1e-6, MOST_RATE_PER_S)


def draw_arrivals(arrivals: Arrivals, *, count: int, seed: int) -> Instants:
    """Draw the first `count` instants. Shape: (count,).

    Raises:
        InvalidInput: there would be too many, they would take too long, or the process is a trace, which is not drawn.
    """
    drawn_ns = _draw_ns(arrivals, count=count, seed=seed)
    lasts_s = drawn_ns.max(initial=0.0) / _S
    if not lasts_s <= MOST_SECONDS:
        raise InvalidInput(
            f"{count} arrivals at {arrivals.rate_per_s:g} a second would take {lasts_s:.3g} s, and a schedule lasts "
            f"{MOST_SECONDS:,.0f} s at most.",
            cure="Ask for fewer requests, or a larger rate.",
        )
    return drawn_ns.astype(np.int64)


def arrivals_within(arrivals: Arrivals, *, duration_s: float, seed: int) -> Instants:
    """Draw the arrivals of so many seconds.

    Raises:
        InvalidInput: there would be too many, or they would take too long.
    """
    _check("the duration in seconds", duration_s, 0, MOST_SECONDS)
    rate = max(arrivals.rate_per_s, arrivals.last_rate_per_s or 0.0)
    expected = rate * duration_s
    _check("the number of arrivals", expected, 0, MOST_ARRIVALS / 2)
    if arrivals.process == "ramp":
        return draw_arrivals(arrivals, count=max(1, round(_ramp_mean(arrivals) * duration_s)), seed=seed)
    # Far above the mean, as bursts scatter; what is drawn in vain changes nothing of what is kept.
    spread = max(arrivals.cv, float(arrivals.burst_size) ** 0.5, 1.0)
    count = min(MOST_ARRIVALS, int(expected + 12 * spread * expected**0.5 + 12 * spread + 12))
    drawn_ns = _draw_ns(arrivals, count=count, seed=seed)
    return drawn_ns[drawn_ns < duration_s * _S].astype(np.int64)


def trace_instants(timestamps_s: Sequence[float], *, speed: float = 1.0) -> Instants:
    """Make instants of a trace's timestamps, from the first one on; `speed` 2 plays it twice as fast.

    Raises:
        InvalidInput: there is no timestamp, one is not a number, they do not ascend, or they span too long a time.
    """
    _check("speed", speed, 1e-3, 1e3)
    seconds = np.asarray(timestamps_s, dtype=np.float64)
    if seconds.size == 0 or not np.isfinite(seconds).all() or (seconds[1:] < seconds[:-1]).any():
        raise InvalidInput("A trace needs timestamps in ascending order.", cure="Sort its lines by time.")
    lasts_s = (float(seconds[-1]) - float(seconds[0])) / speed
    if not lasts_s <= MOST_SECONDS:
        raise InvalidInput(
            f"The trace would last {lasts_s:.3g} s, and a schedule lasts {MOST_SECONDS:,.0f} s at most.",
            cure="Give timestamps in seconds, not in milliseconds or nanoseconds; or play a part of it, or faster.",
        )
    return np.asarray(np.round((seconds - seconds[0]) / speed * _S), dtype=np.int64)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """What arrivals look like."""

    rate_per_s: float
    cv: float
    """Standard deviation of the gaps over their mean: 1 for Poisson, 0 for constant."""
    dispersion: float
    """Variance of the counts in equal windows of ten mean gaps over their mean: 1 for Poisson, 0 for constant."""


def shape_of(instants: Instants) -> Shape | None:
    """Describe arrivals; None of fewer than three, or of none but simultaneous ones."""
    ordered = np.sort(instants)
    if ordered.size < 3 or ordered[-1] == ordered[0]:
        return None
    gaps = np.diff(ordered).astype(np.float64)
    windows = max(2, ordered.size // 10)
    counts, _ = np.histogram(ordered, bins=windows)
    return Shape(
        rate_per_s=float(_S / gaps.mean()),
        cv=float(gaps.std(ddof=1) / gaps.mean()),
        dispersion=float(counts.var(ddof=1) / counts.mean()),
    )


def _draw_ns(arrivals: Arrivals, *, count: int, seed: int) -> npt.NDArray[np.float64]:
    """Draw instants in whole nanoseconds, as late as they come: no int64 need hold them."""
    _check("the number of arrivals", count, 0, MOST_ARRIVALS)
    rng = np.random.default_rng([seed, 0xA221])
    mean_s = 1.0 / arrivals.rate_per_s
    match arrivals.process:
        case "constant":
            seconds = np.arange(count) * mean_s
        case "poisson":
            seconds = np.cumsum(rng.exponential(mean_s, count))
        case "gamma":
            shape = arrivals.cv**-2
            seconds = np.cumsum(rng.gamma(shape, mean_s / shape, count))
        case "burst":
            bursts = -(-count // arrivals.burst_size)
            starts = np.cumsum(rng.exponential(mean_s * arrivals.burst_size, bursts))
            seconds = np.repeat(starts, arrivals.burst_size)[:count]
        case "ramp":
            seconds = _ramp(arrivals, count)
        case _:
            raise InvalidInput("A trace is read, not drawn.", cure="Choose another process.")
    rounded: npt.NDArray[np.float64] = np.round(seconds * _S)
    return rounded


def _ramp(arrivals: Arrivals, count: int) -> npt.NDArray[np.float64]:
    """Place request k where the integral of a rate that changes evenly over time is k."""
    first, last = arrivals.rate_per_s, arrivals.last_rate_per_s or arrivals.rate_per_s
    numbers = np.arange(count, dtype=np.float64)
    if first == last or count < 2:
        return numbers / first
    duration_s = count / _ramp_mean(arrivals)
    slope = (last - first) / duration_s
    found: npt.NDArray[np.float64] = (np.sqrt(first**2 + 2 * slope * numbers) - first) / slope
    return found


def _ramp_mean(arrivals: Arrivals) -> float:
    return (arrivals.rate_per_s + (arrivals.last_rate_per_s or arrivals.rate_per_s)) / 2


def _check(name: str, value: float, low: float, high: float) -> None:
    if not low <= value <= high:
        message = f"Of arrivals, {name} must lie between {low:g} and {high:g}, not {value:g}."
        raise InvalidInput(message, cure="Choose a value in between.")
