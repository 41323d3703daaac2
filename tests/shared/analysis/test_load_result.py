"""The result of a load record, and when it is not valid."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.shared.analysis.records import END, MS, S, frame, row
from vlmhyperbench.analysis.load_design import OpenLoop
from vlmhyperbench.analysis.load_result import LoadResult, result_of
from vlmhyperbench.analysis.request_times import RequestTimes, times_of_record
from vlmhyperbench.analysis.results import Distribution
from vlmhyperbench.analysis.times import times_of_frame
from vlmhyperbench.analysis.validity import at_least, at_most, check_sends
from vlmhyperbench.domain.arrivals import Arrivals, draw_arrivals
from vlmhyperbench_sdk.errors import InvalidInput
from vlmhyperbench_sdk.load import EndLine


def result(rows: list[dict[str, object]], end: EndLine = END, *, scheduled: int | None = None) -> LoadResult:
    return result_of(frame(rows), end, measured_phase=1, scheduled=len(rows) if scheduled is None else scheduled)


def gates(rows: list[dict[str, object]], end: EndLine = END, *, scheduled: int | None = None) -> dict[str, bool]:
    load = result(rows, end, scheduled=scheduled)
    assert load.valid is all(gate.ok for gate in load.gates)
    return {gate.name: gate.ok for gate in load.gates}


def test_a_good_record_is_valid() -> None:
    load = result_of(frame([row(), row(ttft_ms=200), row(phase=0)]), END, measured_phase=1, scheduled=2)
    assert load.valid
    latency = load.metrics["latency_ms"]
    assert isinstance(latency, Distribution)
    assert (latency.n, latency.p50, latency.max) == (2, 110.0, 210.0)
    assert (load.metrics["requests_per_s"], load.metrics["output_tokens_per_s"]) == (2.0, 4.0)
    assert load.tokens == {"prompt": 14, "completion": 4, "source": "usage", "events_estimated": 0}
    assert [(phase.no, phase.requests, phase.ok) for phase in load.phases] == [(0, 1, 1), (1, 2, 2)]
    assert load.arrivals is None


def test_one_failed_gate_makes_the_result_invalid() -> None:
    assert not gates([row(), row(error="http_503: busy")])["error_share"]
    assert gates([row(error="http_503: busy"), *[row()] * 999])["error_share"]
    assert not gates([row()], scheduled=2)["unaccounted"]
    assert not gates([row()], dataclasses.replace(END, loop_busy_share=0.9))["client_busy_share"]
    assert not gates([late(1.2)])["send_lag_mean_ms"]
    assert not gates([row(error="timeout: c")])["send_lag_mean_ms"]
    assert not gates([late(6, ttft_ms=100), *(row() for _ in range(9))])["ttft_p99_shift_ms"]


def test_an_added_gate_must_hold_too() -> None:
    valid, invalid = result([row()]), result([row()], scheduled=2)
    assert valid.with_gates(at_most("disturbers", 0.0, 0.0)).valid
    assert not valid.with_gates(at_least("duration_s", 1.0, 2.0)).valid
    assert not invalid.with_gates(at_most("disturbers", 0.0, 0.0)).valid
    assert valid.with_gates(at_most("disturbers", None, 0.0)).gates[-1].name == "disturbers"


def late(lag_ms: float, *, ttft_ms: int = 100) -> dict[str, object]:
    """Make a request that was sent late, with events that are late by the same time."""
    lag_ns = round(lag_ms * MS)
    first_ns = ttft_ms * MS + lag_ns
    return row() | {"sent_ns": lag_ns, "event_ns": [first_ns, first_ns + 10 * MS]}


def test_the_allowed_lag_grows_with_the_latency() -> None:
    assert gates([late(1.1)]) == dict.fromkeys(
        ("unaccounted", "error_share", "client_busy_share", "send_lag_mean_ms", "ttft_p99_shift_ms"), True
    )
    assert gates([late(5, ttft_ms=500)])["send_lag_mean_ms"]
    assert gates([late(0.1, ttft_ms=1)])["send_lag_mean_ms"]
    assert not gates([late(0.2, ttft_ms=1)])["send_lag_mean_ms"]


def test_an_open_loop_is_checked_by_its_latest_sends() -> None:
    # Median TTFTs are the service's and the lag together.
    lagging = [(1, 1.1, False), (100, 0.9, True), (500, 4.9, True), (500, 5.1, False)]
    for ttft_ms, lag_ms, is_open in lagging:
        load = result_of(
            frame([late(lag_ms, ttft_ms=ttft_ms)]),
            END,
            measured_phase=1,
            scheduled=1,
            open_loop=OpenLoop(process="constant", scheduled_ns=np.zeros(1, dtype=np.int64)),
        )
        assert {gate.name: gate.ok for gate in load.gates}["send_lag_p99_ms"] is is_open


def test_a_cancelled_load_is_marked_and_never_valid() -> None:
    load = result([row()], dataclasses.replace(END, outcome="cancelled"), scheduled=5)
    assert (load.outcome, load.valid, load.requests["ok"]) == ("cancelled", False, 1)


def test_errors_are_counted_by_code() -> None:
    load = result([row(error="http_503: a"), row(error="http_503: b"), row(error="timeout: c")])
    assert load.errors == {"http_503": 2, "timeout": 1}
    assert load.tokens == {"prompt": None, "completion": None, "source": None, "events_estimated": 0}
    assert load.metrics["output_tokens_per_s"] == 0.0


def test_an_unknown_count_has_no_sum() -> None:
    load = result([row(), row(tokens=None)])
    assert load.tokens["completion"] is None
    assert load.metrics["output_tokens_per_s"] is None


def test_without_measured_requests_there_are_no_rates() -> None:
    load = result([], scheduled=3)
    assert (load.duration_s, load.metrics["requests_per_s"], load.valid) == (0.0, None, False)


def test_only_gaps_of_answers_are_estimated() -> None:
    guessed = row() | {"event_token_source": "estimated"}
    one_burst = guessed | {"event_ns": [MS], "event_kind": ["content"], "event_tokens": [2]}
    failed = guessed | {"status": "error", "error": "connection_lost: x"}
    unknown = row() | {"event_token_source": None}
    load = result([row(), guessed, guessed, one_burst, failed, unknown])
    assert load.tokens["events_estimated"] == 2


def test_the_clients_cost_is_that_of_the_end_line() -> None:
    end = dataclasses.replace(
        END, measuring_cpu_s=0.5, measuring_peak_rss_bytes=7, is_realtime=True, resent=3, reopened=4, idle_opened=2
    )
    client = result([row()], end).client
    assert (client["cpu_s"], client["measuring_cpu_s"]) == (1.5, 0.5)
    assert (client["peak_rss_bytes"], client["measuring_peak_rss_bytes"]) == (10, 7)
    assert client["is_realtime"] is True
    assert (client["resent"], client["reopened"], client["opened_beyond_pool"]) == (3, 4, 2)


def test_content_and_reasoning_have_times_of_their_own_where_there_is_reasoning() -> None:
    thinks = row() | {"event_kind": ["reasoning", "content"]}
    load = result([thinks, row(ttft_ms=200)])
    reasoning, content = load.metrics["first_reasoning_ms"], load.metrics["first_content_ms"]
    assert isinstance(reasoning, Distribution)
    assert isinstance(content, Distribution)
    assert (reasoning.n, reasoning.p50) == (1, 100.0)
    assert (content.n, content.p50, content.max) == (2, 110.0, 200.0)
    assert "first_content_ms" not in result([row()]).metrics


def test_goodput_counts_requests_that_meet_every_limit() -> None:
    record = frame([row(), row(ttft_ms=200), row(error="http_503: busy")])
    some = result_of(record, END, measured_phase=1, scheduled=3, slo={"ttft_p99": 150.0, "itl": 10.0})
    none = result_of(record, END, measured_phase=1, scheduled=3, slo={"ttft": 250.0, "tpot": 9.9})
    assert (some.metrics["goodput_per_s"], none.metrics["goodput_per_s"]) == (1.0, 0.0)
    with pytest.raises(InvalidInput):
        result_of(record, END, measured_phase=1, scheduled=3, slo={"speed": 1.0})


def _open_loop(sent_late_ns: np.ndarray, *, process: str = "poisson") -> LoadResult:
    scheduled = draw_arrivals(Arrivals(process=process, rate_per_s=40.0), count=600, seed=3)
    rows = [row(at_ns=int(at)) | {"sent_ns": int(at + late)} for at, late in zip(scheduled, sent_late_ns, strict=True)]
    return result_of(
        frame(rows),
        END,
        measured_phase=1,
        scheduled=600,
        open_loop=OpenLoop(process=process, scheduled_ns=scheduled),
    )


@pytest.mark.parametrize("process", ["poisson", "constant", "gamma"])
def test_sends_that_keep_to_their_schedule_pass(process: str) -> None:
    load = _open_loop(np.full(600, MS // 10), process=process)
    assert load.valid
    assert load.arrivals is not None
    assert load.arrivals.achieved is not None
    assert load.arrivals.achieved.rate_per_s == pytest.approx(40.0, rel=0.1)
    assert ("sends_like_process_p" in {gate.name for gate in load.gates}) is (process != "constant")


def test_sends_that_go_out_in_clumps_are_invalid() -> None:
    scheduled = draw_arrivals(Arrivals(process="poisson", rate_per_s=40.0), count=600, seed=3)
    # A client that wakes up every half a second sends all that was due by then.
    load = _open_loop(-scheduled % (S // 2))
    shut = {gate.name for gate in load.gates if not gate.ok}
    assert shut == {"send_lag_p99_ms", "dispersion_error", "sends_like_process_p"}


def test_sends_that_fall_behind_are_invalid() -> None:
    load = _open_loop(np.arange(600) * 2 * MS)
    assert "rate_error_share" in {gate.name for gate in load.gates if not gate.ok}


def meets(times: RequestTimes, slo: dict[str, float]) -> bool:
    """Return whether a request meets every limit; an unknown time meets it only in an answer of one burst."""
    bounded = {
        "ttft": times.ttft_user_ns,
        "latency": times.latency_ns,
        "tpot": times.tpot_ns,
        "itl": max(times.itl_ns, default=None),
    }
    is_one_burst = times.latency_ns is not None and times.ttft_user_ns == times.latency_ns
    return all(
        is_one_burst if (value := bounded[name]) is None else value <= limit_ms * MS for name, limit_ms in slo.items()
    )


EVENTS = st.lists(
    st.tuples(st.integers(0, 3), st.sampled_from(["content", "reasoning", "tool", "role", "usage"]), st.integers(0, 3)),
    max_size=12,
)


@given(st.lists(st.tuples(EVENTS, st.none() | st.integers(0, 30), st.booleans()), max_size=6))
def test_many_requests_at_once_have_the_times_of_each_on_its_own(
    requests: list[tuple[list[tuple[int, str, int]], int | None, bool]],
) -> None:
    rows = []
    for events, completion, is_sent in requests:
        instants = np.cumsum([step for step, _, _ in events], dtype=int).tolist()
        rows.append(
            row()
            | {
                "scheduled_ns": 10**15,
                "sent_ns": 10**15 + 5 if is_sent else None,
                "event_ns": [10**15 + 7 * at for at in instants],
                "event_kind": [kind for _, kind, _ in events],
                "event_tokens": [tokens for _, _, tokens in events],
                "completion_tokens": completion,
            }
        )
    load = times_of_frame(frame(rows))
    for index, request in enumerate(rows):
        expected = times_of_record(request)
        for value, other in (
            (load.queue, expected.queue_ns),
            (load.ttft_user, expected.ttft_user_ns),
            (load.ttft_service, expected.ttft_service_ns),
            (load.first_content, expected.first_content_ns),
            (load.first_reasoning, expected.first_reasoning_ns),
            (load.latency, expected.latency_ns),
            (load.tpot, expected.tpot_ns),
            (load.longest_itl, max(expected.itl_ns, default=None)),
        ):
            assert value[index] == other or (other is None and math.isnan(value[index]))
        assert load.itl[load.itl_request == index].tolist() == list(expected.itl_ns)
    slo = {"ttft": 1e-5, "tpot": 5e-6, "itl": 8e-6, "latency": 2e-5}
    all_sent = [sent | {"status": "ok", "error": None} for sent in rows]
    counted = result_of(frame(all_sent), END, measured_phase=1, scheduled=len(rows), slo=slo)
    wanted = sum(meets(times_of_record(sent), slo) for sent in rows)
    goodput = counted.metrics["goodput_per_s"]
    assert counted.duration_s == 0.0 or goodput == wanted / counted.duration_s


def test_too_few_sends_are_not_compared_with_their_process() -> None:
    scheduled = draw_arrivals(Arrivals(process="poisson", rate_per_s=40.0), count=600, seed=3)
    load = check_sends("poisson", scheduled, scheduled[:20])
    assert {gate.name: gate.value for gate in load.gates}["sends_like_process_p"] is None
    assert not load.gates[-1].ok
