"""Statistics of a phase: percentiles with failures, limits, steady rates and groups."""

from __future__ import annotations

import numpy as np
import pytest

from tests.shared.analysis.records import END, MS, S, frame, row
from vlmhyperbench.analysis.load_design import Grouping, OpenLoop
from vlmhyperbench.analysis.load_result import LoadResult, result_of

SILENT = row() | {"event_ns": [], "event_kind": [], "event_tokens": [], "last_event_ns": None}
"""An answer without a token."""
LOST = row(error="connect_failed: refused") | {"sent_ns": None, "stream_end_ns": None, "last_event_ns": None}


def described(
    rows: list[dict[str, object]],
    *,
    scheduled: int | None = None,
    slo: dict[str, float] | None = None,
    grouping: Grouping | None = None,
) -> LoadResult:
    return result_of(
        frame(rows),
        END,
        measured_phase=1,
        scheduled=len(rows) if scheduled is None else scheduled,
        slo=slo,
        grouping=grouping,
    )


def numbered(rows: list[dict[str, object]]) -> list[dict[str, object]]:
    return [row | {"ordinal": number} for number, row in enumerate(rows)]


def test_failures_move_the_percentiles_of_all_requests_only() -> None:
    rows = [row(ttft_ms=ms) for ms in range(1, 98)] + [row(error="http_503: busy")] * 3
    result = described(rows)
    p50, p90, p99 = result.statistics.percentiles["ttft_user_ms"]
    assert (p50.plain, p50.adjusted) == (49.0, 50.0)
    assert (p90.plain, p90.adjusted) == (88.0, 90.0)
    assert (p99.plain, p99.adjusted) == (97.0, None)


def test_a_request_without_a_row_has_failed() -> None:
    (limit,) = described([row()] * 9, scheduled=10, slo={"ttft_p90": 100.0}).statistics.limits
    assert (limit.n, limit.over, limit.is_kept) == (10, 1, True)


def test_an_answer_without_a_token_meets_no_limit() -> None:
    result = described([row()] * 7 + [SILENT] * 3, slo={"ttft_p90": 400.0, "tpot_p90": 400.0})
    assert [(limit.n, limit.over, limit.is_kept) for limit in result.statistics.limits] == [(10, 3, False)] * 2
    assert result.statistics.percentiles["latency_ms"][1].adjusted is None


@pytest.mark.parametrize("limit", ["tpot", "itl"])
def test_gaps_of_uncounted_tokens_meet_no_limit(limit: str) -> None:
    uncounted = row() | {"event_tokens": [0] * len(row()["event_tokens"])}
    result = described([row()] * 3 + [uncounted], slo={limit: 400.0}).statistics
    assert result.goodput is not None
    assert (result.goodput.met, result.goodput.scheduled) == (3, 4)
    assert [(limit.n, limit.over) for limit in result.limits] == [(4, 1)]


def test_an_answer_without_a_token_is_no_throughput() -> None:
    grouping = Grouping(streams=1, is_by_stream=True)
    rows = [row(at_ns=second * S) for second in range(5)]
    late = SILENT | {"scheduled_ns": 5 * S, "sent_ns": 5 * S, "stream_end_ns": 6 * S}
    result = described([*rows, *[late] * 5], grouping=grouping)
    assert (result.requests["ok"], result.requests["ok_without_token"]) == (10, 5)
    # Five answers of two tokens in the 6 s to the last end.
    assert result.metrics["requests_per_s"] == pytest.approx(5 / 6)
    assert result.metrics["output_tokens_per_s"] == pytest.approx(10 / 6)
    steady = result.statistics.steady
    assert steady is not None
    assert steady.requests_per_s is not None
    assert steady.output_tokens_per_s is not None
    # From 1 s to 6 s: four of them ended there, and the tokens of four came.
    assert (steady.requests_per_s.per_s, steady.output_tokens_per_s.per_s) == (pytest.approx(0.8), pytest.approx(1.6))
    assert result.tokens["completion"] == 20
    uncounted = described([*rows, SILENT | {"completion_tokens": None}])
    assert uncounted.metrics["output_tokens_per_s"] == pytest.approx(10 / 5)


