"""Speeds of a load so far, computed from segments with known rows."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.shared.analysis.records import MS, S, frame, row
from vlmhyperbench.load.live import MIN_INTERVAL_S, LiveSpeeds


class Clock:
    """A clock that a test advances."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


def seal(folder: Path, name: str, rows: list[dict[str, object]]) -> str:
    """Write a segment and return its name."""
    frame(rows).write_parquet(folder / name)
    return name


def test_no_speeds_are_known_before_the_first_segment(tmp_path: Path, clock: Clock) -> None:
    assert LiveSpeeds(tmp_path, clock=clock).describe() == ""


def test_rates_and_percentiles_are_those_of_all_segments_so_far(tmp_path: Path, clock: Clock) -> None:
    live = LiveSpeeds(tmp_path, clock=clock)
    # Rows end 1 s after they were scheduled: 2 requests of 2 tokens in 1 s, then 4 in 2 s. Times are bucket centres.
    live.add(seal(tmp_path, "1-0.parquet", [row(ttft_ms=100), row(ttft_ms=100)]))
    assert live.describe() == (
        "so far 2.00 requests/s, 4.00 tokens/s, p50/p99 100.5/100.5 ms ttft, 109.9/109.9 ms latency"
    )
    live.add(seal(tmp_path, "1-1.parquet", [row(ttft_ms=100, at_ns=S), row(ttft_ms=200, at_ns=S)]))
    clock.now_s += MIN_INTERVAL_S
    assert live.describe() == (
        "so far 2.00 requests/s, 4.00 tokens/s, p50/p99 100.5/199.6 ms ttft, 109.9/209.8 ms latency"
    )


def test_segments_are_read_at_most_once_per_second(tmp_path: Path, clock: Clock) -> None:
    live = LiveSpeeds(tmp_path, clock=clock)
    live.add(seal(tmp_path, "1-0.parquet", [row()]))
    first = live.describe()
    # Reading this segment would fail, because it does not exist yet.
    live.add("1-1.parquet")
    clock.now_s += 0.9 * MIN_INTERVAL_S
    assert live.describe() == first
    seal(tmp_path, "1-1.parquet", [row(), row()])
    clock.now_s += 0.1 * MIN_INTERVAL_S
    assert live.describe().startswith("so far 3.00 requests/s")


def test_failed_requests_have_no_times_but_lower_the_rate(tmp_path: Path, clock: Clock) -> None:
    live = LiveSpeeds(tmp_path, clock=clock)
    live.add(seal(tmp_path, "1-0.parquet", [row(error="http_503: busy", at_ns=3 * S)]))
    assert live.describe() == ""
    live.add(seal(tmp_path, "1-1.parquet", [row()]))
    clock.now_s += MIN_INTERVAL_S
    # One request in the 4 s between the first scheduled instant and the last end.
    assert live.describe().startswith("so far 0.25 requests/s, 0.50 tokens/s, p50/p99 100.5/100.5 ms ttft")


def test_the_event_of_a_role_is_not_the_first_token(tmp_path: Path, clock: Clock) -> None:
    events = {"event_ns": [MS, 50 * MS, 60 * MS, 90 * MS], "event_kind": ["role", "reasoning", "content", "usage"]}
    answer = row() | events | {"event_tokens": [0, 1, 1, 0], "last_event_ns": 60 * MS}
    live = LiveSpeeds(tmp_path, clock=clock)
    live.add(seal(tmp_path, "1-0.parquet", [answer]))
    assert "p50/p99 50.1/50.1 ms ttft, 59.9/59.9 ms latency" in live.describe()


def test_answers_with_uncounted_tokens_have_no_token_rate(tmp_path: Path, clock: Clock) -> None:
    live = LiveSpeeds(tmp_path, clock=clock)
    live.add(seal(tmp_path, "1-0.parquet", [row(tokens=None)]))
    assert live.describe().startswith("so far 1.00 requests/s, p50/p99")


def test_an_answer_without_events_is_not_counted(tmp_path: Path, clock: Clock) -> None:
    silent = row() | {"event_ns": [], "event_kind": [], "event_tokens": [], "last_event_ns": None}
    live = LiveSpeeds(tmp_path, clock=clock)
    live.add(seal(tmp_path, "1-0.parquet", [silent, row()]))
    assert live.describe().startswith("so far 1.00 requests/s, 2.00 tokens/s")
