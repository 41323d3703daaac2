"""The result of one measurement as text: one screen, the most important last, what makes it invalid at the end."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from vlmhyperbench.analysis.results import Distribution
from vlmhyperbench.cli.output import say, table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vlmhyperbench.analysis.groups import Group
    from vlmhyperbench.analysis.interference import Interference
    from vlmhyperbench.analysis.load_result import LoadResult
    from vlmhyperbench.analysis.results import LimitVerdict, Percentile
    from vlmhyperbench.analysis.steady import Rate

MAX_ERRORS = 8
"""Kinds of errors that are shown; the rest is in the JSON."""
MAX_GROUPS = 8
"""Lines of one kind of groups; the rest is in the JSON."""


def print_result(result: LoadResult) -> None:
    """Print one result."""
    counts = result.requests
    say(f"{counts['ok']} of {counts['scheduled']} requests succeeded in {result.duration_s:.2f} s.")
    if silent := counts["ok_without_token"]:
        say(f"  {silent} of them without a visible token, which count as failed below")
    for group in result.failures[:MAX_ERRORS]:
        say(f"  {group.in_words}")
    rows = [
        (name, *map(write_number, (d.mean, d.p50, d.p90, d.p99, d.max)))
        for name, d in result.metrics.items()
        if isinstance(d, Distribution)
    ]
    table(["", "mean", "p50", "p90", "p99", "max"], rows, right=["mean", "p50", "p90", "p99", "max"])
    found = result.statistics
    for name, percentiles in found.percentiles.items():
        say(f"{name} p99 of all requests: {_percentile(percentiles[-1])}")
    print_estimated([result])
    for title, groups in (("stream", found.streams), ("turn", found.turns), ("images", found.image_sizes)):
        _print_groups(title, groups)
    if found.build_ms is not None and found.build_ms.max is not None:
        say(f"between turns: {found.build_ms.p50:.2f} ms to build the next, at most {found.build_ms.max:.2f}")
    if found.fairness is not None and found.fairness.requests is not None:
        say(f"fairness (Jain): {found.fairness.requests:.3f} over {found.fairness.streams} streams")
    if result.interference is not None:
        _print_interference(result.interference)
    _print_rates(result)
    if found.goodput is not None and found.goodput.share is not None:
        goodput = found.goodput
        interval = f"{goodput.low:.2%} to {goodput.high:.2%}"
        say(f"SLO: kept by {goodput.met} of {goodput.scheduled} requests, {goodput.share:.2%} ({interval})")
    for limit in found.limits:
        say(f"  {_limit(limit)}")
    if result.extra_body:
        say(f"further fields of every request: {json.dumps(result.extra_body, ensure_ascii=False)}")
    _print_how(result)


def why_invalid(result: LoadResult) -> list[str]:
    """Say what makes a result invalid."""
    reasons = []
    if result.outcome != "complete":
        reasons.append(f"INVALID: it was {result.outcome}; the numbers cover what had ended by then.")
    for gate in result.gates:
        if not gate.ok:
            least = " at least" if gate.is_least else ""
            reasons.append(f"INVALID: {gate.name} is {gate.value}, the limit is{least} {gate.limit:g}.")
    return reasons


def _print_interference(found: Interference) -> None:
    ratios = (("ttft", found.ttft), ("tpot", found.tpot), ("latency", found.latency))
    said = [
        f"{name} x {write_number(ratio.value)} ({write_number(ratio.low) or '?'} to {write_number(ratio.high) or '?'})"
        for name, ratio in ratios
        if ratio.value is not None
    ]
    compared = ", ".join(said) or "nothing to compare"
    say(f"compared with one request at a time ({found.baseline_requests} of them): {compared}")


def _print_rates(result: LoadResult) -> None:
    steady = result.statistics.steady
    of_window: dict[str, Rate | None] = {}
    if steady is not None:
        of_window = {"requests_per_s": steady.requests_per_s, "output_tokens_per_s": steady.output_tokens_per_s}
    for name in ("requests_per_s", "output_tokens_per_s", "goodput_per_s"):
        rate, within = result.metrics[name], of_window.get(name)
        if isinstance(rate, float):
            say(f"{name}: {write_number(rate)}" + (f"; steady {_rate(within)}" if within is not None else ""))
    if steady is not None and steady.start_s is not None and steady.end_s is not None:
        say(f"steady: {steady.start_s:.2f} s to {steady.end_s:.2f} s; {steady.cut_requests} requests ended outside")


def _print_how(result: LoadResult) -> None:
    if result.arrivals is not None and result.arrivals.achieved is not None:
        sent = result.arrivals.achieved
        say(f"sent: {sent.rate_per_s:.2f} per s, CV of gaps {sent.cv:.2f}, dispersion {sent.dispersion:.2f}")
    _print_cost(result)
    if result.preset is not None:
        say(f"preset: {result.preset.note}")
    for reason in why_invalid(result):
        say(reason)


def _print_cost(result: LoadResult) -> None:
    client = result.client
    measuring, resent = client["measuring_cpu_s"], client["resent"]
    within = f", {measuring:.2f} of them measuring" if isinstance(measuring, float) else ""
    say(
        f"client: {client['cpu_s']:.2f} CPU-s{within}, {_megabytes(client['peak_rss_bytes'])}, "
        f"instants by the {client['instants']}, over {client['transport']}"
        + (f"; sent again after the server had closed a connection: {resent}" if resent else "")
    )
    if "driver_cpu_s" in client:
        say(f"  and this command: {client['driver_cpu_s']:.2f} CPU-s, {_megabytes(client['driver_peak_rss_bytes'])}")


def _megabytes(peak_bytes: object) -> str:
    return f"{peak_bytes / 1e6:.0f} MB" if isinstance(peak_bytes, int) else "memory unknown"


def print_estimated(results: Sequence[LoadResult]) -> None:
    """Say for how many answers the gaps between tokens are estimates."""
    estimated = sum(count for result in results if isinstance(count := result.tokens["events_estimated"], int))
    if estimated:
        ok = sum(map(count_answered, results))
        say(f"tokens per event: ESTIMATED in {estimated} of {ok} answers; their itl and tpot are estimates, too")


def count_answered(result: LoadResult) -> int:
    """Count the requests whose answer had a token."""
    return result.requests["ok"] - result.requests["ok_without_token"]


def _print_groups(title: str, groups: Sequence[Group]) -> None:
    if len(groups) < 2:
        return
    rows = [
        (group.name, f"{group.ok}/{group.requests}", *map(write_number, _times_of(group)))
        for group in groups[:MAX_GROUPS]
    ]
    columns = [title, "ok", "ttft p50", "ttft p99", "tpot p50", "tpot p99", "latency p99"]
    table(columns, rows, right=columns[1:])
    if len(groups) > MAX_GROUPS:
        say(f"  and {len(groups) - MAX_GROUPS} more, which --json shows")


def _times_of(group: Group) -> tuple[float | None, ...]:
    ttft, tpot = group.ttft_user_ms, group.tpot_ms
    return ttft.p50, ttft.p99, tpot.p50, tpot.p99, group.latency_ms.p99


def _percentile(found: Percentile) -> str:
    if found.adjusted is None:
        return f"none, {found.reason}"
    low, high = (write_number(end) or "?" for end in (found.low, found.high))
    certified = f"certainly at most {write_number(found.certified)}" if found.certified is not None else found.reason
    return f"{write_number(found.adjusted)} ({low} to {high}); {certified}"


def _limit(limit: LimitVerdict) -> str:
    value = write_number(limit.value_ms) or "infinite"
    said = "not kept" if not limit.is_kept else "certainly kept" if limit.is_certain else "kept, but not certainly"
    return f"{limit.name}<{limit.limit_ms:g}: {value}, {said}; {limit.over} of {limit.n} over"


def _rate(rate: Rate) -> str:
    ends = "" if rate.low is None else f" ({write_number(rate.low)} to {write_number(rate.high)})"
    return f"{write_number(rate.per_s)}{ends}"


def write_number(value: float | None) -> str | None:
    """Write two decimals, or more below 10, so that neither 0.004 nor 1.004 looks like another number."""
    if value is None:
        return None
    if abs(value) >= 10 or value == 0:
        return f"{value:.2f}"
    return f"{value:#.4g}" if abs(value) >= 1 else f"{value:#.3g}"
