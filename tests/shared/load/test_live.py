"""How a load goes so far, by segments whose rows are known."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.shared.analysis.records import MS, S, frame, row
from vlmhyperbench.load.live import LOOK_SECONDS, SoFar


class Clock:
    """Seconds that pass when they are told to."""

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


def test_nothing_is_known_before_the_first_segment(tmp_path: Path, clock: Clock) -> None:
    assert SoFar(tmp_path, clock=clock).look() == ""


def test_rates_and_percentiles_are_those_of_all_segments_so_far(tmp_path: Path, clock: Clock) -> None:
    so_far = SoFar(tmp_path, clock=clock)
    # Rows end a second after they were due; 2 requests of 2 tokens in 1 s, then 4 in 2 s. Times are middles of buckets.
    so_far.add(seal(tmp_path, "1-0.parquet", [row(ttft_ms=100), row(ttft_ms=100)]))
    assert so_far.look() == (
        "so far 2.00 requests/s, 4.00 tokens/s, p50/p99 100.5/100.5 ms ttft, 109.9/109.9 ms latency"
    )
    so_far.add(seal(tmp_path, "1-1.parquet", [row(ttft_ms=100, at_ns=S), row(ttft_ms=200, at_ns=S)]))
    clock.now_s += LOOK_SECONDS
    assert so_far.look() == (
        "so far 2.00 requests/s, 4.00 tokens/s, p50/p99 100.5/199.6 ms ttft, 109.9/209.8 ms latency"
    )


def test_segments_are_read_once_a_second_at_most(tmp_path: Path, clock: Clock) -> None:
    so_far = SoFar(tmp_path, clock=clock)
    so_far.add(seal(tmp_path, "1-0.parquet", [row()]))
    first = so_far.look()
    # A name that nobody sealed would be an error, if it were read.
    so_far.add("1-1.parquet")
    clock.now_s += 0.9 * LOOK_SECONDS
    assert so_far.look() == first
    seal(tmp_path, "1-1.parquet", [row(), row()])
    clock.now_s += 0.1 * LOOK_SECONDS
    assert so_far.look().startswith("so far 3.00 requests/s")


def test_what_failed_has_no_times_and_takes_time(tmp_path: Path, clock: Clock) -> None:
    so_far = SoFar(tmp_path, clock=clock)
    so_far.add(seal(tmp_path, "1-0.parquet", [row(error="http_503: busy", at_ns=3 * S)]))
    assert so_far.look() == ""
    so_far.add(seal(tmp_path, "1-1.parquet", [row()]))
    clock.now_s += LOOK_SECONDS
    # One in the 4 s from the first that was due to the last end.
    assert so_far.look().startswith("so far 0.25 requests/s, 0.50 tokens/s, p50/p99 100.5/100.5 ms ttft")


def test_a_first_token_is_no_role(tmp_path: Path, clock: Clock) -> None:
    events = {"event_ns": [MS, 50 * MS, 60 * MS, 90 * MS], "event_kind": ["role", "reasoning", "content", "usage"]}
    one = row() | events | {"event_tokens": [0, 1, 1, 0], "last_event_ns": 60 * MS}
    so_far = SoFar(tmp_path, clock=clock)
    so_far.add(seal(tmp_path, "1-0.parquet", [one]))
    assert "p50/p99 50.1/50.1 ms ttft, 59.9/59.9 ms latency" in so_far.look()


def test_what_nobody_counted_has_no_rate_of_tokens(tmp_path: Path, clock: Clock) -> None:
    so_far = SoFar(tmp_path, clock=clock)
    so_far.add(seal(tmp_path, "1-0.parquet", [row(tokens=None)]))
    assert so_far.look().startswith("so far 1.00 requests/s, p50/p99")


def test_an_answer_without_events_is_none(tmp_path: Path, clock: Clock) -> None:
    silent = row() | {"event_ns": [], "event_kind": [], "event_tokens": [], "last_event_ns": None}
    so_far = SoFar(tmp_path, clock=clock)
    so_far.add(seal(tmp_path, "1-0.parquet", [silent, row()]))
    assert so_far.look().startswith("so far 1.00 requests/s, 2.00 tokens/s")
