"""Streams that mislead careless clients; in each the first token is at 100 ms, and 32 tokens have gaps of 10 ms."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import cast

import pytest

from tests.loadgen.driving import chat_body, drive
from vlmhyperbench.analysis.request_times import RequestTimes, times_of_record
from vlmhyperbench_sdk.load import TOKEN_EVENTS
from vlmhyperbench_simulated.record import SendRecord
from vlmhyperbench_simulated.server import start_server
from vlmhyperbench_simulated.streams import STREAMS, TRUTH

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("receiver")]

FIRST_MS, GAP_MS, TOKENS, REQUESTS = 100.0, 10.0, 32, 4
LAST_MS = FIRST_MS + (TOKENS - 1) * GAP_MS
MS = 1_000_000


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@dataclass(frozen=True)
class Measured:
    """A row, its times, and the server's record of the request."""

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
    assert (driven.end.outcome, driven.end.instants) == ("complete", "kernel")
    return [
        Measured(row=row, times=times_of_record(row), sent=sent[str(row["request_sha256"])].to_json())
        for row in driven.rows
    ]


def assert_true(measured: Measured) -> None:
    """Check the times against the server's record of the events with tokens.

    All events of a read have the instant at which the last of them arrived, and the server's next send is later. So
    the instant of each burst lies between two sends, even if client or server had to wait for the processor.
    """
    row, times = measured.row, measured.times
    assert (row["status"], row["completion_tokens"], row["token_source"]) == ("ok", TOKENS, "usage")
    assert row["event_kind"] == measured.sent["event_kind"]
    if row["event_token_source"] == "usage":
        assert row["event_tokens"] == measured.sent["event_tokens"]
    received, tokens = _lists(row, "event_ns", "event_tokens")
    sent, _ = _lists(measured.sent, "event_ns", "event_tokens")
    scheduled_ns, stream_end_ns = row["scheduled_ns"], row["stream_end_ns"]
    assert isinstance(scheduled_ns, int)
    assert isinstance(stream_end_ns, int)
    assert len(received) == len(sent)
    for index, next_ns in enumerate([*sent[1:], stream_end_ns]):
        is_last_of_burst = index + 1 == len(received) or received[index + 1] != received[index]
        assert received[index] >= sent[index]
        assert not is_last_of_burst or received[index] <= next_ns
    token_events = [index for index, kind in enumerate(measured.sent["event_kind"]) if kind in TOKEN_EVENTS]
    bursts: dict[int, int] = {}
    for index in token_events:
        bursts[received[index]] = bursts.get(received[index], 0) + tokens[index]
    (first_ns, first_tokens), *_ = bursts.items()
    last_ns = received[token_events[-1]]
    assert times.ttft_user_ns == first_ns - scheduled_ns >= FIRST_MS * MS
    # Four tokens that are sent together are sent at the instant of the first of them.
    assert times.latency_ns == last_ns - scheduled_ns >= (LAST_MS - 3 * GAP_MS) * MS
    assert times.tpot_ns == pytest.approx((last_ns - first_ns) / (TOKENS - first_tokens))
    gaps = [(now - before) / bursts[now] for before, now in pairwise(bursts) for _ in range(bursts[now])]
    assert list(times.itl_ns) == pytest.approx(gaps)


def _lists(row: dict[str, object], *names: str) -> tuple[list[int], ...]:
    return tuple(cast("list[int]", row[name]) for name in names)


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
async def test_events_without_tokens_do_not_count(tmp_path: Path, name: str) -> None:
    for measured in await measure(tmp_path, name):
        assert_true(measured)
        assert len(measured.times.itl_ns) <= TOKENS - 1


async def test_a_late_end_of_the_stream_is_recorded_separately_from_the_last_event(tmp_path: Path) -> None:
    for measured in await measure(tmp_path, "late_tail"):
        row = measured.row
        assert row["event_ns"][-2] == row["last_event_ns"]
        assert row["stream_end_ns"] - row["scheduled_ns"] >= (LAST_MS + 300) * 1e6


async def test_reasoning_counts_as_tokens_and_is_separate_from_content(tmp_path: Path) -> None:
    for measured in await measure(tmp_path, "half_reasoning"):
        assert_true(measured)
        times = measured.times
        assert times.first_reasoning_ns == times.ttft_user_ns
        assert times.first_content_ns is not None
        assert times.first_content_ns / 1e6 >= FIRST_MS + 16 * GAP_MS
        assert len(str(measured.row["reasoning"]).split()) == len(str(measured.row["text"]).split()) == 16


async def test_reasoning_under_its_other_name_and_tool_calls_count_as_tokens(tmp_path: Path) -> None:
    for measured in await measure(tmp_path / "reasoning", "renamed_reasoning"):
        assert_true(measured)
        assert measured.times.first_reasoning_ns == measured.times.ttft_user_ns
    for measured in await measure(tmp_path / "tool", "tool_call"):
        assert_true(measured)
        assert measured.row["event_kind"] == ["content"] * 16 + ["tool"] * 16 + ["usage"]


async def test_an_event_in_two_writes_has_the_instant_of_the_second(tmp_path: Path) -> None:
    for measured in await measure(tmp_path, "split_character"):
        assert_true(measured)
        assert measured.row["text"] == measured.sent["text"]


async def test_running_usage_counts_the_tokens_of_each_event(tmp_path: Path) -> None:
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


async def test_four_events_in_one_write_are_one_burst(tmp_path: Path) -> None:
    for measured in await measure(tmp_path, "four_events_per_write"):
        assert_true(measured)
        assert min(measured.times.itl_ns) > 0


async def test_a_refusal_is_a_row_without_times(tmp_path: Path) -> None:
    measured = await measure(tmp_path, "every_fourth_fails")
    [refused] = [request for request in measured if request.row["http_status"] == 503]
    assert "code=simulated_failure" in str(refused.row["error"])
    assert refused.times.ttft_user_ns is None
    for request in measured:
        if request is not refused:
            assert_true(request)
