"""Arrival instants of an open loop, drawn from a seed before the phase starts.

Instants are ascending int64 nanoseconds from the start of the phase. They do not depend on the answers, so a slow
server delays no arrival (no coordinated omission).
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

MAX_RATE_PER_S = 100_000.0
MAX_ARRIVALS = 10_000_000
MAX_DURATION_S = 1e9
"""Maximum duration of a schedule: 1e18 ns leave room in an int64 for the instant of the clock that is added."""

_S = 1e9


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrivals:
    """An arrival process and its parameters.

    Raises:
        InvalidInput: a parameter is out of range.
    """

    process: Process
    rate_per_s: float
    """Mean rate in requests per second; the initial rate of a ramp."""
    cv: float = 1.0
    """Gamma only: standard deviation of the gaps over their mean. 1 is Poisson, larger values are burstier."""
    burst_size: int = 1
    """Burst only: number of requests that are sent together. Bursts arrive as a Poisson process with the mean rate."""
    last_rate_per_s: float | None = None
    """Ramp only: the final rate."""

    def __post_init__(self) -> None:
        if self.process not in get_args(Process):
            cure = f"Choose one of {', '.join(get_args(Process))}."
            raise InvalidInput(f"There is no arrival process {self.process!r}.", cure=cure)
        _check("rate_per_s", self.rate_per_s, 1e-6, MAX_RATE_PER_S)
        _check("cv", self.cv, 0.01, 100.0)
        _check("burst_size", self.burst_size, 1, 100_000)
        if self.process == "ramp":
            if self.last_rate_per_s is None:
                raise InvalidInput("A ramp needs its final rate.", cure="Give last_rate_per_s.")
            _check("last_rate_per_s", self.last_rate_per_s, 1e-6, MAX_RATE_PER_S)


def draw_arrivals(arrivals: Arrivals, *, count: int, seed: int) -> Instants:
    """Draw the first `count` instants. Shape: (count,).

    Raises:
        InvalidInput: there are too many, they last too long, or the process is a trace, which is read instead.
    """
    drawn_ns = _draw_ns(arrivals, count=count, seed=seed)
    lasts_s = drawn_ns.max(initial=0.0) / _S
    if not lasts_s <= MAX_DURATION_S:
        raise InvalidInput(
            f"{count} arrivals at {arrivals.rate_per_s:g} per second would last {lasts_s:.3g} s; the maximum is "
            f"{MAX_DURATION_S:,.0f} s.",
            cure="Ask for fewer requests, or a larger rate.",
        )
    return drawn_ns.astype(np.int64)


def arrivals_within(arrivals: Arrivals, *, duration_s: float, seed: int) -> Instants:
    """Draw the arrivals within a duration.

    Raises:
        InvalidInput: there are too many, or they last too long.
    """
    _check("the duration in seconds", duration_s, 0, MAX_DURATION_S)
    rate = max(arrivals.rate_per_s, arrivals.last_rate_per_s or 0.0)
    expected = rate * duration_s
    _check("the number of arrivals", expected, 0, MAX_ARRIVALS / 2)
    if arrivals.process == "ramp":
        return draw_arrivals(arrivals, count=max(1, round(_ramp_mean(arrivals) * duration_s)), seed=seed)
    # Draw far more than the mean, as bursts scatter; arrivals after the duration are dropped.
    spread = max(arrivals.cv, float(arrivals.burst_size) ** 0.5, 1.0)
    count = min(MAX_ARRIVALS, int(expected + 12 * spread * expected**0.5 + 12 * spread + 12))
    drawn_ns = _draw_ns(arrivals, count=count, seed=seed)
    return drawn_ns[drawn_ns < duration_s * _S].astype(np.int64)


def arrivals_at_least(arrivals: Arrivals, *, duration_s: float, min_count: int, seed: int) -> Instants:
    """Draw so many arrivals that they last `duration_s` and are `min_count`.

    The measurement starts at the first arrival, so the last one is more than the duration after it.

    Raises:
        InvalidInput: there are too many, or they last too long.
    """
    first_s = float(draw_arrivals(arrivals, count=1, seed=seed)[0]) / _S
    within = arrivals_within(arrivals, duration_s=first_s + duration_s, seed=seed)
    return draw_arrivals(arrivals, count=max(int(within.size) + 1, min_count), seed=seed)


def trace_instants(timestamps_s: Sequence[float], *, speed: float = 1.0) -> Instants:
    """Convert a trace's timestamps to instants since the first timestamp; with `speed` 2 the trace runs twice as fast.

    Raises:
        InvalidInput: there is no timestamp, one is not a number, they do not ascend, or the trace lasts too long.
    """
    _check("speed", speed, 1e-3, 1e3)
    seconds = np.asarray(timestamps_s, dtype=np.float64)
    if seconds.size == 0 or not np.isfinite(seconds).all() or (seconds[1:] < seconds[:-1]).any():
        raise InvalidInput("A trace needs timestamps in ascending order.", cure="Sort its lines by time.")
    lasts_s = (float(seconds[-1]) - float(seconds[0])) / speed
    if not lasts_s <= MAX_DURATION_S:
        raise InvalidInput(
            f"The trace would last {lasts_s:.3g} s; the maximum is {MAX_DURATION_S:,.0f} s.",
            cure="Give timestamps in seconds, not in milliseconds or nanoseconds; or use a part, or a higher speed.",
        )
    return np.asarray(np.round((seconds - seconds[0]) / speed * _S), dtype=np.int64)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """Statistics of arrivals."""

    rate_per_s: float
    cv: float
    """Standard deviation of the gaps over their mean: 1 for Poisson, 0 for constant."""
    dispersion: float
    """Variance of the counts in equal windows of ten mean gaps over their mean: 1 for Poisson, 0 for constant."""


def shape_of(instants: Instants) -> Shape | None:
    """Return statistics of arrivals; None for fewer than three, or if all are simultaneous."""
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
    """Draw instants in whole nanoseconds as float64, since they may exceed an int64 before they are checked."""
    _check("the number of arrivals", count, 0, MAX_ARRIVALS)
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
            raise InvalidInput("Arrivals of a trace are read, not drawn.", cure="Choose another arrival process.")
    rounded: npt.NDArray[np.float64] = np.round(seconds * _S)
    return rounded


def _ramp(arrivals: Arrivals, count: int) -> npt.NDArray[np.float64]:
    """Return instants of a rate that changes linearly: request k is sent when the integral of the rate is k."""
    first, last = arrivals.rate_per_s, arrivals.last_rate_per_s or arrivals.rate_per_s
    numbers = np.arange(count, dtype=np.float64)
    if first == last or count < 2:
        return numbers / first
    duration_s = count / _ramp_mean(arrivals)
    slope = (last - first) / duration_s
    seconds: npt.NDArray[np.float64] = (np.sqrt(first**2 + 2 * slope * numbers) - first) / slope
    return seconds


def _ramp_mean(arrivals: Arrivals) -> float:
    return (arrivals.rate_per_s + (arrivals.last_rate_per_s or arrivals.rate_per_s)) / 2


def _check(name: str, value: float, low: float, high: float) -> None:
    if not low <= value <= high:
        message = f"Arrivals: {name} must be between {low:g} and {high:g}, not {value:g}."
        raise InvalidInput(message, cure="Choose a value in this range.")
