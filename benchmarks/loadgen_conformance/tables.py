"""Write what the suite found as a Markdown page."""

from __future__ import annotations

import os
import platform
import statistics
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.loadgen_conformance.arrivals import SCHEDULES, SEED, SHARE, SIGMAS, Bands, poisson_bands
from benchmarks.loadgen_conformance.checking import GAP_SLACK_MS, TTFT_SLACK_MS, Errors
from benchmarks.loadgen_conformance.clients import OURS, NamedClient
from benchmarks.loadgen_conformance.findings import Findings, Round
from benchmarks.loadgen_conformance.rounds import ARRIVALS

Value = Callable[[Round], float | None]
Figure = tuple[str, Value, str]

PER_TOKEN = "CPU-s per 100k streamed tokens, 64 streams"
PER_REQUEST = "CPU-s per 1k one-token requests, 64 streams"
_COSTS: Sequence[Figure] = (
    (PER_TOKEN, lambda figures: figures.cpu_s_per_100k_tokens, ".2f"),
    (PER_REQUEST, lambda figures: figures.cpu_s_per_1k_requests, ".3f"),
)
_FIGURES: Sequence[Figure] = (
    *_COSTS,
    (
        "start of the whole command to the first request at the server, s",
        lambda figures: figures.first_request_s,
        ".2f",
    ),
    ("start-up of the load generator itself, s \\*", lambda figures: figures.startup_s, ".2f"),
    ("peak memory of all processes, 64 streams, MB", lambda figures: _mb(figures.peak_rss_bytes), ".0f"),
    (
        "of the load generator, parent and measuring process, MB \\*",
        lambda figures: _mb(figures.loadgen_rss_bytes),
        ".0f",
    ),
    ("of the measuring process only, MB \\*", lambda figures: _mb(figures.measuring_rss_bytes), ".0f"),
    ("processes, 64 streams", lambda figures: figures.processes, ".0f"),
    ("connections, 64 streams", lambda figures: figures.connections, ".0f"),
    ("TTFT error p50, 16 streams, ms", lambda figures: _accuracy(figures).ttft_p50, "+.2f"),
    ("TTFT error p99, ms", lambda figures: _accuracy(figures).ttft_p99, "+.2f"),
    ("gap error p50, ms", lambda figures: _accuracy(figures).gap_p50, ".3f"),
    ("gap error p99, ms", lambda figures: _accuracy(figures).gap_p99, ".3f"),
    ("output tokens/s, reported over true", lambda figures: figures.tokens_per_s_share, ".3f"),
    ("send lag p50, constant 200/s, ms \\*", lambda figures: figures.send_lag_p50_ms, ".3f"),
    ("send lag p99, ms \\*", lambda figures: figures.send_lag_p99_ms, ".3f"),
    (
        "CPU-s per 100k tokens, 40 ms each: 64 streams, 1 measuring process",
        lambda figures: figures.narrow_cpu_s_per_100k_tokens,
        ".2f",
    ),
    ("the same: 1,024 streams, 2 measuring processes", lambda figures: figures.wide_cpu_s_per_100k_tokens, ".2f"),
    ("the latter over the former", lambda figures: figures.wide_over_narrow, ".2f"),
)

_ABOUT = (
    "Written by `make bench-loadgen`. The server is `vlmhyperbench-simulated`. Every answer has different words, and "
    "the server records the instant of every send; the report of a client is compared with this record. Clients take "
    "turns in every round, and figures are medians of rounds. So compare columns: the figures depend on the machine."
)
_ABOUT_STREAMS = (
    f"Truth in each: first token at 100 ms, 32 tokens with gaps of 10 ms. A median within {TTFT_SLACK_MS:g} ms (TTFT) "
    f"or {GAP_SLACK_MS:g} ms (ITL, TPOT) is right; counts must be exact."
)
_ABOUT_COST = (
    "Medians of rounds, minimum and maximum in brackets. Cost is marginal: the difference of two runs, divided by the "
    "difference of their tokens or requests; – if the start-up varies by more than this difference. Errors are over "
    "pairs of the same request, or of the same gap. Figures marked \\* are reported by the client itself, and measured "
    "for our client only, as is the load of 1,024 streams."
)
_ABOUT_ARRIVALS = (
    "Arrivals of 1,200 requests at the server, with another schedule in every round. Dispersion is the variance "
    "divided by the mean of the counts in windows of ten mean gaps. Poisson arrivals have a CV of gaps of 1 and a "
    f"dispersion of 1; constant arrivals have 0. The band of the rate is {SIGMAS} standard deviations to either side; "
    f"those of CV and dispersion hold {SHARE:.0%} of {SCHEDULES:,} simulated schedules (numpy, seed {SEED}), each "
    "figure by itself. The last column counts the rounds in which all three figures lie in their bands."
)


def write_report(clients: Sequence[NamedClient], findings: Findings, *, command: str) -> str:
    """Write the page: machine, versions, streams, figures, arrivals, and what failed."""
    checked = [client for client in clients if client.name in findings.rounds or _has_faults(client, findings)]
    versions = [[client.name, _version(client, is_checked=client in checked)] for client in clients]
    parts = [
        "# Load generators against an exactly timed server",
        _ABOUT,
        _machine(findings, command),
        _table(["client", "version"], versions),
    ]
    if findings.faults:
        parts += ["## Streams that mislead", _ABOUT_STREAMS, _streams(checked, findings)]
    if findings.rounds:
        parts += ["## Cost and accuracy", _ABOUT_COST, _figures(checked, findings)]
    if findings.has_arrivals:
        parts += ["## Arrivals at the server", _ABOUT_ARRIVALS, _arrivals(checked, findings)]
    if findings.failures:
        parts += ["## What failed", "\n".join(f"- {failure}" for failure in findings.failures)]
    return "\n\n".join(parts) + "\n"


