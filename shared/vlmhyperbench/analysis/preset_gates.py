"""Gates of a preset: enough time and requests, a certified percentile, and limits that are certainly kept."""

from __future__ import annotations

from collections.abc import Sequence

from vlmhyperbench.analysis.results import Gate, LimitVerdict, Percentile
from vlmhyperbench.analysis.validity import at_least
from vlmhyperbench.domain.presets import MIN_QUERIES, MIN_SINGLE_STREAM, Preset, min_seconds


def certified_gate(name: str, percentile: Percentile) -> Gate:
    """Return the gate on whether so many requests certify a percentile."""
    return at_least(f"certified_{name}_p{percentile.percent:g}_ms", percentile.certified, 0.0)


def limit_gates(limits: Sequence[LimitVerdict]) -> list[Gate]:
    """Return for each limit the gate on the requests over it: at most as many as with which it is certainly kept."""
    from vlmhyperbench.analysis.percentiles import overlatency

    def gate(limit: LimitVerdict) -> Gate:
        allowed = overlatency(limit.n, limit.percent, certainty=limit.certainty) or 0
        return Gate(name=f"{limit.name}_over", ok=limit.is_certain, value=float(limit.over), limit=float(allowed))

    return [gate(limit) for limit in limits]


def gates_of_preset(
    preset: Preset,
    *,
    is_open_loop: bool,
    duration_s: float | None,
    sent: int,
    latency: Sequence[Percentile],
    limits: Sequence[LimitVerdict],
) -> tuple[Gate, ...]:
    """Check the rules of a preset on a run; `quick` has none.

    Args:
        preset: The preset of the run's scenario.
        is_open_loop: Whether requests were sent by a schedule; else one after the other.
        duration_s: Time that the requests took together.
        sent: Number of requests that were sent.
        latency: p50, p90 and p99 of the latency.
        limits: Verdicts on the limits of the SLO.
    """
    if preset == "quick":
        return ()
    gates = [
        at_least("duration_s", duration_s, min_seconds(preset)),
        at_least("min_requests", float(sent), float(MIN_QUERIES if is_open_loop else MIN_SINGLE_STREAM)),
    ]
    if is_open_loop:
        return (*gates, *limit_gates(limits))
    return (*gates, *(certified_gate("latency", percentile) for percentile in latency if percentile.percent == 90))
