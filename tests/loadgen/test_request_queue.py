"""Which request a stream takes next, and which requests are retried and when."""

from __future__ import annotations

from dataclasses import replace
from email.utils import formatdate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vlmhyperbench_loadgen.answers import ParsedAnswer
from vlmhyperbench_loadgen.connection import Response
from vlmhyperbench_loadgen.eventloop import coalescing_ns
from vlmhyperbench_loadgen.request_queue import MAX_RETRY_AFTER_S, RequestQueue
from vlmhyperbench_loadgen.table import Request
from vlmhyperbench_loadgen.tries import Try, read_try
from vlmhyperbench_sdk.stamps import Reading, read_clocks

S = 1_000_000_000


def request(ordinal: int, *, stream: int = -1) -> Request:
    return Request(1, ordinal, ordinal, 0, 0, 0, stream, 0, 0, 0, -1, -1, b"")


def ended(
    ordinal: int = 0, *, number: int = 1, failure: str | None = None, status: int = 200, headers: str = ""
) -> Try:
    done = Try(request=request(ordinal), number=number, scheduled_ns=0, stream=0, end_ns=10 * S, failure=failure)
    if failure is None:
        body = '{"choices": [{"message": {"content": "ok"}, "finish_reason": "stop"}]}'
        done.response = Response()
        done.response.add(f"HTTP/1.1 {status} X\r\nContent-Length: {len(body)}\r\n{headers}\r\n{body}".encode(), 0)
    return done


def due(request: Request, *, stream: int, number: int = 1, at_ns: int = 0) -> Try:
    return Try(request=request, number=number, scheduled_ns=at_ns, stream=stream)


class Reported(list[tuple[int, str | None]]):
    """(ordinal, error) of each reported request."""

    def __call__(self, done: Try, answer: ParsedAnswer) -> None:
        self.append((done.request.ordinal, answer.error))


def queue_of(*requests: Request, tries: int = 1, reported: Reported | None = None) -> RequestQueue:
    return RequestQueue(requests, tries=tries, seed="3", report=Reported() if reported is None else reported)


def read_late(after: Try | None = None, *, late_ns: int, failure: str | None = None) -> Try:
    """Make a try whose answer arrived `late_ns` before the process read it, which is now."""
    now = read_clocks()
    read_ns = now.monotonic_ns
    arrived_ns = read_ns - late_ns
    began = Reading(arrived_ns - 1000, now.offset_ns)
    done = ended()
    response, data = Response(began), bytes(done.response.received)
    response.add(data, read_ns, arrived_ns + began.offset_ns)
    done.response, done.end_ns, done.failure = response, read_ns, failure
    done.after, done.scheduled_ns = after, after.end_ns if after is not None else 0
    return done


def test_a_request_is_due_when_the_kernel_received_the_previous_answer() -> None:
    before = read_late(late_ns=5_000_000)
    read_ns = before.end_ns
    following = read_late(before, late_ns=0)
    read_try(following)
    assert before.end_ns == pytest.approx(read_ns - 5_000_000, abs=200_000)
    assert (following.scheduled_ns, following.after) == (before.end_ns, None)
    read_try(before)
    read_try(following)
    assert following.scheduled_ns == before.end_ns


def test_an_answer_that_ends_with_its_connection_ends_when_the_process_noticed_that() -> None:
    before = read_late(late_ns=5_000_000)
    assert before.response.head is not None
    before.response.head = replace(before.response.head, framing="close")
    noticed_ns = before.end_ns
    read_try(before)
    assert before.end_ns == noticed_ns


def test_a_failed_request_ends_when_it_was_given_up() -> None:
    before = read_late(late_ns=5_000_000, failure="timeout: no end")
    given_up_ns = before.end_ns
    following = read_late(before, late_ns=0)
    read_try(following)
    assert (before.end_ns, following.scheduled_ns) == (given_up_ns, given_up_ns)


@pytest.mark.parametrize(
    ("reads", "sent", "streams", "sleep_us"),
    [
        pytest.param(64, 0, 64, 700, id="long-answers"),
        pytest.param(128, 0, 64, 500, id="a-tenth-of-the-gap"),
        pytest.param(24, 0, 64, 0, id="few-reads"),
        pytest.param(64, 12, 64, 266, id="a-two-hundredth-of-answers-of-53-ms"),
        pytest.param(64, 33, 64, 0, id="short-answers-would-wait"),
        pytest.param(64, 0, 6, 0, id="short-gaps-of-each-stream"),
    ],
)
def test_reads_are_coalesced_only_where_the_sleep_is_short_against_answers_and_gaps(
    reads: int, sent: int, streams: int, sleep_us: int
) -> None:
    assert coalescing_ns(reads, sent, streams=streams, span_ns=10_000_000) // 1000 == sleep_us


