"""Validity gates of a measurement of speed: conditions without which its numbers are INVALID."""

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
"""Smallest p-value of the Kolmogorov-Smirnov test: one correct run in a thousand is INVALID."""

MIN_ARRIVALS = 30
"""Smallest number of requests whose sends are compared with their process."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sends:
    """Comparison of an open loop's sends with its schedule."""

    process: Process
    offered: Shape | None
    """Shape of the schedule."""
    achieved: Shape | None
    """Shape of the sends."""
    gates: tuple[Gate, ...]


def at_most(name: str, value: float | None, limit: float) -> Gate:
    """Make a gate that fails above its limit or where the value is unknown."""
    return Gate(name=name, ok=value is not None and value <= limit, value=value, limit=limit)


def at_least(name: str, value: float | None, limit: float) -> Gate:
    """Make a gate that fails below its limit or where the value is unknown."""
    return Gate(name=name, ok=value is not None and value >= limit, value=value, limit=limit, is_least=True)


def check_open_lag(p99_ms: float | None, ttft_p50_ms: float | None) -> tuple[Gate, ...]:
    """Check how late an open loop sent: a late request finds another queue than a punctual one."""
    return (at_most("send_lag_p99_ms", p99_ms, max(LAG_MS, LAG_SHARE_OF_TTFT * (ttft_p50_ms or 0.0))),)


def check_closed_lag(lag_ns: FloatArray, ttft_ns: FloatArray, latency_ns: FloatArray) -> tuple[Gate, ...]:
    """Check the lag of a closed loop's client between an answer and the next request of its stream.

    The lag lowers the throughput by its share of the streams' time. It also adds to TTFT, which counts from the instant
    at which the stream became free. One gate limits the mean lag, the other its contribution to the p99 of TTFT.

    Args:
        lag_ns: Sent minus scheduled, of requests that were answered. Shape: (requests,), NaN where undefined.
        ttft_ns: First token minus scheduled. Shape: that of `lag_ns`.
        latency_ns: Last token minus scheduled. Shape: that of `lag_ns`.
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
    """Compare the instants of sends with their schedule and with the requested process.

    Args:
        process: Requested arrival process.
        scheduled_ns: Scheduled instants. Shape: (requests,).
        sent_ns: Instants of sends. Shape: (sent requests,).
        cv: Coefficient of variation of a gamma process.
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
    """Return the Kolmogorov-Smirnov p-value of the gaps between sends, for the process with the schedule's mean gap."""
    from scipy import stats

    if sent_ns.size < MIN_ARRIVALS:
        return None
    gaps = np.diff(np.sort(sent_ns)).astype(np.float64)
    mean_ns = float(np.diff(np.sort(scheduled_ns)).mean())
    shape = 1.0 if process == "poisson" else cv**-2
    return float(stats.kstest(gaps, stats.gamma(shape, scale=mean_ns / shape).cdf).pvalue)
