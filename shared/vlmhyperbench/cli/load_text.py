"""A load's result as text: one screen, the most important last, what makes it invalid at the very end."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from vlmhyperbench.analysis.results import Distribution
from vlmhyperbench.cli.output import say, table

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from vlmhyperbench.analysis.groups import Group
    from vlmhyperbench.analysis.interference import Interference
    from vlmhyperbench.analysis.load_result import LoadResult
    from vlmhyperbench.analysis.repeats import RepeatedMean
    from vlmhyperbench.analysis.results import LimitVerdict, Percentile
    from vlmhyperbench.analysis.steady import Rate
    from vlmhyperbench.load.against import Against
    from vlmhyperbench.load.search import SearchResult
    from vlmhyperbench.load.series import Repeats, Sweep

MAX_ERRORS = 8
"""Kinds of errors that are shown; the rest is in the JSON."""
MOST_GROUPS = 8
"""Lines of one kind of groups; the rest is in the JSON."""


def print_result(result: LoadResult) -> None:
    """Print one result."""
    counts = result.requests
    say(f"{counts['ok']} of {counts['scheduled']} requests succeeded in {result.duration_s:.2f} s.")
    if silent := counts["ok_without_token"]:
        say(f"  {silent} of them without a token that anybody could see, which count as failed below")
    for group in result.failures[:MAX_ERRORS]:
        say(f"  {group.in_words}")
    rows = [
        (name, *map(_number, (d.mean, d.p50, d.p90, d.p99, d.max)))
        for name, d in result.metrics.items()
        if isinstance(d, Distribution)
    ]
    table(["", "mean", "p50", "p90", "p99", "max"], rows, right=["mean", "p50", "p90", "p99", "max"])
    found = result.statistics
    for name, percentiles in found.percentiles.items():
        say(f"{name} p99 of all requests: {_percentile(percentiles[-1])}")
    _print_estimated([result])
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
        one = found.goodput
        say(f"SLO: kept by {one.met} of {one.scheduled} requests, {one.share:.2%} ({one.low:.2%} to {one.high:.2%})")
    for limit in found.limits:
        say(f"  {_limit(limit)}")
    if result.extra_body:
        say(f"every request held besides: {json.dumps(result.extra_body, ensure_ascii=False)}")
    _print_how(result)


def print_repeats(found: Repeats) -> None:
    """Print the means over repeats."""
    say(f"{len(found.runs)} repeats, {sum(run.valid for run in found.runs)} of them valid.")
    rows = [
        (name, *map(_number, (mean.mean, mean.sd, mean.low, mean.high)))
        for name, mean in found.metrics.items()
        if mean.mean is not None
    ]
    table(["", "mean", "sd", "95 % from", "to"], rows, right=["mean", "sd", "95 % from", "to"])
    _print_missing({name: one.reason for name, one in found.metrics.items() if one.mean is None}, found.runs)
    if found.stopped is not None:
        stopped = found.stopped
        reached = "reached" if stopped.is_reached else "NOT reached"
        say(f"{stopped.metric} within {stopped.precision:.2%}: {reached}. {_looked(stopped.mean)}")
    _print_estimated(found.runs)
    for number, run in enumerate(found.runs, 1):
        for reason in _invalid(run):
            say(f"repeat {number} {reason}")


def print_against(found: Against) -> None:
    """Print the ratios of two servers."""
    say(f"{len(found.pairs)} pairs: {found.urls[1]} over {found.urls[0]}")
    rows = [
        (name, *map(_number, (one.ratio, one.low, one.high)), "differs" if one.differs else "")
        for name, one in found.ratios.items()
        if one.ratio is not None
    ]
    table(["", "ratio", "95 % from", "to", ""], rows, right=["ratio", "95 % from", "to"])
    results = [result for pair in found.pairs for result in (pair.first, pair.second)]
    _print_missing({name: one.reason for name, one in found.ratios.items() if one.ratio is None}, results)
    _print_estimated(results)
    for number, pair in enumerate(found.pairs, 1):
        for url, result in zip(found.urls, (pair.first, pair.second), strict=True):
            for reason in _invalid(result):
                say(f"pair {number}, {url}: {reason}")


def print_sweep(found: Sweep) -> None:
    """Print a line for each point."""
    columns = [found.axis, "ok", "requests/s", "tokens/s", "ttft p50", "ttft p99", "tpot p99", "latency p99"]
    has_slo = any(point.result.statistics.goodput is not None for point in found.points)
    rows = []
    for point in found.points:
        result = point.result
        rates = [result.metrics[name] for name in ("requests_per_s", "output_tokens_per_s")]
        goodput = result.statistics.goodput
        rows.append(
            (
                f"{point.value:g}",
                f"{_answered(result)}/{result.requests['scheduled']}",
                *(_number(rate) if isinstance(rate, float) else None for rate in rates),
                _of_all(result, "ttft_user_ms", 50.0),
                *(_of_all(result, name, 99.0) for name in ("ttft_user_ms", "tpot_ms", "latency_ms")),
                *(() if not has_slo else (None if goodput is None else _number(goodput.per_s),)),
            )
        )
    columns += ["goodput/s"] if has_slo else []
    table(columns, rows, right=columns)
    _print_estimated([point.result for point in found.points])
    for point in found.points:
        if point.settled_s is None:
            say(f"INVALID: after {found.axis} {point.value:g} the server did not become idle again.")
        for reason in _invalid(point.result):
            say(f"{found.axis} {point.value:g} {reason}")


def print_search(search: SearchResult) -> None:
    """Print what was tried, and the answer."""
    rows = [
        (f"{probe.rate_per_s:.4g}", "passed" if probe.passed else "failed", probe.reason or "")
        for probe in search.found.probes
    ]
    table(["rate", "", "why"], rows, right=["rate"])
    found, limits = search.found, ", ".join(f"{name}<{limit:g}" for name, limit in search.slo.items())
    say(f"{search.requests} requests a probe, each limit kept with {search.certainty:.2%} certainty in each.")
    _print_estimated(search.runs)
    if search.ended_by is not None:
        say(f"INVALID: the search ended before it was over: {search.ended_by}. This is how far it came.")
    if not found.probes:
        say("No probe came to an end.")
        return
    if found.passed_per_s is None:
        say(f"NOT REACHED: no rate was shown to keep {limits}.")
    else:
        say(f"{found.passed_per_s:.4g} requests a second keep {limits}, at {found.confidence:.0%} confidence.")
    if found.failed_per_s is None:
        say("No rate failed: the largest that the server can keep may lie above.")
    else:
        say(f"The smallest rate that failed: {found.failed_per_s:.4g}.")


def _looked(mean: RepeatedMean | None) -> str:
    if mean is None or mean.low is None or mean.high is None:
        return "There are too few repeats with a value to look."
    return f"{_number(mean.low)} to {_number(mean.high)} at whichever repeat one looks (95 % over all looks)."


def _invalid(result: LoadResult) -> list[str]:
    """Say what makes a result invalid."""
    reasons = []
    if result.outcome != "complete":
        reasons.append(f"INVALID: it was {result.outcome}; this is what was done by then.")
    for gate in result.gates:
        if not gate.ok:
            least = " at least" if gate.is_least else ""
            reasons.append(f"INVALID: {gate.name} is {gate.value}, the limit is{least} {gate.limit:g}.")
    return reasons


def _print_interference(found: Interference) -> None:
    ratios = (("ttft", found.ttft), ("tpot", found.tpot), ("latency", found.latency))
    said = [
        f"{name} x {_number(ratio.value)} ({_number(ratio.low) or '?'} to {_number(ratio.high) or '?'})"
        for name, ratio in ratios
        if ratio.value is not None
    ]
    say(f"beside one request at a time ({found.baseline_requests} of them): {', '.join(said) or 'nothing to compare'}")


def _print_rates(result: LoadResult) -> None:
    steady = result.statistics.steady
    of_window: dict[str, Rate | None] = {}
    if steady is not None:
        of_window = {"requests_per_s": steady.requests_per_s, "output_tokens_per_s": steady.output_tokens_per_s}
    for name in ("requests_per_s", "output_tokens_per_s", "goodput_per_s"):
        rate, within = result.metrics[name], of_window.get(name)
        if isinstance(rate, float):
            say(f"{name}: {_number(rate)}" + (f"; steady {_rate(within)}" if within is not None else ""))
    if steady is not None and steady.start_s is not None and steady.end_s is not None:
        say(f"steady: {steady.start_s:.2f} s to {steady.end_s:.2f} s; {steady.cut_requests} requests ended outside")


def _print_how(result: LoadResult) -> None:
    if result.arrivals is not None and result.arrivals.achieved is not None:
        sent = result.arrivals.achieved
        say(f"sent: {sent.rate_per_s:.2f} per s, CV of gaps {sent.cv:.2f}, dispersion {sent.dispersion:.2f}")
    _print_cost(result)
    if result.preset is not None:
        say(f"preset: {result.preset.note}")
    for reason in _invalid(result):
        say(reason)


def _print_cost(result: LoadResult) -> None:
    client = result.client
    measuring, resent = client["measuring_cpu_s"], client["resent"]
    within = f", {measuring:.2f} of them measuring" if isinstance(measuring, float) else ""
    say(
        f"client: {client['cpu_s']:.2f} CPU-s{within}, {_megabytes(client['peak_rss_bytes'])}, "
        f"instants by the {client['instants']}, over {client['transport']}"
        + (f"; sent anew, as the kept connection was closed: {resent}" if resent else "")
    )
    if "driver_cpu_s" in client:
        say(f"  and this command: {client['driver_cpu_s']:.2f} CPU-s, {_megabytes(client['driver_peak_rss_bytes'])}")


def _megabytes(peak_bytes: object) -> str:
    return f"{peak_bytes / 1e6:.0f} MB" if isinstance(peak_bytes, int) else "memory unknown"


def _print_estimated(results: Sequence[LoadResult]) -> None:
    """Say of how many answers the gaps between tokens rest on a guess."""
    estimated = sum(count for one in results if isinstance(count := one.tokens["events_estimated"], int))
    if estimated:
        ok = sum(map(_answered, results))
        say(f"tokens per event: ESTIMATED in {estimated} of {ok} answers; their itl and tpot are estimates, too")


def _print_missing(reasons: Mapping[str, str | None], results: Sequence[LoadResult]) -> None:
    """Name what has no value, so that nobody takes its absence for nothing to say; goodput needs an SLO."""
    has_slo = any(result.statistics.goodput is not None for result in results)
    for name, reason in reasons.items():
        if has_slo or name != "goodput_per_s":
            say(f"{name}: none, {reason}")


def _answered(result: LoadResult) -> int:
    return result.requests["ok"] - result.requests["ok_without_token"]


def _print_groups(title: str, groups: Sequence[Group]) -> None:
    if len(groups) < 2:
        return
    rows = [
        (group.name, f"{group.ok}/{group.requests}", *map(_number, _times_of(group))) for group in groups[:MOST_GROUPS]
    ]
    columns = [title, "ok", "ttft p50", "ttft p99", "tpot p50", "tpot p99", "latency p99"]
    table(columns, rows, right=columns[1:])
    if len(groups) > MOST_GROUPS:
        say(f"  and {len(groups) - MOST_GROUPS} more, which --json shows")


def _times_of(group: Group) -> tuple[float | None, ...]:
    ttft, tpot = group.ttft_user_ms, group.tpot_ms
    return ttft.p50, ttft.p99, tpot.p50, tpot.p99, group.latency_ms.p99


def _percentile(one: Percentile) -> str:
    if one.adjusted is None:
        return f"none, {one.reason}"
    low, high = (_number(end) or "?" for end in (one.low, one.high))
    certified = f"at most {_number(one.certified)} for certain" if one.certified is not None else one.reason
    return f"{_number(one.adjusted)} ({low} to {high}); {certified}"


def _of_all(result: LoadResult, name: str, percent: float) -> str:
    """Write a percentile of all requests, of which those that failed took for ever."""
    found = next(one for one in result.statistics.percentiles[name] if one.percent == percent)
    return _number(found.adjusted) or "none"


def _limit(limit: LimitVerdict) -> str:
    value = _number(limit.value_ms) or "infinite"
    said = "not kept" if not limit.is_kept else "kept for certain" if limit.is_certain else "kept, not for certain"
    return f"{limit.name}<{limit.limit_ms:g}: {value}, {said}; {limit.over} of {limit.n} over"


def _rate(rate: Rate) -> str:
    ends = "" if rate.low is None else f" ({_number(rate.low)} to {_number(rate.high)})"
    return f"{_number(rate.per_s)}{ends}"


def _number(value: float | None) -> str | None:
    """Write two decimals, or as many as three digits take: neither 0.004 nor 1.004 is to look like another number."""
    if value is None:
        return None
    if abs(value) >= 10 or value == 0:
        return f"{value:.2f}"
    return f"{value:#.4g}" if abs(value) >= 1 else f"{value:#.3g}"