def test_a_request_that_could_not_be_sent_counts_until_its_scheduled_instant() -> None:
    late = [LOST | {"scheduled_ns": second * S} for second in (50, 90)]
    result = described(numbered([*(row(at_ns=second * S) for second in range(10)), *late]))
    assert (result.duration_s, result.metrics["requests_per_s"]) == (90.0, pytest.approx(10 / 90))


def test_a_stream_without_an_answer_counts_as_a_stream() -> None:
    rows = [row() | {"stream": stream} for stream in range(7)] + [LOST | {"stream": 7}]
    result = described(numbered(rows), grouping=Grouping(streams=8, is_by_stream=True)).statistics
    assert result.fairness is not None
    # Seven equal shares of eight: 7² / (8·7).
    assert (result.fairness.streams, result.fairness.requests) == (8, 0.875)


def test_streams_are_steady_until_the_first_of_them_has_ended() -> None:
    # Two streams of ten requests each, of 1 s and of 4 s.
    rows = [
        row(at_ns=number * seconds * S) | {"stream": stream, "stream_end_ns": (number + 1) * seconds * S}
        for stream, seconds in enumerate((1, 4))
        for number in range(10)
    ]
    steady = described(numbered(rows), grouping=Grouping(streams=2, is_by_stream=True)).statistics.steady
    assert steady is not None
    assert (steady.start_s, steady.end_s) == (4.0, 10.0)
    assert steady.requests_per_s is not None
    # Six of the fast one and one of the slow one, in 6 s.
    assert steady.requests_per_s.per_s == pytest.approx(7 / 6)


def test_counts_do_not_wrap() -> None:
    result = described([row() | {"prompt_tokens": 1_500_000_000, "completion_tokens": 2_000_000_000}] * 3)
    assert (result.tokens["prompt"], result.tokens["completion"]) == (4_500_000_000, 6_000_000_000)


def test_the_steady_rate_leaves_start_and_drain_out() -> None:
    # One stream, a request of a second each: sent at 0, 1, … 4; the first and the last end are 1 s and 5 s.
    result = described([row(at_ns=second * S) for second in range(5)], grouping=Grouping(streams=1))
    steady = result.statistics.steady
    assert steady is not None
    assert (steady.start_s, steady.end_s, steady.cut_requests) == (1.0, 5.0, 1)
    assert steady.requests_per_s is not None
    assert steady.output_tokens_per_s is not None
    # Ends at 2, 3, 4 and 5 s. Tokens arrive 100 and 110 ms after each send: those of 1, 2, 3 and 4 s lie inside.
    assert (steady.requests_per_s.per_s, steady.output_tokens_per_s.per_s) == (1.0, 2.0)
    assert result.metrics["requests_per_s"] == 1.0


def test_tokens_count_as_the_server_says_even_where_events_hold_fewer() -> None:
    # Two tokens in the events, four by usage: each event counts twice.
    result = described([row(at_ns=second * S, tokens=4) for second in range(5)], grouping=Grouping(streams=1))
    steady = result.statistics.steady
    assert steady is not None
    assert steady.output_tokens_per_s is not None
    assert steady.output_tokens_per_s.per_s == 4.0


def test_an_answer_whose_events_say_nothing_counts_at_its_last_event() -> None:
    silent = {"event_tokens": [0, 0]}
    result = described([row(at_ns=second * S) | silent for second in range(5)], grouping=Grouping(streams=1))
    steady = result.statistics.steady
    assert steady is not None
    assert steady.output_tokens_per_s is not None
    assert steady.output_tokens_per_s.per_s == 2.0


def test_without_a_steady_window_there_are_no_steady_rates() -> None:
    steady = described([row(), row()], grouping=Grouping(streams=2)).statistics.steady
    assert steady is not None
    assert (steady.start_s, steady.requests_per_s, steady.cut_requests) == (None, None, 2)
    unknown = described([row(at_ns=at * S, tokens=None) for at in range(5)], grouping=Grouping(streams=1))
    assert unknown.statistics.steady is not None
    assert unknown.statistics.steady.output_tokens_per_s is None
    assert described([row()]).statistics.steady is None


