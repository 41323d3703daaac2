"""What a record comes to, and when it is not valid."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from vlmhyperbench.analysis.performance import Distribution, MeasuredRequest, times_of
from vlmhyperbench.load.results import RecordedRequest, read_record, result_of
from vlmhyperbench_sdk.errors import NotFound
from vlmhyperbench_sdk.load import EndLine

MS = 1_000_000
END = EndLine(
    event="end",
    outcome="complete",
    error=None,
    cpu_s=1.5,
    peak_rss_bytes=10,
    startup_s=0.2,
    processes=1,
    send_lag_p50_ms=0.1,
    send_lag_p99_ms=0.9,
    loop_busy_share=0.1,
    schedule_sha256="ab",
)


def row(*, ttft_ms: int = 100, phase: int = 1, error: str | None = None, tokens: int | None = 2) -> RecordedRequest:
    events = [] if error else [ttft_ms * MS, (ttft_ms + 10) * MS]
    return RecordedRequest(
        phase=phase,
        status="error" if error else "ok",
        error=error,
        sent_ns=0,
        token_source=None if error else "usage",
        measured=MeasuredRequest(
            is_ok=error is None,
            scheduled_ns=0,
            end_ns=1000 * MS,
            times=times_of(
                scheduled_ns=0,
                sent_ns=0,
                event_ns=events,
                event_kind=["content"] * len(events),
                event_tokens=[1] * len(events),
            ),
            prompt_tokens=7,
            completion_tokens=None if error else tokens,
        ),
    )


def gates(rows: list[RecordedRequest], end: EndLine = END, *, scheduled: int | None = None) -> dict[str, bool]:
    result = result_of(rows, end, measured_phase=1, scheduled=len(rows) if scheduled is None else scheduled)
    assert result.valid is all(gate.ok for gate in result.gates)
    return {gate.name: gate.ok for gate in result.gates}


def test_a_good_record_is_valid() -> None:
    result = result_of([row(), row(ttft_ms=200), row(phase=0)], END, measured_phase=1, scheduled=2)
    assert result.valid
    latency = result.metrics["latency_ms"]
    assert isinstance(latency, Distribution)
    assert (latency.n, latency.p50, latency.max) == (2, 110.0, 210.0)
    assert (result.metrics["requests_per_s"], result.metrics["output_tokens_per_s"]) == (2.0, 4.0)
    assert result.tokens == {"prompt": 14, "completion": 4, "source": "usage"}


def test_one_gate_that_is_shut_makes_it_invalid() -> None:
    assert not gates([row(), row(error="http_503: busy")])["error_share"]
    assert not gates([row()], scheduled=2)["unaccounted"]
    assert not gates([row()], dataclasses.replace(END, loop_busy_share=0.9))["client_busy_share"]
    assert not gates([row()], dataclasses.replace(END, send_lag_p99_ms=1.1))["send_lag_p99_ms"]
    assert not gates([row()], dataclasses.replace(END, send_lag_p99_ms=None))["send_lag_p99_ms"]


def test_a_slow_service_allows_a_later_send() -> None:
    assert gates([row(ttft_ms=500)], dataclasses.replace(END, send_lag_p99_ms=4.9))["send_lag_p99_ms"]


def test_errors_are_counted_by_code() -> None:
    rows = [row(error="http_503: a"), row(error="http_503: b"), row(error="timeout: c")]
    result = result_of(rows, END, measured_phase=1, scheduled=3)
    assert result.errors == {"http_503": 2, "timeout": 1}
    assert result.tokens == {"prompt": None, "completion": None, "source": None}


def test_an_unknown_count_has_no_sum() -> None:
    assert result_of([row(), row(tokens=None)], END, measured_phase=1, scheduled=2).tokens["completion"] is None


def test_an_empty_record_is_no_record(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="no sealed segment"):
        read_record(tmp_path)
