"""Validity gates of a measurement of speed: what must hold, or its numbers mean little and it is INVALID."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vlmhyperbench.analysis.distributions import FloatArray, known, nearest_rank
from vlmhyperbench.analysis.results import Gate
from vlmhyperbench.domain.arrivals import Instants, Process, Shape, shape_of
from vlmhyperbench.domain.units import NS_PER_MS

MAX_BUSY_SHARE = 0.7
LAG_MS = 1.0
LAG_SHARE_OF_TTFT = 0.01
MEAN_LAG_MS = 0.1
LAG_SHARE_OF_LATENCY = 0.01
SHIFT_MS = 1.0
SHIFT_SHARE_OF_TTFT = 0.05
ERROR_SHARE = 0.001
RATE_SHARE = 0.02
DISPERSION_SHARE = 0.1
MIN_P_VALUE = 0.001
"""Of the Kolmogorov-Smirnov test: one correct run in a thousand is refused."""

MIN_ARRIVALS = 30
"""With fewer requests the sends are not compared with their process."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sends:
    """The sends of an open loop, compared with its schedule."""

    process: Process
    offered: Shape | None
    """The shape of the schedule."""
    achieved: Shape | None
    """The shape of the sends."""
    gates: tuple[Gate, ...]


def at_most(name: str, value: float | None, limit: float) -> Gate:
    """Make a gate that fails above its limit, and where the value is unknown."""
    return Gate(name=name, ok=value is not None and value <= limit, value=value, limit=limit)


def at_least(name: str, value: float | None, limit: float) -> Gate:
    """Make a gate that fails below its limit, and where the value is unknown."""
    return Gate(name=name, ok=value is not None and value >= limit, value=value, limit=limit, is_least=True)


def check_open_lag(p99_ms: float | None, ttft_p50_ms: float | None) -> tuple[Gate, ...]:
    """Check how late an open loop sent: a late request meets another queue than the scheduled one would have met."""
    return (at_most("send_lag_p99_ms", p99_ms, max(LAG_MS, LAG_SHARE_OF_TTFT * (ttft_p50_ms or 0.0))),)


def check_closed_lag(lag_ns: FloatArray, ttft_ns: FloatArray, latency_ns: FloatArray) -> tuple[Gate, ...]:
    """Check how long a closed loop's client took between an answer and the next request of its stream.

    This lag lowers the throughput by its share of the streams' time, and moves TTFT, which counts from the instant at
    which the stream became free. One gate bounds its mean, the other the difference it makes to the p99 of TTFT.

    Args:
        lag_ns: Sent minus scheduled, of requests that were answered.
        ttft_ns: First token minus scheduled.
        latency_ns: Last token minus scheduled. Shape of all: (requests,), NaN where undefined.
    """
    gates = [
        at_most(
            "send_lag_mean_ms",
            _mean_ms(lag_ns),
            max(MEAN_LAG_MS, LAG_SHARE_OF_LATENCY * (_mean_ms(latency_ns) or 0.0)),
        )
    ]
    with_lag, without = (
        nearest_rank(np.sort(known(times_ns)).tolist(), 99) for times_ns in (ttft_ns, ttft_ns - lag_ns)
    )
    if with_lag is not None and without is not None:
        limit = max(SHIFT_MS, SHIFT_SHARE_OF_TTFT * without / NS_PER_MS)
        gates.append(at_most("ttft_p99_shift_ms", (with_lag - without) / NS_PER_MS, limit))
    return tuple(gates)


def _mean_ms(values_ns: FloatArray) -> float | None:
    defined = known(values_ns)
    return float(defined.mean()) / NS_PER_MS if defined.size else None


def check_sends(process: Process, scheduled_ns: Instants, sent_ns: Instants, *, cv: float = 1.0) -> Sends:
    """Compare the instants of sends with their schedule and with the process that was requested.

    Args:
        process: What was requested.
        scheduled_ns: When requests were to be sent. Shape: (requests,).
        sent_ns: When requests were sent. Shape: (sent requests,).
        cv: Of a gamma process.
    """
    offered, achieved = shape_of(scheduled_ns), shape_of(sent_ns)
    gates: list[Gate] = []
    if offered is not None:
        rate = None if achieved is None else abs(achieved.rate_per_s / offered.rate_per_s - 1)
        gates.append(at_most("rate_error_share", rate, RATE_SHARE))
    if offered is not None and scheduled_ns.size >= MIN_ARRIVALS:
        spread = None if achieved is None else abs(achieved.dispersion - offered.dispersion)
        gates.append(at_most("dispersion_error", spread, DISPERSION_SHARE * max(1.0, offered.dispersion)))
        if process in ("poisson", "gamma"):
            gates.append(at_least("sends_like_process_p", _p_value(process, sent_ns, scheduled_ns, cv), MIN_P_VALUE))
    return Sends(process=process, offered=offered, achieved=achieved, gates=tuple(gates))


def _p_value(process: Process, sent_ns: Instants, scheduled_ns: Instants, cv: float) -> float | None:
    """Test the gaps of the sends against the process at the schedule's mean gap (Kolmogorov-Smirnov)."""
    from scipy import stats

    if sent_ns.size < MIN_ARRIVALS:
        return None
    gaps = np.diff(np.sort(sent_ns)).astype(np.float64)
    mean_ns = float(np.diff(np.sort(scheduled_ns)).mean())
    shape = 1.0 if process == "poisson" else cv**-2
    return float(stats.kstest(gaps, stats.gamma(shape, scale=mean_ns / shape).cdf).pvalue)
