"""The times of one request, from the instants of its events."""

from __future__ import annotations

import pytest

from vlmhyperbench.analysis.request_times import RequestTimes, times_of, times_of_record

MS = 1_000_000
CONTENT = "content"


def times(
    *events: tuple[int, int] | tuple[int, int, str],
    sent_ms: int | None = 1,
) -> RequestTimes:
    """Times of a request scheduled at 0; events are (ms, tokens, kind)."""
    full = [(at, tokens, kind[0] if kind else CONTENT) for at, tokens, *kind in events]
    return times_of(
        scheduled_ns=0,
        sent_ns=None if sent_ms is None else sent_ms * MS,
        event_ns=[at * MS for at, _, _ in full],
        event_tokens=[tokens for _, tokens, _ in full],
        event_kind=[kind for _, _, kind in full],
    )


def in_ms(values: tuple[float, ...]) -> list[float]:
    return [value / MS for value in values]


def test_ttft_counts_from_the_schedule_for_the_user_and_from_sending_for_the_service() -> None:
    result = times((100, 1), (110, 1), sent_ms=4)
    assert (result.queue_ns, result.ttft_user_ns, result.ttft_service_ns) == (4 * MS, 100 * MS, 96 * MS)
    assert result.latency_ns == 110 * MS


def test_role_and_usage_never_count() -> None:
    result = times((2, 0, "role"), (100, 1), (110, 1), (400, 0, "usage"))
    assert (result.ttft_user_ns, result.latency_ns, result.tpot_ns) == (100 * MS, 110 * MS, 10 * MS)


def test_content_and_reasoning_begin_apart() -> None:
    result = times((100, 1, "reasoning"), (110, 1, "content"), (120, 1, "content"))
    assert (result.first_reasoning_ns, result.first_content_ns) == (100 * MS, 110 * MS)
    assert result.ttft_user_ns == 100 * MS


def test_a_gap_is_shared_by_the_tokens_of_the_event_after_it() -> None:
    assert in_ms(times((100, 4), (140, 4)).itl_ns) == [10.0] * 4


def test_events_of_one_read_are_one_burst() -> None:
    result = times((100, 1), (100, 1), (120, 1), (120, 1))
    assert in_ms(result.itl_ns) == [10.0, 10.0]
    assert result.tpot_ns == 10 * MS


def test_a_burst_without_tokens_passes_its_gap_on() -> None:
    assert in_ms(times((100, 1), (110, 0), (130, 2)).itl_ns) == [15.0, 15.0]


def test_the_tokens_after_the_first_burst_share_the_time_up_to_the_last() -> None:
    assert times((100, 2), (110, 2), (130, 4)).tpot_ns == 5 * MS


@pytest.mark.parametrize(
    "result",
    [
        times((100, 5)),
        times((100, 3), (100, 2)),
        times((100, 0), (110, 0)),
        times((100, 2), (110, 0)),
    ],
)
def test_without_a_following_token_there_is_no_tpot(result: RequestTimes) -> None:
    assert result.tpot_ns is None


def test_without_an_event_only_the_queue_time_is_defined() -> None:
    result = times()
    assert (result.queue_ns, result.ttft_user_ns, result.ttft_service_ns, result.latency_ns) == (MS, None, None, None)
    assert result.itl_ns == ()


def test_a_request_that_was_never_sent_has_no_queue() -> None:
    assert times(sent_ms=None).queue_ns is None
    assert times((5, 1), sent_ms=None).ttft_service_ns is None


def test_a_row_of_a_record_has_the_times_of_its_columns() -> None:
    row = {
        "scheduled_ns": 0,
        "sent_ns": MS,
        "event_ns": [100 * MS, 110 * MS],
        "event_kind": [CONTENT, CONTENT],
        "event_tokens": [1, 1],
    }
    assert times_of_record(row) == times((100, 1), (110, 1))
