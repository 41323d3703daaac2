"""Search for the largest rate at which a server certainly keeps its SLO."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vlmhyperbench.analysis.load_result import LoadResult
from vlmhyperbench.domain.arrivals import MOST_RATE_PER_S
from vlmhyperbench.domain.slo import slo_percent
from vlmhyperbench.load.idle import Idle
from vlmhyperbench.load.measure import Control
from vlmhyperbench.load.series import Measure, at_value
from vlmhyperbench.load.workload import Workload
from vlmhyperbench_sdk.errors import InvalidInput, Unavailable

if TYPE_CHECKING:
    from vlmhyperbench.analysis.rate_search import RateFound

ALLOWED_OVER = 3
"""Number of requests over a limit with which a probe still passes; it sets the default size of probes."""

LONGEST_PROBE_S = 600.0
"""Rates whose probe would last longer are not tried."""

TRIES = 3
"""How often a probe is measured again where only the client failed its gates."""

OF_THE_SERVER = ("error_share",)
"""Gates that fail because of the server; the others fail because of the client."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchResult:
    """The result of a search."""

    valid: bool
    """It was not interrupted, and a rate passed."""
    found: RateFound
    slo: Mapping[str, float]
    certainty: float
    """Of each limit in each probe."""
    requests: int
    """Of each probe."""
    idle_ttft_ms: float
    runs: tuple[LoadResult, ...]
    """In order; a probe is measured again where the client failed its gates, so there may be more runs than probes."""
    ended_by: str | None = None
    """What ended the search early: the client, a time that too few requests have, or a signal."""


def requests_of_probe(slo: Mapping[str, float], requests: int | None, *, max_probes: int) -> int:
    """Return how many requests a probe has.

    Raises:
        InvalidInput: there is no limit, or so few requests can show none.
    """
    from vlmhyperbench.analysis.percentiles import min_requests
    from vlmhyperbench.analysis.rate_search import certainty_of_probe

    if not slo:
        raise InvalidInput("--search-rate needs the limits to keep.", cure="Give --slo 'ttft_p99<500,tpot_p99<50'.")
    certainty = certainty_of_probe(max_probes=max_probes)
    percents = [slo_percent(name) for name in slo]
    least = max(min_requests(percent, over=0, certainty=certainty) for percent in percents)
    if requests is None:
        return max(min_requests(percent, over=ALLOWED_OVER, certainty=certainty) for percent in percents)
    if requests < least:
        raise InvalidInput(
            f"No {requests} requests can show p{max(percents)}: a probe needs at least {least}.",
            cure=f"Give --requests {least} or more, or none.",
        )
    return requests


async def search_rate(
    workload: Workload,
    measure: Measure,
    control: Control,
    *,
    slo: Mapping[str, float],
    first_per_s: float | None,
    max_probes: int,
    idle: Idle,
) -> SearchResult:
    """Probe rates: doubling or halving until one passes and one fails, then between them.

    Args:
        workload: An open loop with its arrivals, and as many requests as a probe has.
        measure: Measures a probe; each limit is checked at the probe's certainty.
        control: Ends the search early.
        slo: Limits in ms.
        first_per_s: The first rate; None: that of one request at a time, or the smallest rate that is tried.
        max_probes: Maximum number of probes.
        idle: Waits for the server before each probe.

    Raises:
        InvalidInput: the load cannot be planned.
        Unavailable: nothing could be measured.
    """
    from vlmhyperbench.analysis.rate_search import Probe, certainty_of_probe, conclude, next_rate

    idle_ttft_ms = await idle.begin()
    least = (workload.requests or 0) / LONGEST_PROBE_S
    first = first_per_s if first_per_s is not None else max(1000 / max(idle.latency_ms, 1e-3), least)
    probes: list[Probe] = []
    runs: list[LoadResult] = []
    ended_by: str | None = None
    while ended_by is None:
        rate = next_rate(
            probes,
            first_per_s=first,
            max_per_s=MOST_RATE_PER_S,
            min_per_s=least,
            max_probes=max_probes,
        )
        if rate is None:
            break
        for number in range(TRIES):
            if runs and await idle.wait() is None:
                raise Unavailable("The server does not become idle again between two probes.")
            lasts_s = (workload.requests or 0) / rate
            control.tell(f"probe {len(probes) + 1}: {rate:.4g} a second, {lasts_s:.0f} s")
            probe = dataclasses.replace(at_value(workload, "rate", rate), seed=workload.seed + len(runs))
            runs.append(await measure(probe, f"probe-{len(probes) + 1:03}-{number + 1}"))
            few = too_few(runs[-1])
            ended_by = "a signal came" if control.is_stopped else few or clients_fault(runs[-1])
            if ended_by is None or few is not None or control.is_stopped:
                break
        if ended_by is None:
            reason = why_failed(runs[-1])
            probes.append(Probe(rate_per_s=rate, passed=reason is None, reason=reason))
    found = conclude(probes)
    return SearchResult(
        valid=found.is_reached and ended_by is None,
        found=found,
        slo=slo,
        certainty=certainty_of_probe(max_probes=max_probes),
        requests=workload.requests or 0,
        idle_ttft_ms=idle_ttft_ms,
        runs=tuple(runs),
        ended_by=ended_by,
    )


def why_failed(result: LoadResult) -> str | None:
    """Say why a probe failed: a limit that is not certainly kept, or too many errors; None where it passed."""
    for limit in result.statistics.limits:
        if not limit.is_certain:
            return f"{limit.name}<{limit.limit_ms:g} ms: {limit.over} of {limit.n} over it"
    shut = [gate.name for gate in result.gates if not gate.ok]
    return ", ".join(shut) or None


def too_few(result: LoadResult) -> str | None:
    """Name a limit on a time that too few requests have, such as the TPOT of single tokens."""
    from vlmhyperbench.analysis.percentiles import min_requests

    for limit in result.statistics.limits:
        if limit.n < min_requests(limit.percent, over=0, certainty=limit.certainty):
            return f"only {limit.n} of {result.requests['scheduled']} requests count for {limit.name}"
    return None


def clients_fault(result: LoadResult) -> str | None:
    """Name the gates that the client failed while the server kept every limit: such a probe shows nothing.

    Where a limit is not kept the probe has failed whatever the client did; that can only lower the found rate.
    """
    if not all(limit.is_certain for limit in result.statistics.limits):
        return None
    shut = [gate.name for gate in result.gates if not gate.ok and gate.name not in OF_THE_SERVER]
    return f"the client was at fault: {', '.join(shut)}" if shut else None
