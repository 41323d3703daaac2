"""Gates of a preset: enough time and requests, a certified percentile, and limits that are certainly kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from vlmhyperbench.analysis.results import Gate, LimitVerdict, Percentile
from vlmhyperbench.analysis.validity import at_least
from vlmhyperbench.domain.presets import MIN_REQUESTS, Preset, min_seconds
from vlmhyperbench.domain.scenarios import ScenarioKind

_CERTIFIED: Mapping[str, tuple[str, float]] = {"single_stream": ("latency", 90), "multi_stream": ("query_latency", 99)}
"""Scenario → the time and its percentile that so many requests have to certify."""


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
    scenario: ScenarioKind,
    duration_s: float | None,
    sent: int,
    percentiles: Mapping[str, Sequence[Percentile]],
    limits: Sequence[LimitVerdict],
) -> tuple[Gate, ...]:
    """Check the rules of a preset on a run; `quick` has none.

    Args:
        preset: The preset of the run's scenario.
        scenario: The kind of the scenario.
        duration_s: Time that the requests took together.
        sent: Number of requests that were sent.
        percentiles: Name of a time → its p50, p90 and p99; of `multi_stream` also `query_latency_ms`.
        limits: Verdicts on the limits of the SLO.
    """
    if preset == "quick":
        return ()
    gates = [
        at_least("duration_s", duration_s, min_seconds(preset)),
        at_least("min_requests", float(sent), float(MIN_REQUESTS[scenario])),
    ]
    if scenario in ("server", "interactive"):
        return (*gates, *limit_gates(limits))
    name, percent = _CERTIFIED.get(scenario, ("", 0.0))
    certified = [percentile for percentile in percentiles.get(f"{name}_ms", ()) if percentile.percent == percent]
    return (*gates, *(certified_gate(name, percentile) for percentile in certified))
