"""Instants become times, times become distributions."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vlmhyperbench.analysis.performance import (
    RequestTimes,
    distribution_of,
    meets,
    nearest_rank,
    slo_percent,
    times_of,
    times_of_record,
)
from vlmhyperbench_sdk.errors import InvalidInput

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
    found = times((100, 1), (110, 1), sent_ms=4)
    assert (found.queue_ns, found.ttft_user_ns, found.ttft_service_ns) == (4 * MS, 100 * MS, 96 * MS)
    assert found.latency_ns == 110 * MS


def test_role_and_usage_never_count() -> None:
    found = times((2, 0, "role"), (100, 1), (110, 1), (400, 0, "usage"))
    assert (found.ttft_user_ns, found.latency_ns, found.tpot_ns) == (100 * MS, 110 * MS, 10 * MS)


def test_content_and_reasoning_begin_apart() -> None:
    found = times((100, 1, "reasoning"), (110, 1, "content"), (120, 1, "content"))
    assert (found.first_reasoning_ns, found.first_content_ns) == (100 * MS, 110 * MS)
    assert found.ttft_user_ns == 100 * MS


def test_a_gap_is_shared_by_the_tokens_of_the_event_after_it() -> None:
    assert in_ms(times((100, 4), (140, 4)).itl_ns) == [10.0] * 4


def test_events_of_one_read_are_one_burst() -> None:
    found = times((100, 1), (100, 1), (120, 1), (120, 1))
    assert in_ms(found.itl_ns) == [10.0, 10.0]
    assert found.tpot_ns == 10 * MS


def test_a_burst_without_tokens_passes_its_gap_on() -> None:
    assert in_ms(times((100, 1), (110, 0), (130, 2)).itl_ns) == [15.0, 15.0]


def test_the_tokens_after_the_first_burst_share_the_time_up_to_the_last() -> None:
    assert times((100, 2), (110, 2), (130, 4)).tpot_ns == 5 * MS


@pytest.mark.parametrize(
    "found",
    [
        times((100, 5)),
        times((100, 3), (100, 2)),
        times((100, 0), (110, 0)),
        times((100, 2), (110, 0)),
    ],
)
def test_without_a_following_token_there_is_no_tpot(found: RequestTimes) -> None:
    assert found.tpot_ns is None


def test_without_an_event_there_is_nothing_but_the_queue() -> None:
    found = times()
    assert (found.queue_ns, found.ttft_user_ns, found.ttft_service_ns, found.latency_ns) == (MS, None, None, None)
    assert found.itl_ns == ()


def test_a_request_that_was_never_sent_has_no_queue() -> None:
    assert times(sent_ms=None).queue_ns is None
    assert times((5, 1), sent_ms=None).ttft_service_ns is None


def test_a_percentile_is_a_value_that_was_measured() -> None:
    assert nearest_rank([10, 20, 30, 40], 50) == 20
    assert nearest_rank([10, 20, 30, 40], 51) == 30
    assert nearest_rank([10, 20, 30, 40], 0) == 10
    assert nearest_rank([10, 20, 30, 40], 100) == 40
    assert nearest_rank(range(1, 101), 7) == 7
    assert nearest_rank(range(1, 1001), 99.9) == 999
    assert nearest_rank([], 50) is None


@given(st.lists(st.integers(0, 1000), min_size=1), st.integers(1, 100))
def test_at_least_so_many_percent_do_not_exceed_it(values: list[int], percent: int) -> None:
    ordered = sorted(values)
    found = nearest_rank(ordered, percent)
    assert found in ordered
    assert sum(value <= found for value in ordered) * 100 >= percent * len(ordered)
    assert sum(value < found for value in ordered) * 100 < percent * len(ordered)


def test_a_distribution_leaves_out_what_is_undefined() -> None:
    found = distribution_of([3 * MS, None, 1 * MS, 2 * MS])
    assert (found.n, found.mean, found.p50, found.p90, found.max) == (3, 2.0, 2.0, 3.0, 3.0)


def test_nothing_has_no_distribution() -> None:
    found = distribution_of([None])
    assert (found.n, found.mean, found.p50, found.p99, found.max) == (0, None, None, None, None)


@pytest.mark.parametrize(
    ("slo", "is_met"),
    [
        ({"ttft_p99": 100}, True),
        ({"ttft": 99.9}, False),
        ({"latency_p50": 140}, True),
        ({"latency": 139}, False),
        ({"tpot": 20}, True),
        ({"tpot_p90": 19}, False),
        ({"itl": 30}, True),
        ({"itl_p99": 29}, False),
    ],
)
def test_each_limit_bounds_its_time(slo: dict[str, float], is_met: bool) -> None:
    assert meets(times((100, 1), (110, 1), (140, 1)), slo) is is_met


def test_one_burst_keeps_limits_on_gaps_and_no_token_keeps_none() -> None:
    assert meets(times((100, 3)), {"tpot": 1, "itl": 1})
    assert meets(times((100, 0)), {"tpot": 1, "itl": 1})
    assert not any(meets(times((100, 0), (9000, 0)), {name: 10_000}) for name in ("tpot", "itl"))
    for name in ("ttft", "latency", "tpot", "itl"):
        assert not meets(times(), {name: math.inf})


@pytest.mark.parametrize("name", ["speed", "ttft_mean", "ttft_p", "ttft_pX", ""])
def test_an_unknown_limit_is_refused(name: str) -> None:
    with pytest.raises(InvalidInput, match="not measured"):
        meets(times(), {name: 1.0})


def test_a_limit_without_a_percentile_is_on_p99() -> None:
    assert (slo_percent("ttft"), slo_percent("ttft_p90"), slo_percent("latency_p5")) == (99, 90, 5)


@pytest.mark.parametrize("name", ["ttft_p0", "ttft_p100", "ttft_p999", "speed_p99", "ttft_mean"])
def test_a_strange_percentile_is_refused(name: str) -> None:
    with pytest.raises(InvalidInput):
        slo_percent(name)


def test_a_row_of_a_record_has_the_times_of_its_columns() -> None:
    row = {
        "scheduled_ns": 0,
        "sent_ns": MS,
        "event_ns": [100 * MS, 110 * MS],
        "event_kind": [CONTENT, CONTENT],
        "event_tokens": [1, 1],
    }
    assert times_of_record(row) == times((100, 1), (110, 1))
