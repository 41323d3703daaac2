"""Print the result of one measurement as text: the most important last, and at the end why it is invalid."""

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
"""Maximum number of kinds of errors that are printed; --json prints all."""
MAX_GROUPS = 8
"""Maximum number of rows of a table of groups; --json prints all."""


def print_result(result: LoadResult) -> None:
    """Print one result."""
    counts = result.requests
    say(f"{counts['ok']} of {counts['scheduled']} requests succeeded in {result.duration_s:.2f} s.")
    if silent := counts["ok_without_token"]:
        say(f"  {silent} of them had no visible token; they count as failed below.")
    for group in result.failures[:MAX_ERRORS]:
        say(f"  {group.in_words}")
    rows = [
        (name, *map(write_number, (d.mean, d.p50, d.p90, d.p99, d.max)))
        for name, d in result.metrics.items()
        if isinstance(d, Distribution)
    ]
    table(["", "mean", "p50", "p90", "p99", "max"], rows, right=["mean", "p50", "p90", "p99", "max"])
    statistics = result.statistics
    for name, percentiles in statistics.percentiles.items():
        say(f"{name}, p99 of all requests: {_percentile(percentiles[-1])}")
    print_estimated([result])
    for title, groups in (
        ("stream", statistics.streams),
        ("turn", statistics.turns),
        ("images", statistics.image_sizes),
    ):
        _print_groups(title, groups)
    build = statistics.build_ms
    if build is not None and build.max is not None:
        say(f"time to build the next turn's request: {build.p50:.2f} ms (median), at most {build.max:.2f} ms")
    fairness = statistics.fairness
    if fairness is not None and fairness.requests is not None:
        say(f"fairness between {fairness.streams} streams (Jain's index, 1 is equal): {fairness.requests:.3f}")
    if result.interference is not None:
        _print_interference(result.interference)
    _print_rates(result)
    goodput = statistics.goodput
    if goodput is not None and goodput.share is not None:
        interval = f"{goodput.low:.2%} to {goodput.high:.2%}"
        say(f"SLO: kept by {goodput.met} of {goodput.scheduled} requests, {goodput.share:.2%} ({interval})")
    for limit in statistics.limits:
        say(f"  {_limit(limit)}")
    if result.extra_body:
        say(f"further fields of every request: {json.dumps(result.extra_body, ensure_ascii=False)}")
    _print_how(result)


def why_invalid(result: LoadResult) -> list[str]:
    """Return why a result is invalid, one sentence for each reason."""
    reasons = []
    if result.outcome != "complete":
        reasons.append(f"INVALID: the measurement was {result.outcome}; the numbers cover the requests that had ended.")
    for gate in result.gates:
        if not gate.ok:
            bound = "at least" if gate.is_least else "at most"
            value = "unknown" if gate.value is None else f"{gate.value:.6g}"
            reasons.append(f"INVALID: {gate.name} is {value}; it must be {bound} {gate.limit:g}.")
    return reasons


def _print_interference(interference: Interference) -> None:
    ratios = (("ttft", interference.ttft), ("tpot", interference.tpot), ("latency", interference.latency))
    parts = [
        f"{name} x {write_number(ratio.value)} ({write_number(ratio.low) or '?'} to {write_number(ratio.high) or '?'})"
        for name, ratio in ratios
        if ratio.value is not None
    ]
    compared = ", ".join(parts) or "no time can be compared"
    say(f"compared with {interference.baseline_requests} requests that were sent one at a time: {compared}")


def _print_rates(result: LoadResult) -> None:
    steady = result.statistics.steady
    of_window: dict[str, Rate | None] = {}
    if steady is not None:
        of_window = {"requests_per_s": steady.requests_per_s, "output_tokens_per_s": steady.output_tokens_per_s}
    for name in ("requests_per_s", "output_tokens_per_s", "goodput_per_s"):
        rate, within = result.metrics[name], of_window.get(name)
        if isinstance(rate, float):
            say(f"{name}: {write_number(rate)}" + (f"; in steady state {_rate(within)}" if within is not None else ""))
    if steady is not None and steady.start_s is not None and steady.end_s is not None:
        window = f"{steady.start_s:.2f} s to {steady.end_s:.2f} s"
        say(f"steady state: {window}; {steady.cut_requests} requests ended outside of it")


