"""The results of several measurements as text: repeats, pairs, sweeps and searches."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vlmhyperbench.cli.load.text import count_answered, print_estimated, why_invalid, write_number
from vlmhyperbench.cli.output import say, table

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from vlmhyperbench.analysis.load_result import LoadResult
    from vlmhyperbench.analysis.repeats import RepeatedMean
    from vlmhyperbench.load.against import Against
    from vlmhyperbench.load.search import SearchResult
    from vlmhyperbench.load.series import Repeats, Sweep


def print_repeats(found: Repeats) -> None:
    """Print the means over repeats."""
    say(f"{len(found.runs)} repeats, {sum(run.valid for run in found.runs)} of them valid.")
    rows = [
        (name, *map(write_number, (mean.mean, mean.sd, mean.low, mean.high)))
        for name, mean in found.metrics.items()
        if mean.mean is not None
    ]
    table(["", "mean", "sd", "95 % from", "to"], rows, right=["mean", "sd", "95 % from", "to"])
    _print_missing({name: mean.reason for name, mean in found.metrics.items() if mean.mean is None}, found.runs)
    if found.stopped is not None:
        stopped = found.stopped
        reached = "reached" if stopped.is_reached else "NOT reached"
        say(f"{stopped.metric} within {stopped.precision:.2%}: {reached}. {_looked(stopped.mean)}")
    print_estimated(found.runs)
    for number, run in enumerate(found.runs, 1):
        for reason in why_invalid(run):
            say(f"repeat {number} {reason}")


def print_against(found: Against) -> None:
    """Print the ratios of two servers."""
    say(f"{len(found.pairs)} pairs: {found.urls[1]} over {found.urls[0]}")
    rows = [
        (name, *map(write_number, (pairs.ratio, pairs.low, pairs.high)), "differs" if pairs.differs else "")
        for name, pairs in found.ratios.items()
        if pairs.ratio is not None
    ]
    table(["", "ratio", "95 % from", "to", ""], rows, right=["ratio", "95 % from", "to"])
    results = [result for pair in found.pairs for result in (pair.first, pair.second)]
    _print_missing({name: pairs.reason for name, pairs in found.ratios.items() if pairs.ratio is None}, results)
    print_estimated(results)
    for number, pair in enumerate(found.pairs, 1):
        for url, result in zip(found.urls, (pair.first, pair.second), strict=True):
            for reason in why_invalid(result):
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
                f"{count_answered(result)}/{result.requests['scheduled']}",
                *(write_number(rate) if isinstance(rate, float) else None for rate in rates),
                _of_all(result, "ttft_user_ms", 50.0),
                *(_of_all(result, name, 99.0) for name in ("ttft_user_ms", "tpot_ms", "latency_ms")),
                *(() if not has_slo else (None if goodput is None else write_number(goodput.per_s),)),
            )
        )
    columns += ["goodput/s"] if has_slo else []
    table(columns, rows, right=columns)
    print_estimated([point.result for point in found.points])
    for point in found.points:
        if point.settled_s is None:
            say(f"INVALID: after {found.axis} {point.value:g} the server did not become idle again.")
        for reason in why_invalid(point.result):
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
    print_estimated(search.runs)
    if search.ended_by is not None:
        say(f"INVALID: the search ended before it was over: {search.ended_by}. What it found by then follows.")
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
        return "There are too few repeats with a value."
    return f"{write_number(mean.low)} to {write_number(mean.high)} (95 % over the looks after all repeats)."


def _print_missing(reasons: Mapping[str, str | None], results: Sequence[LoadResult]) -> None:
    """Name the metrics without a value, and why; goodput needs an SLO."""
    has_slo = any(result.statistics.goodput is not None for result in results)
    for name, reason in reasons.items():
        if has_slo or name != "goodput_per_s":
            say(f"{name}: none, {reason}")


def _of_all(result: LoadResult, name: str, percent: float) -> str:
    """Write a percentile of all requests, in which failures count as infinite."""
    found = next(known for known in result.statistics.percentiles[name] if known.percent == percent)
    return write_number(found.adjusted) or "none"
