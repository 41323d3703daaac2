"""Print the results of several measurements as text: repeats, pairs, sweeps and searches."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vlmhyperbench.cli.load.text import count_answered, print_estimated, why_invalid, write_number
from vlmhyperbench.cli.output import say, table

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from vlmhyperbench.analysis.load_result import LoadResult
    from vlmhyperbench.analysis.repeats import RepeatedMean
    from vlmhyperbench.load.pairs import PairedResult
    from vlmhyperbench.load.search import SearchResult
    from vlmhyperbench.load.series import Repeats, Sweep


def print_repeats(repeats: Repeats) -> None:
    """Print the means over repeats."""
    say(f"{len(repeats.runs)} repeats, {sum(run.valid for run in repeats.runs)} of them valid.")
    rows = [
        (name, *map(write_number, (mean.mean, mean.sd, mean.low, mean.high)))
        for name, mean in repeats.metrics.items()
        if mean.mean is not None
    ]
    table(["", "mean", "sd", "95 % from", "to"], rows, right=["mean", "sd", "95 % from", "to"])
    _print_missing({name: mean.reason for name, mean in repeats.metrics.items() if mean.mean is None}, repeats.runs)
    if repeats.stopped is not None:
        stopped = repeats.stopped
        reached = "reached" if stopped.is_reached else "NOT reached"
        say(f"{stopped.metric} within {stopped.precision:.2%}: {reached}. {_mean_interval(stopped.mean)}")
    print_estimated(repeats.runs)
    for number, run in enumerate(repeats.runs, 1):
        for reason in why_invalid(run):
            say(f"repeat {number} {reason}")


def print_pairs(paired: PairedResult) -> None:
    """Print the ratios of two servers."""
    say(f"{len(paired.pairs)} pairs; ratios of {paired.urls[1]} to {paired.urls[0]}")
    rows = [
        (name, *map(write_number, (pairs.ratio, pairs.low, pairs.high)), "differs from 1" if pairs.differs else "")
        for name, pairs in paired.ratios.items()
        if pairs.ratio is not None
    ]
    table(["", "ratio", "95 % from", "to", ""], rows, right=["ratio", "95 % from", "to"])
    results = [result for pair in paired.pairs for result in (pair.first, pair.second)]
    _print_missing({name: pairs.reason for name, pairs in paired.ratios.items() if pairs.ratio is None}, results)
    print_estimated(results)
    for number, pair in enumerate(paired.pairs, 1):
        for url, result in zip(paired.urls, (pair.first, pair.second), strict=True):
            for reason in why_invalid(result):
                say(f"pair {number}, {url}: {reason}")


def print_sweep(sweep: Sweep) -> None:
    """Print one row for each point."""
    columns = [sweep.axis, "ok", "requests/s", "tokens/s", "ttft p50", "ttft p99", "tpot p99", "latency p99"]
    has_slo = any(point.result.statistics.goodput is not None for point in sweep.points)
    rows = []
    for point in sweep.points:
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
    print_estimated([point.result for point in sweep.points])
    for point in sweep.points:
        if point.settled_s is None:
            say(f"INVALID: the server did not become idle again after {sweep.axis} {point.value:g}.")
        for reason in why_invalid(point.result):
            say(f"{sweep.axis} {point.value:g} {reason}")


def print_search(search: SearchResult) -> None:
    """Print each probe, and the rate that was found."""
    rows = [
        (f"{probe.rate_per_s:.4g}", "passed" if probe.passed else "failed", probe.reason or "")
        for probe in search.found.probes
    ]
    table(["rate", "", "reason"], rows, right=["rate"])
    result, limits = search.found, ", ".join(f"{name}<{limit:g}" for name, limit in search.slo.items())
    certainty = f"{search.certainty:.2%}"
    say(f"Each probe had {search.requests} requests; it passes if each limit is kept with {certainty} certainty.")
    print_estimated(search.runs)
    if search.ended_by is not None:
        say(f"INVALID: the search ended early: {search.ended_by}. The results up to then follow.")
    if not result.probes:
        say("No probe was completed.")
        return
    if result.passed_per_s is None:
        say(f"NOT REACHED: no rate was shown to keep {limits}.")
    else:
        say(
            f"The server keeps {limits} at {result.passed_per_s:.4g} requests/s, "
            f"with {result.confidence:.0%} confidence."
        )
    if result.failed_per_s is None:
        say("No rate failed: the largest rate at which the server keeps the limits may be higher.")
    else:
        say(f"The smallest rate that failed: {result.failed_per_s:.4g} requests/s.")


def _mean_interval(mean: RepeatedMean | None) -> str:
    if mean is None or mean.low is None or mean.high is None:
        return "Too few repeats have a value."
    interval = f"{write_number(mean.low)} to {write_number(mean.high)}"
    return f"The mean is {interval} (95 % for all checks after each repeat together)."


def _print_missing(reasons: Mapping[str, str | None], results: Sequence[LoadResult]) -> None:
    """Print the metrics that have no value, with the reason; goodput only with an SLO."""
    has_slo = any(result.statistics.goodput is not None for result in results)
    for name, reason in reasons.items():
        if has_slo or name != "goodput_per_s":
            say(f"{name}: none, {reason}")


def _of_all(result: LoadResult, name: str, percent: float) -> str:
    """Format a percentile over all requests, in which failed requests count as infinite."""
    percentile = next(known for known in result.statistics.percentiles[name] if known.percent == percent)
    return write_number(percentile.adjusted) or "none"