def test_streams_turns_and_sizes_are_groups() -> None:
    rows = numbered(
        [
            row(ttft_ms=10) | {"stream": 0, "turn": 0},
            row(ttft_ms=20) | {"stream": 1, "turn": 0},
            row(ttft_ms=30) | {"stream": 0, "turn": 1},
            row(error="timeout: slow") | {"stream": 1, "turn": 1},
        ]
    )
    # Later turns show nothing new, whatever the first one showed.
    pixels = [100 * 100, 1000 * 1000, 100 * 100, 1000 * 1000]
    result = described(rows, grouping=Grouping(streams=2, is_by_stream=True, pixels=pixels)).statistics
    assert [(group.name, group.requests, group.ok, group.ttft_user_ms.max) for group in result.streams] == [
        ("0", 2, 2, 30.0),
        ("1", 2, 1, 20.0),
    ]
    assert [(group.name, group.ttft_user_ms.p50) for group in result.turns] == [("0", 10.0), ("1", 30.0)]
    assert [(group.name, group.ok) for group in result.image_sizes] == [("up to 0.1 MP", 1), ("up to 1 MP", 1)]
    assert result.fairness is not None
    # 2 and 1 requests a second: (2+1)² / (2·5).
    assert result.fairness.requests == pytest.approx(0.9)


def test_requests_of_one_kind_are_not_grouped() -> None:
    result = described([row(), row()]).statistics
    assert (result.streams, result.turns, result.image_sizes, result.fairness) == ((), (), (), None)
    assert (result.goodput, result.limits) == (None, ())


def test_a_request_that_was_never_sent_fails_and_stops_nothing() -> None:
    rows = numbered([row(at_ns=MS), row(at_ns=S), LOST, row(at_ns=2 * S)])
    result = described(rows, slo={"latency": 500.0}, grouping=Grouping(streams=1, is_by_stream=True))
    assert result.statistics.goodput is not None
    assert (result.statistics.goodput.met, result.statistics.goodput.scheduled) == (3, 4)
    assert result.statistics.steady is not None
    assert result.statistics.steady.start_s == pytest.approx(1.001)


def test_a_query_lasts_as_long_as_its_longest_sample_and_fails_with_any() -> None:
    # Queries of two samples each, in order of ordinals: (10, 30) ms, (20, failed), (40, no row).
    rows = numbered([row(ttft_ms=10), row(ttft_ms=30), row(ttft_ms=20), row(error="timeout: x"), row(ttft_ms=40)])
    result = described(rows, scheduled=6, grouping=Grouping(samples_per_query=2)).statistics
    p50, p90, _ = result.percentiles["query_latency_ms"]
    assert (p50.n, p50.failed, p50.plain, p90.adjusted) == (3, 2, 40.0, None)


def test_the_streams_are_compared_with_the_baseline_before_them() -> None:
    baseline = [row(phase=0, ttft_ms=10) for _ in range(20)]
    result = described([*baseline, *(row(ttft_ms=20) for _ in range(20))], grouping=Grouping(baseline_phase=0))
    assert result.interference is not None
    assert result.interference.baseline_requests == 20
    assert (result.interference.ttft.value, result.interference.tpot.value) == (2.0, 1.0)


def test_an_open_loop_is_steady_until_its_last_arrival() -> None:
    scheduled = np.arange(5, dtype=np.int64) * S
    result = result_of(
        frame(numbered([row(at_ns=int(at)) for at in scheduled])),
        END,
        measured_phase=1,
        scheduled=5,
        open_loop=OpenLoop(process="constant", scheduled_ns=scheduled),
        grouping=Grouping(streams=1),
    )
    steady = result.statistics.steady
    assert steady is not None
    assert (steady.start_s, steady.end_s) == (1.0, 4.0)


def test_without_a_sent_request_there_is_no_steady_window() -> None:
    steady = described([LOST, LOST], grouping=Grouping(streams=1)).statistics.steady
    assert steady is not None
    assert (steady.start_s, steady.cut_requests) == (None, 0)
