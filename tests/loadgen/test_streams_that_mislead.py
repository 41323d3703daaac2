"""Streams that mislead careless clients, all of one truth: first token at 100 ms, 32 tokens, 10 ms each."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.loadgen.driving import chat_body, drive
from vlmhyperbench.analysis.performance import RequestTimes, distribution_of, times_of_record
from vlmhyperbench_simulated.record import SendRecord
from vlmhyperbench_simulated.server import start_server
from vlmhyperbench_simulated.streams import STREAMS, TRUTH

pytestmark = pytest.mark.anyio

FIRST_MS, GAP_MS, TOKENS, REQUESTS = 100.0, 10.0, 32, 4
LAST_MS = FIRST_MS + (TOKENS - 1) * GAP_MS

# A client that is misled is off by factors; a machine that is busy, by milliseconds.
FIRST_SLACK_MS, GAP_SLACK_MS = 250.0, 5.0


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@dataclass(frozen=True)
class Measured:
    """A row, its times, and what the server says of it."""

    row: dict[str, object]
    times: RequestTimes
    sent: dict[str, object]


async def measure(tmp_path: Path, name: str) -> list[Measured]:
    async with await start_server(STREAMS.get(name, TRUTH)) as server:
        url = f"{server.url}/v1/chat/completions"
        driven = await drive(
            tmp_path, url, bodies=[chat_body(n) for n in range(REQUESTS)], kind="offline", in_flight=REQUESTS
        )
        sent: dict[str, SendRecord] = {record.body_sha256: record for record in server.records}
    assert driven.end.outcome == "complete"
    return [
        Measured(row=row, times=times_of_record(row), sent=sent[str(row["request_sha256"])].to_json())
        for row in driven.rows
    ]


def assert_true(measured: Measured) -> None:
    """The times are the truth, and every event is one that was sent, not before it was sent."""
    row, times = measured.row, measured.times
    assert (row["status"], row["completion_tokens"], row["token_source"]) == ("ok", TOKENS, "usage")
    assert row["event_kind"] == measured.sent["event_kind"]
    if row["event_token_source"] == "usage":
        assert row["event_tokens"] == measured.sent["event_tokens"]
    assert all(came >= sent for came, sent in zip(row["event_ns"], measured.sent["event_ns"], strict=True))  # type: ignore[call-overload]
    assert times.ttft_user_ns is not None
    assert FIRST_MS <= times.ttft_user_ns / 1e6 <= FIRST_MS + FIRST_SLACK_MS
    assert times.latency_ns is not None
    assert times.latency_ns / 1e6 <= LAST_MS + FIRST_SLACK_MS
    assert times.tpot_ns is not None
    assert times.tpot_ns / 1e6 == pytest.approx(GAP_MS, abs=GAP_SLACK_MS)
    gaps = distribution_of(times.itl_ns)
    assert gaps.p50 == pytest.approx(GAP_MS, abs=GAP_SLACK_MS)
    assert sum(times.itl_ns) / 1e6 == pytest.approx((times.latency_ns - times.ttft_user_ns) / 1e6)


@pytest.mark.parametrize(
    "name",
    [
        "truth",
        "role_with_first",
        "role_at_headers",
        "late_tail",
        "empty_deltas",
        "comments",
        "crlf",
        "finish_with_last",
    ],
)
async def test_what_is_no_token_never_counts(tmp_path: Path, name: str) -> None:
    for measured in await measure(tmp_path, name):
        assert_true(measured)
        assert len(measured.times.itl_ns) <= TOKENS - 1


async def test_a_late_end_of_the_stream_is_a_column_of_its_own(tmp_path: Path) -> None:
    for measured in await measure(tmp_path, "late_tail"):
        row = measured.row
        assert row["event_ns"][-2] == row["last_event_ns"]  # type: ignore[index]
        assert row["stream_end_ns"] - row["scheduled_ns"] >= (LAST_MS + 300) * 1e6  # type: ignore[operator]


async def test_reasoning_counts_as_tokens_and_apart_from_content(tmp_path: Path) -> None:
    for measured in await measure(tmp_path, "half_reasoning"):
        assert_true(measured)
        times = measured.times
        assert times.first_reasoning_ns == times.ttft_user_ns
        assert times.first_content_ns is not None
        assert times.first_content_ns / 1e6 >= FIRST_MS + 16 * GAP_MS
        assert len(str(measured.row["reasoning"]).split()) == len(str(measured.row["text"]).split()) == 16


async def test_reasoning_by_its_other_name_and_tool_calls_count_too(tmp_path: Path) -> None:
    for measured in await measure(tmp_path / "reasoning", "renamed_reasoning"):
        assert_true(measured)
        assert measured.times.first_reasoning_ns == measured.times.ttft_user_ns
    for measured in await measure(tmp_path / "tool", "tool_call"):
        assert_true(measured)
        assert measured.row["event_kind"] == ["content"] * 16 + ["tool"] * 16 + ["usage"]


async def test_an_event_in_two_parts_is_there_with_its_last_byte(tmp_path: Path) -> None:
    for measured in await measure(tmp_path, "split_character"):
        assert_true(measured)
        assert measured.row["text"] == measured.sent["text"]


async def test_running_counts_tell_the_tokens_of_each_event(tmp_path: Path) -> None:
    for measured in await measure(tmp_path, "running_usage"):
        assert_true(measured)
        assert (measured.row["event_tokens"], measured.row["event_token_source"]) == ([4] * 8 + [0], "usage")


async def test_four_tokens_of_an_event_share_its_gap(tmp_path: Path) -> None:
    for measured in await measure(tmp_path, "four_tokens_per_event"):
        assert_true(measured)
        tokens = measured.row["event_tokens"]
        assert isinstance(tokens, list)
        assert sum(tokens) == TOKENS
        assert len(measured.times.itl_ns) == TOKENS - tokens[0]
        assert measured.row["event_token_source"] == "estimated"


async def test_four_events_of_a_read_are_one_burst(tmp_path: Path) -> None:
    for measured in await measure(tmp_path, "four_events_per_write"):
        assert_true(measured)
        assert min(measured.times.itl_ns) > 0


async def test_a_refusal_is_a_row_without_times(tmp_path: Path) -> None:
    measured = await measure(tmp_path, "every_fourth_fails")
    refused = [one for one in measured if one.row["http_status"] == 503]
    assert len(refused) == 1
    assert refused[0].row["error"] == "http_503: A simulated failure."
    assert refused[0].times.ttft_user_ns is None
    for one in measured:
        if one is not refused[0]:
            assert_true(one)
