"""The judge of load generators: what it takes for right, and how it describes arrivals."""

from __future__ import annotations

import dataclasses

import pytest

from benchmarks.loadgen_conformance.clients import Reported
from benchmarks.loadgen_conformance.judging import arrivals_of, errors_of, faults_of, truth_of

MS = 1_000_000


def record(number: int = 0, *, status: int = 200) -> dict[str, object]:
    """First token at 100 ms, then two more, 10 ms each; everything left 0.5 ms late."""
    first_ns = 1_000 * MS * number + 100 * MS
    return {
        "status": status,
        "received_ns": 1_000 * MS * number,
        "connection": number % 2,
        "event_ns": [first_ns, first_ns + 10 * MS, first_ns + 20 * MS, first_ns + 20 * MS],
        "event_kind": ["content", "content", "content", "usage"],
        "event_tokens": [1, 1, 1, 0],
        "completion_tokens": 3,
        "late_ns": [0, MS // 2, MS // 2, MS // 2],
        "text": f"answer  {number}",
    }


TRUE = truth_of([record(0), record(1), record(2, status=503)])
RIGHT = Reported(
    completed=2,
    tokens=6,
    ttft_ms=[100.25, 101.0],
    gaps_ms=[[10.0, 10.0], [10.5, 9.5]],
    tpot_p50_ms=10.0,
    texts=["answer 1", "answer 0 "],
    requests_per_s=1.0,
    tokens_per_s=3.0,
)


def test_the_truth_is_what_was_sent() -> None:
    assert [(one.ttft_ms, one.gaps_ms, one.tpot_ms) for one in TRUE.requests] == [(100.0, [10.0, 10.0], 10.0)] * 2
    assert (TRUE.tokens, TRUE.connections, TRUE.late_p99_ms) == (6, 2, 0.5)
    assert TRUE.received_ns == [0, 1_000 * MS, 2_000 * MS]


def test_errors_are_those_of_the_same_request() -> None:
    errors = errors_of(RIGHT, TRUE)
    assert (errors.paired, errors.ttft_p50, errors.ttft_p99) == (2, 0.25, 1.0)
    assert (errors.gap_p50, errors.gap_p99) == (0.0, 0.5)
    stranger = dataclasses.replace(RIGHT, texts=["what", "who"])
    assert (errors_of(stranger, TRUE).paired, errors_of(stranger, TRUE).ttft_p50) == (0, None)


def test_a_right_report_has_no_fault() -> None:
    assert faults_of(RIGHT, TRUE) == []


@pytest.mark.parametrize(
    ("wrong", "fault"),
    [
        ({"ttft_ms": [1.9, 1.9]}, "TTFT 1.9, not 100.0"),
        ({"tpot_p50_ms": 19.7}, "TPOT 19.7, not 10.0"),
        ({"tpot_p50_ms": None}, "TPOT none, not 10.0"),
        ({"gaps_ms": [[40.0], [40.0]]}, "ITL 40.0, not 10.0"),
        ({"gaps_ms": [[10.0, 10.0, 0.0], [10.0, 10.0]]}, "5 gaps, not 4"),
        ({"tokens": 7}, "7 tokens, not 6"),
        ({"completed": 3}, "3 completed, not 2"),
    ],
)
def test_a_wrong_report_is_told_with_its_value(wrong: dict[str, object], fault: str) -> None:
    assert faults_of(dataclasses.replace(RIGHT, **wrong), TRUE) == [fault]  # type: ignore[arg-type]


def test_even_arrivals_do_not_scatter() -> None:
    found = arrivals_of([number * 100 * MS for number in range(101)])
    assert (found.rate_per_s, found.cv, found.dispersion) == (10.0, 0.0, 0.0)


def test_bursts_scatter() -> None:
    # Ten at once every second: gaps of nine times 0 and once 1 s.
    found = arrivals_of([second * 1000 * MS for second in range(10) for _ in range(10)])
    assert found.rate_per_s == pytest.approx(11.0)
    assert found.cv == pytest.approx(3.18, abs=0.01)


def test_a_server_that_answered_nothing_has_no_truth() -> None:
    assert truth_of([record(status=503)]).requests == []
