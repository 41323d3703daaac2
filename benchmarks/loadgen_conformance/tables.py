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

_PER_TOKEN: Figure = (
    "CPU-s per 100k streamed tokens, 64 streams",
    lambda found: found.cpu_s_per_100k_tokens,
    ".2f",
)
_PER_REQUEST: Figure = (
    "CPU-s per 1k one-token requests, 64 streams",
    lambda found: found.cpu_s_per_1k_requests,
    ".3f",
)
_FIGURES: Sequence[Figure] = (
    _PER_TOKEN,
    _PER_REQUEST,
    ("start of the whole command to the first request at the server, s", lambda found: found.first_request_s, ".2f"),
    ("start-up of the load generator itself, s \\*", lambda found: found.startup_s, ".2f"),
    ("peak memory of all processes, 64 streams, MB", lambda found: _mb(found.peak_rss_bytes), ".0f"),
    ("of the load generator, parent and measuring process, MB \\*", lambda found: _mb(found.loadgen_rss_bytes), ".0f"),
    ("of the measuring process alone, MB \\*", lambda found: _mb(found.measuring_rss_bytes), ".0f"),
    ("processes, 64 streams", lambda found: found.processes, ".0f"),
    ("connections, 64 streams", lambda found: found.connections, ".0f"),
    ("TTFT error p50, 16 streams, ms", lambda found: _accuracy(found).ttft_p50, "+.2f"),
    ("TTFT error p99, ms", lambda found: _accuracy(found).ttft_p99, "+.2f"),
    ("gap error p50, ms", lambda found: _accuracy(found).gap_p50, ".3f"),
    ("gap error p99, ms", lambda found: _accuracy(found).gap_p99, ".3f"),
    ("output tokens/s, reported over true", lambda found: found.tokens_per_s_share, ".3f"),
    ("send lag p50, constant 200/s, ms \\*", lambda found: found.send_lag_p50_ms, ".3f"),
    ("send lag p99, ms \\*", lambda found: found.send_lag_p99_ms, ".3f"),
    (
        "CPU-s per 100k tokens, 40 ms each: 64 streams, 1 measuring process",
        lambda found: found.narrow_cpu_s_per_100k_tokens,
        ".2f",
    ),
    ("the same: 1,024 streams, 2 measuring processes", lambda found: found.wide_cpu_s_per_100k_tokens, ".2f"),
    ("the latter over the former", lambda found: found.wide_over_narrow, ".2f"),
)

_ABOUT = (
    "Written by `make bench-loadgen`. The server is `vlmhyperbench-simulated`; it says other words in every answer and "
    "records the instant of every send, and what a client reports is compared with that record. Clients take turns in "
    "every round; figures are medians of rounds, so read ratios between columns, not the figures of one machine."
)
_ABOUT_STREAMS = (
    f"Truth in each: first token at 100 ms, 32 tokens, 10 ms each. A median within {TTFT_SLACK_MS:g} ms (TTFT) or "
    f"{GAP_SLACK_MS:g} ms (ITL, TPOT) is right; counts must be exact."
)
_ABOUT_COST = (
    "Medians of rounds, minimum and maximum in brackets. Cost is marginal: the difference of two runs, over the "
    "difference of their tokens or requests; – where it is lost in the variation of start-ups. Errors are over pairs "
    "of the same request, or of the same gap. Figures marked \\* are reported by the client itself, and measured for "
    "ours alone, as is the load of 1,024 streams."
)
_ABOUT_ARRIVALS = (
    "1,200 requests, as they arrived at the server, with another schedule in every round. Dispersion is the variance "
    "over the mean of the counts in windows of ten mean gaps. Poisson has a CV of gaps of 1 and a dispersion of 1; "
    f"constant has 0. The band of the rate is {SIGMAS} standard deviations to either side; those of CV and dispersion "
    f"hold {SHARE:.0%} of {SCHEDULES:,} simulated schedules (numpy, seed {SEED}), each by itself. The last column "
    "counts the rounds in which all three figures lie in their bands."
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
    return version if is_checked else f"{version}, not asked"


def _accuracy(found: Round) -> Errors:
    return found.accurate or Errors(ttft_p50=None, ttft_p99=None, gap_p50=None, gap_p99=None, paired=0)


def _has_faults(client: NamedClient, findings: Findings) -> bool:
    return any(name == client.name for _, name in findings.faults)


def _machine(findings: Findings, command: str) -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    model = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "unknown CPU")
    late, wide = findings.server_late_p99_ms, findings.wide_late_p99_ms
    server = f" The server's own writes were late by {statistics.median(late):.2f} ms (p99)" if late else ""
    server += f", at 1,024 streams by {statistics.median(wide):.2f} ms" if wide else ""
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
        for title, value_of, _ in (_PER_TOKEN, _PER_REQUEST):
            rows.append([f"{title}: ours over this", *_ratios(clients, findings, value_of)])
    return _table(["", *(client.name for client in clients)], rows)


def _ratios(clients: Sequence[NamedClient], findings: Findings, value_of: Value) -> list[str]:
    """Compute the ratios within each round, then their median."""
    cells = []
    for client in clients:
        # A client of fewer rounds takes part in the first ones.
        rounds = zip(findings.rounds[OURS.name], findings.rounds.get(client.name, []), strict=False)
        pairs = [(value_of(mine), value_of(theirs)) for mine, theirs in rounds]
        known = [(mine, theirs) for mine, theirs in pairs if mine is not None and theirs is not None]
        is_clear = all(min(pair) > 0 for pair in known)
        cells.append(_spread([mine / theirs for mine, theirs in known] if is_clear else [], ".2f"))
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
            shapes = [found.arrivals[process] for found in rounds if process in found.arrivals]
            if shapes:
                cells = [
                    _spread([shape.rate_per_s for shape in shapes], ".2f"),
                    _spread([shape.cv for shape in shapes], ".3f"),
                    _spread([shape.dispersion for shape in shapes], ".2f"),
                ]
                held = "" if bands is None else str(sum(map(bands.hold, shapes)))
                rows.append([process, client.name, str(len(shapes)), *cells, held])
    return _table(["asked for", "client", "rounds", "rate per s", "CV of gaps", "dispersion", "in the bands"], rows)


def _band(band: tuple[float, float], form: str) -> str:
    return f"{band[0]:{form}} to {band[1]:{form}}"


def _known(rounds: Sequence[Round], value_of: Value) -> list[float]:
    """Return the figure of each round; nothing where a marginal cost came out as zero or less."""
    values = [value for found in rounds if (value := value_of(found)) is not None]
    is_cost = value_of in (_PER_TOKEN[1], _PER_REQUEST[1])
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