def _version(client: NamedClient, *, is_checked: bool) -> str:
    version = client.version()
    if version is None:
        return "not installed"
    return version if is_checked else f"{version}, not run"


def _accuracy(figures: Round) -> Errors:
    return figures.errors or Errors(ttft_p50=None, ttft_p99=None, gap_p50=None, gap_p99=None, paired=0)


def _has_faults(client: NamedClient, findings: Findings) -> bool:
    return any(name == client.name for _, name in findings.faults)


def _machine(findings: Findings, command: str) -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    model = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "unknown CPU")
    late, wide = findings.server_late_p99_ms, findings.wide_late_p99_ms
    server = f" The p99 of the lateness of the server's writes was {statistics.median(late):.2f} ms" if late else ""
    server += f", at 1,024 streams {statistics.median(wide):.2f} ms" if wide else ""
    server += "." if server else ""
    return (
        f"{datetime.now(UTC):%Y-%m-%d}, {os.cpu_count()} x {model}, {platform.system()} {platform.release()}, "
        f"Python {platform.python_version()}; `python -m benchmarks.loadgen_conformance {command}`.{server}"
    )


def _streams(clients: Sequence[NamedClient], findings: Findings) -> str:
    names = list(dict.fromkeys(name for name, _ in findings.faults))
    rows = []
    for name in names:
        cells = [findings.faults.get((name, client.name)) for client in clients]
        rows.append([name, *("failed" if cell is None else "; ".join(cell) or "right" for cell in cells)])
    return _table(["stream", *(client.name for client in clients)], rows)


def _figures(clients: Sequence[NamedClient], findings: Findings) -> str:
    rows = [["rounds", *(str(len(findings.rounds.get(client.name, []))) for client in clients)]]
    for title, value_of, form in _FIGURES:
        cells = [_spread(_known(findings.rounds.get(client.name, []), value_of), form) for client in clients]
        rows.append([title, *cells])
    if OURS.name in findings.rounds:
        for title, value_of, _ in _COSTS:
            rows.append([f"{title}: ours over this", *_ratios(clients, findings, value_of)])
    return _table(["", *(client.name for client in clients)], rows)


def _ratios(clients: Sequence[NamedClient], findings: Findings, value_of: Value) -> list[str]:
    """Compute the ratios within each round, then their median."""
    cells = []
    for client in clients:
        # A client of fewer rounds takes part in the first ones.
        rounds = zip(findings.rounds[OURS.name], findings.rounds.get(client.name, []), strict=False)
        pairs = [(value_of(ours), value_of(theirs)) for ours, theirs in rounds]
        known = [(ours, theirs) for ours, theirs in pairs if ours is not None and theirs is not None]
        is_clear = all(min(pair) > 0 for pair in known)
        cells.append(_spread([ours / theirs for ours, theirs in known] if is_clear else [], ".2f"))
    return cells


def _arrivals(clients: Sequence[NamedClient], findings: Findings) -> str:
    rows = []
    for process, load in ARRIVALS.items():
        bands: Bands | None = None
        if load.arrivals == "poisson" and load.rate_per_s is not None:
            bands = poisson_bands(count=load.requests, rate_per_s=load.rate_per_s)
            shown = [_band(bands.rate_per_s, ".2f"), _band(bands.cv, ".3f"), _band(bands.dispersion, ".2f")]
            rows.append([process, "its bands", "", *shown, ""])
        for client in clients:
            rounds = findings.rounds.get(client.name, [])
            shapes = [figures.arrivals[process] for figures in rounds if process in figures.arrivals]
            if shapes:
                cells = [
                    _spread([shape.rate_per_s for shape in shapes], ".2f"),
                    _spread([shape.cv for shape in shapes], ".3f"),
                    _spread([shape.dispersion for shape in shapes], ".2f"),
                ]
                rounds_in_bands = "" if bands is None else str(sum(map(bands.hold, shapes)))
                rows.append([process, client.name, str(len(shapes)), *cells, rounds_in_bands])
    return _table(["requested", "client", "rounds", "rate per s", "CV of gaps", "dispersion", "in the bands"], rows)


def _band(band: tuple[float, float], form: str) -> str:
    return f"{band[0]:{form}} to {band[1]:{form}}"


def _known(rounds: Sequence[Round], value_of: Value) -> list[float]:
    """Return the figure of each round; an empty list if a marginal cost is not above zero in a round."""
    values = [value for figures in rounds if (value := value_of(figures)) is not None]
    is_cost = value_of in [cost for _, cost, _ in _COSTS]
    return [] if is_cost and min(values, default=1) <= 0 else values


def _mb(size_bytes: int | None) -> float | None:
    return None if size_bytes is None else size_bytes / 1e6


def _spread(values: Sequence[float], form: str) -> str:
    if not values:
        return "–"
    middle = statistics.median(values)
    if len(values) == 1:
        return format(middle, form)
    return f"{middle:{form}} ({min(values):{form}} to {max(values):{form}})"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', '/') for cell in line)} |" for line in lines)