def test_free_streams_take_requests_in_order() -> None:
    queue = queue_of(request(0), request(1))
    assert queue.take(5, 0) == due(request(0), stream=5)
    assert queue.take(2, 0) == due(request(1), stream=2)
    assert queue.take(2, 0) is None


def test_a_request_with_a_stream_waits_for_it() -> None:
    queue = queue_of(request(0, stream=1), request(1), request(2, stream=1))
    assert queue.take(0, 0) == due(request(1), stream=0)
    assert queue.take(0, 0) is None
    assert queue.take(1, 0) == due(request(0, stream=1), stream=1)
    assert queue.take(1, 0) == due(request(2, stream=1), stream=1)


def test_a_transient_failure_is_retried_after_a_delay() -> None:
    reported = Reported()
    queue = queue_of(request(0), tries=2, reported=reported)
    queue.take(0, 0)
    due_ns = queue.finish(ended(failure="connection_lost: gone"))
    assert due_ns is not None
    assert 10 * S <= due_ns <= 10.5 * S
    assert queue.take(0, 0) == due_ns
    assert queue.take(0, due_ns) == due(request(0), stream=0, number=2, at_ns=due_ns)
    assert queue.finish(ended(number=2, failure="timeout: late")) is None
    queue.read_next()
    assert reported == [(0, "timeout: late")]
    assert queue.remaining == 0


def test_after_draining_a_time_out_is_final_and_other_transient_failures_are_retried() -> None:
    reported = Reported()
    queue = queue_of(request(0), request(1), request(2), tries=5, reported=reported)
    queue.take(0, 0)
    queue.take(1, 0)
    queue.drain()
    assert queue.finish(ended(0, failure="timeout: late")) is None
    assert queue.finish(ended(1, status=429)) is not None
    queue.read_next()
    assert (reported, queue.remaining) == ([(0, "timeout: late")], 1)


@pytest.mark.parametrize("status", [408, 425, 429, 500, 503, 507])
def test_transient_statuses_are_retried(status: int) -> None:
    assert queue_of(request(0), tries=2).finish(ended(status=status)) is not None


@pytest.mark.parametrize("status", [200, 301, 400, 401, 404, 413, 422])
def test_other_statuses_are_final(status: int) -> None:
    queue = queue_of(request(0), tries=2)
    assert queue.finish(ended(status=status)) is None
    assert queue.has_backlog


@pytest.mark.parametrize("code", ["bad_answer", "answer_too_large"])
def test_broken_answers_are_final(code: str) -> None:
    assert queue_of(request(0), tries=2).finish(ended(failure=f"{code}: x")) is None


@given(st.integers(1, 8))
def test_delays_grow_and_stay_bounded(number: int) -> None:
    due_ns = queue_of(request(0), tries=99).finish(ended(number=number, status=503))
    assert due_ns is not None
    assert 0 <= due_ns - 10 * S <= min(30.0, 0.5 * 2 ** (number - 1)) * S


@pytest.mark.parametrize(
    ("value", "min_s"),
    [
        ("7", 7.0),
        ("999999999999", MAX_RETRY_AFTER_S),
        ("soon", 0.0),
        ("\xb2", 0.0),
        (formatdate(0, usegmt=True), 0.0),
    ],
)
def test_a_retry_respects_retry_after_up_to_a_limit(value: str, min_s: float) -> None:
    due_ns = queue_of(request(0), tries=2).finish(ended(status=429, headers=f"Retry-After: {value}\r\n"))
    assert due_ns is not None
    assert min_s <= (due_ns - 10 * S) / S <= max(min_s, 0.5)


def test_retry_after_may_be_a_date() -> None:
    late = formatdate(4_000_000_000, usegmt=True)
    due_ns = queue_of(request(0), tries=2).finish(ended(status=429, headers=f"Retry-After: {late}\r\n"))
    assert due_ns == round((10 + MAX_RETRY_AFTER_S) * S)


def test_the_queue_is_behind_with_more_answers_than_the_limit() -> None:
    queue = queue_of(request(0))
    assert not queue.is_behind
    for _ in range(257):
        queue.finish(ended())
    assert queue.is_behind


def test_a_transient_error_inside_an_answer_wakes_an_idle_stream() -> None:
    queue = queue_of(request(0), tries=2)
    woken: list[int] = []
    queue.wake = woken.append
    done = ended()
    body = b'{"error": {"message": "later", "code": 503}}'
    done.response = Response()
    done.response.add(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body), 0)
    queue.finish(done)
    queue.read_next()
    assert len(woken) == 1
    assert queue.remaining == 1
