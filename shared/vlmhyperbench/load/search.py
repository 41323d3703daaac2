"""Search for the largest rate at which a server certainly keeps its SLO."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vlmhyperbench.analysis.load_result import LoadResult
from vlmhyperbench.domain.arrivals import MAX_RATE_PER_S
from vlmhyperbench.domain.slo import slo_percent
from vlmhyperbench.load.idle import MAX_WAIT_S, IdleProbe
from vlmhyperbench.load.measure import Control
from vlmhyperbench.load.series import Measure, at_value
from vlmhyperbench.load.workload import Workload
from vlmhyperbench_sdk.errors import InvalidInput, Unavailable

if TYPE_CHECKING:
    from vlmhyperbench.analysis.rate_search import RateFound

ALLOWED_OVER = 3
"""Number of requests over a limit with which a probe still passes; it determines the default size of probes."""

MAX_PROBE_S = 600.0
"""Rates whose probe would last longer are not tried."""

MAX_ATTEMPTS = 3
"""Maximum number of measurements of a probe; it is repeated if only the client failed its gates."""

SERVER_GATES = ("error_share",)
"""Gates that fail because of the server; the others fail because of the client."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchResult:
    """The result of a search."""

    valid: bool
    """Whether the search was not interrupted and a rate passed."""
    found: RateFound
    slo: Mapping[str, float]
    certainty: float
    """Certainty of each limit in each probe."""
    requests: int
    """Number of requests of each probe."""
    idle_ttft_ms: float
    runs: tuple[LoadResult, ...]
    """All measurements in order; a probe that only the client failed is repeated, so there may be more than probes."""
    ended_by: str | None = None
    """Why the search ended early: the client, a limit that too few requests have a time for, or a signal."""


def requests_of_probe(slo: Mapping[str, float], requests: int | None, *, max_probes: int) -> int:
    """Return the number of requests of a probe.

    Raises:
        InvalidInput: there is no limit, or `requests` are too few to show that one is kept.
    """
    from vlmhyperbench.analysis.percentiles import min_requests
    from vlmhyperbench.analysis.rate_search import certainty_of_probe

    if not slo:
        message = "--search-rate needs the limits that the server must keep."
        raise InvalidInput(message, cure="Give them, for example --slo 'ttft_p99<500,tpot_p99<50'.")
    certainty = certainty_of_probe(max_probes=max_probes)
    percents = [slo_percent(name) for name in slo]
    fewest = max(min_requests(percent, over=0, certainty=certainty) for percent in percents)
    if requests is None:
        return max(min_requests(percent, over=ALLOWED_OVER, certainty=certainty) for percent in percents)
    if requests < fewest:
        raise InvalidInput(
            f"{requests} requests are too few to show a p{max(percents)}: a probe needs at least {fewest}.",
            cure=f"Give --requests {fewest} or more, or leave it out.",
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
    idle: IdleProbe,
) -> SearchResult:
    """Probe rates: double or halve the rate until one passes and one fails, then probe between them.

    Args:
        workload: An open loop with its arrivals and the number of requests of a probe.
        measure: Measures a probe; each limit is checked with the probe's certainty.
        control: Ends the search early.
        slo: Limits in ms.
        first_per_s: The first rate; None for the rate of one request at a time, or the smallest rate if that is larger.
        max_probes: Maximum number of probes.
        idle: Waits until the server is idle before each probe.

    Raises:
        InvalidInput: the load cannot be planned.
        Unavailable: nothing could be measured.
    """
    from vlmhyperbench.analysis.rate_search import Probe, certainty_of_probe, conclude, next_rate

    idle_ttft_ms = await idle.begin()
    min_per_s = (workload.requests or 0) / MAX_PROBE_S
    first = first_per_s if first_per_s is not None else max(1000 / max(idle.latency_ms, 1e-3), min_per_s)
    probes: list[Probe] = []
    runs: list[LoadResult] = []
    ended_by: str | None = None
    while ended_by is None:
        rate = next_rate(
            probes,
            first_per_s=first,
            max_per_s=MAX_RATE_PER_S,
            min_per_s=min_per_s,
            max_probes=max_probes,
        )
        if rate is None:
            break
        for number in range(MAX_ATTEMPTS):
            if runs and await idle.wait() is None:
                raise Unavailable(
                    f"The server is not idle {MAX_WAIT_S:.0f} s after a probe: it answers a single request too slowly.",
                    cure="Make sure that nobody else uses the server, then repeat the search.",
                )
            lasts_s = (workload.requests or 0) / rate
            control.report(f"probe {len(probes) + 1}: {rate:.4g} requests per second for {lasts_s:.0f} s")
            probe = dataclasses.replace(at_value(workload, "rate", rate), seed=workload.seed + len(runs))
            runs.append(await measure(probe, f"probe-{len(probes) + 1:03}-{number + 1}"))
            rare_limit = describe_rare_limit(runs[-1])
            ended_by = "it was interrupted" if control.is_stopped else rare_limit or describe_client_fault(runs[-1])
            if ended_by is None or rare_limit is not None or control.is_stopped:
                break
        if ended_by is None:
            reason = describe_failure(runs[-1])
            probes.append(Probe(rate_per_s=rate, passed=reason is None, reason=reason))
    result = conclude(probes)
    return SearchResult(
        valid=result.is_reached and ended_by is None,
        found=result,
        slo=slo,
        certainty=certainty_of_probe(max_probes=max_probes),
        requests=workload.requests or 0,
        idle_ttft_ms=idle_ttft_ms,
        runs=tuple(runs),
        ended_by=ended_by,
    )


def describe_failure(result: LoadResult) -> str | None:
    """Describe why a probe failed (a limit that is not certainly kept, or too many errors); None if it passed."""
    for limit in result.statistics.limits:
        if not limit.is_certain:
            return f"{limit.name}<{limit.limit_ms:g} ms: {limit.over} of {limit.n} over it"
    failed = [gate.name for gate in result.gates if not gate.ok]
    return ", ".join(failed) or None


def describe_rare_limit(result: LoadResult) -> str | None:
    """Describe a limit on a time that too few requests have, such as the TPOT of one-token answers; None if none."""
    from vlmhyperbench.analysis.percentiles import min_requests

    for limit in result.statistics.limits:
        if limit.n < min_requests(limit.percent, over=0, certainty=limit.certainty):
            return f"only {limit.n} of {result.requests['scheduled']} requests have a value for {limit.name}"
    return None


def describe_client_fault(result: LoadResult) -> str | None:
    """Describe the gates that the client failed while the server kept every limit, which shows nothing; None if none.

    If a limit is not kept, the probe has failed whatever the client did; this can only lower the rate that is found.
    """
    if not all(limit.is_certain for limit in result.statistics.limits):
        return None
    failed = [gate.name for gate in result.gates if not gate.ok and gate.name not in SERVER_GATES]
    return f"the client failed its gates: {', '.join(failed)}" if failed else None