def _print_how(result: LoadResult) -> None:
    if result.arrivals is not None and result.arrivals.achieved is not None:
        sent = result.arrivals.achieved
        say(
            f"sent: {sent.rate_per_s:.2f} requests/s, coefficient of variation of the gaps {sent.cv:.2f}, "
            f"dispersion {sent.dispersion:.2f}"
        )
    _print_cost(result)
    if result.preset is not None:
        say(f"preset: {result.preset.note}")
    for reason in why_invalid(result):
        say(reason)


def _print_cost(result: LoadResult) -> None:
    client = result.client
    measuring, resent, reopened = client["measuring_cpu_s"], client["resent"], client["reopened"]
    within = f" ({measuring:.2f} s of it while measuring)" if isinstance(measuring, float) else ""
    say(
        f"load generator: {client['cpu_s']:.2f} s of CPU time{within}, {_megabytes(client['peak_rss_bytes'])}, "
        f"timestamps by the {client['instants']}, over {client['transport']}"
        + (f"; sent again because the server had closed a connection: {resent}" if resent else "")
    )
    if reopened:
        say(f"  the server closes connections after answers: {reopened} were opened again, outside TTFT and latency")
    if "driver_cpu_s" in client:
        peak = _megabytes(client["driver_peak_rss_bytes"])
        say(f"  and this command: {client['driver_cpu_s']:.2f} s of CPU time, {peak}")


def _megabytes(peak_bytes: object) -> str:
    return f"{peak_bytes / 1e6:.0f} MB" if isinstance(peak_bytes, int) else "memory unknown"


def print_estimated(results: Sequence[LoadResult]) -> None:
    """Print the number of answers whose times between tokens are estimates, if there are any."""
    estimated = sum(count for result in results if isinstance(count := result.tokens["events_estimated"], int))
    if estimated:
        ok = sum(map(count_answered, results))
        say(f"ESTIMATED: the number of tokens per event in {estimated} of {ok} answers, and so their itl and tpot")


def count_answered(result: LoadResult) -> int:
    """Return the number of requests whose answer has a token."""
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
        say(f"  and {len(groups) - MAX_GROUPS} more; --json prints all")


def _times_of(group: Group) -> tuple[float | None, ...]:
    ttft, tpot = group.ttft_user_ms, group.tpot_ms
    return ttft.p50, ttft.p99, tpot.p50, tpot.p99, group.latency_ms.p99


def _percentile(percentile: Percentile) -> str:
    if percentile.adjusted is None:
        return f"none, {percentile.reason}"
    low, high = (write_number(end) or "?" for end in (percentile.low, percentile.high))
    certified = percentile.reason
    if percentile.certified is not None:
        certified = f"certainly at most {write_number(percentile.certified)}"
    return f"{write_number(percentile.adjusted)} ({low} to {high}); {certified}"


def _limit(limit: LimitVerdict) -> str:
    value = write_number(limit.value_ms) or "infinite"
    verdict = "not kept" if not limit.is_kept else "certainly kept" if limit.is_certain else "kept, but not certainly"
    return f"{limit.name}<{limit.limit_ms:g}: {value}, {verdict}; {limit.over} of {limit.n} requests over the limit"


def _rate(rate: Rate) -> str:
    ends = "" if rate.low is None else f" ({write_number(rate.low)} to {write_number(rate.high)})"
    return f"{write_number(rate.per_s)}{ends}"


def write_number(value: float | None) -> str | None:
    """Format a number with two decimals, or with more below 10, so that small numbers keep their digits."""
    if value is None:
        return None
    if abs(value) >= 10 or value == 0:
        return f"{value:.2f}"
    return f"{value:#.4g}" if abs(value) >= 1 else f"{value:#.3g}"
