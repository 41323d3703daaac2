"""Compare a client's report with the server's record; pure."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.loadgen_conformance.clients import Reported
from vlmhyperbench.analysis.distributions import nearest_rank
from vlmhyperbench.analysis.request_times import times_of_record

TTFT_SLACK_MS, GAP_SLACK_MS = 5.0, 0.5
"""Maximum error of a median that counts as right: more than a busy machine causes, less than a misled client has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrueRequest:
    """The server's record of one request that it answered."""

    text: str
    received_ns: int
    connection: int
    tokens: int
    ttft_ms: float
    gaps_ms: list[float]
    tpot_ms: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Truth:
    """The server's record of one run."""

    requests: list[TrueRequest]
    """The requests that were answered."""
    received_ns: list[int]
    """When each request arrived, answered or not, ascending."""
    connections: int
    late_p99_ms: float
    """The p99 of the lateness of the server's writes, which is its own error."""

    @property
    def tokens(self) -> int:
        """Output tokens of all answers."""
        return sum(request.tokens for request in self.requests)


@dataclass(frozen=True, slots=True, kw_only=True)
class Errors:
    """Errors of a client's figures in ms, over pairs of the same request and the same gap."""

    ttft_p50: float | None
    ttft_p99: float | None
    gap_p50: float | None
    gap_p99: float | None
    paired: int
    """Number of requests whose text is in the server's record."""


def truth_of(records: Sequence[dict[str, Any]]) -> Truth:
    """Read the server's record; the times of a request count from the arrival of its last byte."""
    requests = []
    late = sorted(late for record in records for late in record["late_ns"][1:])
    for record in records:
        if record["status"] != 200:
            continue
        times = times_of_record(record | {"scheduled_ns": record["received_ns"], "sent_ns": record["received_ns"]})
        assert times.ttft_service_ns is not None
        requests.append(
            TrueRequest(
                text=_plain(record["text"]),
                received_ns=record["received_ns"],
                connection=record["connection"],
                tokens=record["completion_tokens"],
                ttft_ms=times.ttft_service_ns / 1e6,
                gaps_ms=[gap / 1e6 for gap in times.itl_ns],
                tpot_ms=None if times.tpot_ns is None else times.tpot_ns / 1e6,
            )
        )
    return Truth(
        requests=requests,
        received_ns=sorted(record["received_ns"] for record in records),
        connections=len({record["connection"] for record in records}),
        late_p99_ms=(nearest_rank(late, 99) or 0) / 1e6,
    )


def errors_of(reported: Reported, truth: Truth) -> Errors:
    """Pair requests by their text and gaps by their index, and return the errors."""
    by_text = {request.text: request for request in truth.requests}
    ttft: list[float] = []
    gaps: list[float] = []
    for text, ttft_ms, gaps_ms in zip(reported.texts, reported.ttft_ms, reported.gaps_ms, strict=True):
        request = by_text.get(_plain(text))
        if request is None:
            continue
        ttft.append(ttft_ms - request.ttft_ms)
        gaps.extend(abs(reported_ms - true_ms) for reported_ms, true_ms in zip(gaps_ms, request.gaps_ms, strict=False))
    return Errors(
        ttft_p50=nearest_rank(sorted(ttft), 50),
        ttft_p99=nearest_rank(sorted(ttft), 99),
        gap_p50=nearest_rank(sorted(gaps), 50),
        gap_p99=nearest_rank(sorted(gaps), 99),
        paired=len(ttft),
    )


def faults_of(reported: Reported, truth: Truth) -> list[str]:
    """Return the figures that a client reports wrongly about a stream, with their values; empty if all are right."""
    faults: list[str] = []
    true_ttft = _median([request.ttft_ms for request in truth.requests])
    true_gap = _median([gap for request in truth.requests for gap in request.gaps_ms])
    true_tpot = _median([request.tpot_ms for request in truth.requests if request.tpot_ms is not None])
    figures = (
        ("TTFT", _median(reported.ttft_ms), true_ttft, TTFT_SLACK_MS),
        ("ITL", _itl_ms(reported), true_gap, GAP_SLACK_MS),
        ("TPOT", reported.tpot_p50_ms, true_tpot, GAP_SLACK_MS),
    )
    for name, reported_ms, true, slack in figures:
        if reported_ms is None or true is None or not math.isclose(reported_ms, true, abs_tol=slack):
            faults.append(f"{name} {_show(reported_ms)}, not {_show(true)}")
    gaps = sum(len(gaps) for gaps in reported.gaps_ms)
    wanted = sum(len(request.gaps_ms) for request in truth.requests)
    if gaps > wanted:
        faults.append(f"{gaps} gaps, not {wanted}")
    if reported.tokens != truth.tokens:
        faults.append(f"{reported.tokens} tokens, not {truth.tokens}")
    if reported.completed != len(truth.requests):
        faults.append(f"{reported.completed} completed, not {len(truth.requests)}")
    return faults


def _itl_ms(reported: Reported) -> float | None:
    if reported.itl_p50_ms is not None:
        return reported.itl_p50_ms
    return _median([gap for gaps in reported.gaps_ms for gap in gaps])


def _plain(text: str) -> str:
    return " ".join(text.split())


def _median(values: Sequence[float]) -> float | None:
    return statistics.median(values) if values else None


def _show(value: float | None) -> str:
    return "none" if value is None else f"{value:.1f}"
