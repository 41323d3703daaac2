"""Write what the suite found as a Markdown page."""

from __future__ import annotations

import os
import platform
import statistics
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.loadgen_conformance.clients import Named
from benchmarks.loadgen_conformance.judging import GAP_SLACK_MS, TTFT_SLACK_MS, Errors
from benchmarks.loadgen_conformance.rounds import Findings, Round

Figure = tuple[str, Callable[[Round], float | None], str]

_FIGURES: Sequence[Figure] = (
    ("CPU-s per 100k streamed tokens, 64 streams", lambda one: one.cpu_s_per_100k_tokens, ".2f"),
    ("CPU-s per 1k one-token requests, 64 streams", lambda one: one.cpu_s_per_1k_requests, ".3f"),
    ("start to the first request at the server, s", lambda one: one.first_request_s, ".2f"),
    (
        "peak memory of all its processes, 64 streams, MB",
        lambda one: None if one.peak_rss_bytes is None else one.peak_rss_bytes / 1e6,
        ".0f",
    ),
    ("processes", lambda one: one.processes, ".0f"),
    ("connections, 64 streams", lambda one: one.connections, ".0f"),
    ("TTFT error p50, 16 streams, ms", lambda one: _accuracy(one).ttft_p50, "+.2f"),
    ("TTFT error p99, ms", lambda one: _accuracy(one).ttft_p99, "+.2f"),
    ("gap error p50, ms", lambda one: _accuracy(one).gap_p50, ".3f"),
    ("gap error p99, ms", lambda one: _accuracy(one).gap_p99, ".3f"),
    ("output tokens/s, reported over true", lambda one: one.tokens_per_s_share, ".3f"),
)

_ABOUT = (
    "Written by `make bench-loadgen`. The server is `vlmhyperbench-simulated`; it records the instant of every send, "
    "and what a client reports is compared with that record. Clients take turns in every round; figures are medians "
    "of rounds, so read ratios between columns, not the figures of one machine."
)
_ABOUT_STREAMS = (
    f"Truth in each: first token at 100 ms, 32 tokens, 10 ms each. A median within {TTFT_SLACK_MS:g} ms (TTFT) or "
    f"{GAP_SLACK_MS:g} ms (ITL, TPOT) is right; counts must be exact."
)
_ABOUT_COST = (
    "medians, the least and the most in brackets. Cost is marginal: what a larger run takes more than a smaller one, "
    "over what it did more. An error is that of a pair: of the same request, of the same gap."
)


def write_report(clients: Sequence[Named], findings: Findings, *, command: str) -> str:
    """Write the page: machine, versions, streams, figures, arrivals, and what failed."""
    judged = [client for client in clients if client.name in findings.rounds or _has_faults(client, findings)]
    parts = [
        "# Load generators against an exactly timed server",
        _ABOUT,
        _machine(findings, command),
        _table(["client", "version"], [[one.name, one.version() or "not installed"] for one in clients]),
    ]
    if findings.faults:
        parts += [
            "## Streams that mislead",
            _ABOUT_STREAMS,
            _streams(judged, findings),
        ]
    if findings.rounds:
        parts += [
            "## Cost and accuracy",
            f"{max(map(len, findings.rounds.values()))} rounds: {_ABOUT_COST}",
            _figures(judged, findings),
        ]
    if findings.arrivals:
        parts += [
            "## Arrivals at the server",
            "1,200 requests. Poisson has a CV of gaps of 1 and a dispersion of counts of 1; constant has 0.",
            _arrivals(findings),
        ]
    if findings.failures:
        parts += ["## What failed", "\n".join(f"- {failure}" for failure in findings.failures)]
    return "\n\n".join(parts) + "\n"


def _accuracy(one: Round) -> Errors:
    return one.accurate or Errors(ttft_p50=None, ttft_p99=None, gap_p50=None, gap_p99=None, paired=0)


def _has_faults(client: Named, findings: Findings) -> bool:
    return any(name == client.name for _, name in findings.faults)


def _machine(findings: Findings, command: str) -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    model = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "unknown CPU")
    late = findings.server_late_p99_ms
    server = f" The server's own writes were late by {statistics.median(late):.2f} ms (p99)." if late else ""
    return (
        f"{datetime.now(UTC):%Y-%m-%d}, {os.cpu_count()} x {model}, {platform.system()} {platform.release()}, "
        f"Python {platform.python_version()}; `python -m benchmarks.loadgen_conformance {command}`.{server}"
    )


def _streams(clients: Sequence[Named], findings: Findings) -> str:
    names = list(dict.fromkeys(name for name, _ in findings.faults))
    rows = []
    for name in names:
        cells = [findings.faults.get((name, client.name)) for client in clients]
        rows.append([name, *("failed" if cell is None else "; ".join(cell) or "right" for cell in cells)])
    return _table(["stream", *(client.name for client in clients)], rows)


def _figures(clients: Sequence[Named], findings: Findings) -> str:
    rows = []
    for title, value_of, form in _FIGURES:
        cells = []
        for client in clients:
            values = [value for one in findings.rounds.get(client.name, []) if (value := value_of(one)) is not None]
            cells.append(_spread(values, form))
        rows.append([title, *cells])
    for title, value_of, _ in _FIGURES[:2]:
        rows.append([f"{title}: ratio to the first column", *_ratios(clients, findings, value_of)])
    return _table(["", *(client.name for client in clients)], rows)


def _ratios(clients: Sequence[Named], findings: Findings, value_of: Callable[[Round], float | None]) -> list[str]:
    """Ratios within each round, then their median."""
    first = findings.rounds.get(clients[0].name, [])
    cells = []
    for client in clients:
        pairs = [
            (mine, theirs)
            for ours, other in zip(first, findings.rounds.get(client.name, []), strict=False)
            if (mine := value_of(ours)) and (theirs := value_of(other)) is not None
        ]
        cells.append(_spread([theirs / mine for mine, theirs in pairs], ".2f"))
    return cells


def _arrivals(findings: Findings) -> str:
    rows = [
        [process, client, f"{found.rate_per_s:.2f}", f"{found.cv:.3f}", f"{found.dispersion:.2f}"]
        for (process, client), found in findings.arrivals.items()
    ]
    return _table(["asked for", "client", "rate per s", "CV of gaps", "dispersion"], rows)


def _spread(values: Sequence[float], form: str) -> str:
    if not values:
        return "none"
    middle = statistics.median(values)
    if len(values) == 1:
        return format(middle, form)
    return f"{middle:{form}} ({min(values):{form}} to {max(values):{form}})"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', '/') for cell in line)} |" for line in lines)
