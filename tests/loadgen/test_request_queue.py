"""Who takes which request next, and what is tried again when."""

from __future__ import annotations

import random
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


def due(asked: Request, *, stream: int, number: int = 1, at_ns: int = 0) -> Try:
    return Try(request=asked, number=number, scheduled_ns=at_ns, stream=stream)


class Reported(list[tuple[int, str | None]]):
    """(ordinal, error) of what was reported."""

    def __call__(self, done: Try, answer: ParsedAnswer) -> None:
        self.append((done.request.ordinal, answer.error))


def work(*requests: Request, tries: int = 1, reported: Reported | None = None) -> RequestQueue:
    return RequestQueue(
        requests, tries=tries, rng=random.Random(3), report=Reported() if reported is None else reported
    )


def seen_late(after: Try | None = None, *, late_ns: int, failure: str | None = None) -> Try:
    """A try whose answer lay in the socket for a while before the process read it, just now."""
    now = read_clocks()
    read_ns = now.monotonic_ns
    came_ns = read_ns - late_ns
    began = Reading(came_ns - 1000, now.offset_ns)
    done = ended()
    response, data = Response(began), bytes(done.response.received) if done.response is not None else b""
    wall_ns = came_ns + began.offset_ns
    response.add(data, read_ns, wall_ns)
    done.response, done.end_ns, done.failure = response, read_ns, failure
    done.after, done.scheduled_ns = after, after.end_ns if after is not None else 0
    return done


def test_the_end_that_makes_the_next_one_due_is_the_kernels() -> None:
    before = seen_late(late_ns=5_000_000)
    seen_ns = before.end_ns
    following = seen_late(before, late_ns=0)
    read_try(following)
    assert before.end_ns == pytest.approx(seen_ns - 5_000_000, abs=200_000)
    assert (following.scheduled_ns, following.after) == (before.end_ns, None)
    read_try(before)
    read_try(following)
    assert following.scheduled_ns == before.end_ns


def test_an_answer_that_ends_with_its_connection_ended_when_that_was_seen() -> None:
    before = seen_late(late_ns=5_000_000)
    assert before.response is not None
    assert before.response.head is not None
    before.response.head = replace(before.response.head, framing="close")
    seen_ns = before.end_ns
    read_try(before)
    assert before.end_ns == seen_ns


def test_what_did_not_end_well_ended_when_it_was_given_up() -> None:
    before = seen_late(late_ns=5_000_000, failure="timeout: no end")
    seen_ns = before.end_ns
    following = seen_late(before, late_ns=0)
    read_try(following)
    assert (before.end_ns, following.scheduled_ns) == (seen_ns, seen_ns)


@pytest.mark.parametrize(
    ("reads", "sent", "streams", "sleep_us"),
    [
        pytest.param(64, 0, 64, 700, id="long-answers"),
        pytest.param(128, 0, 64, 500, id="a-tenth-of-the-gap"),
        pytest.param(24, 0, 64, 0, id="little-comes"),
        pytest.param(64, 12, 64, 266, id="a-two-hundredth-of-answers-of-53-ms"),
        pytest.param(64, 33, 64, 0, id="short-answers-would-wait"),
        pytest.param(64, 0, 6, 0, id="tokens-of-one-stream-come-close"),
    ],
)
def test_reads_are_coalesced_only_where_it_costs_nothing(reads: int, sent: int, streams: int, sleep_us: int) -> None:
    assert coalescing_ns(reads, sent, streams=streams, span_ns=10_000_000) // 1000 == sleep_us


def test_free_streams_take_requests_in_order() -> None:
    some = work(request(0), request(1))
    assert some.take(5, 0) == due(request(0), stream=5)
    assert some.take(2, 0) == due(request(1), stream=2)
    assert some.take(2, 0) is None


def test_a_request_with_a_stream_waits_for_it() -> None:
    some = work(request(0, stream=1), request(1), request(2, stream=1))
    assert some.take(0, 0) == due(request(1), stream=0)
    assert some.take(0, 0) is None
    assert some.take(1, 0) == due(request(0, stream=1), stream=1)
    assert some.take(1, 0) == due(request(2, stream=1), stream=1)


def test_a_transient_failure_comes_back_after_a_while() -> None:
    reported = Reported()
    some = work(request(0), tries=2, reported=reported)
    some.take(0, 0)
    due_ns = some.finish(ended(failure="connection_lost: gone"))
    assert due_ns is not None
    assert 10 * S <= due_ns <= 10.5 * S
    assert some.take(0, 0) == due_ns
    assert some.take(0, due_ns) == due(request(0), stream=0, number=2, at_ns=due_ns)
    assert some.finish(ended(number=2, failure="timeout: late")) is None
    some.read_next()
    assert reported == [(0, "timeout: late")]
    assert some.remaining == 0


def test_whoever_drains_waits_for_one_time_out_and_for_whatever_else_may_pass() -> None:
    reported = Reported()
    some = work(request(0), request(1), request(2), tries=5, reported=reported)
    some.take(0, 0)
    some.take(1, 0)
    some.drain()
    assert some.finish(ended(0, failure="timeout: late")) is None
    assert some.finish(ended(1, status=429)) is not None
    some.read_next()
    assert (reported, some.remaining) == ([(0, "timeout: late")], 1)


@pytest.mark.parametrize("status", [408, 425, 429, 500, 503, 507])
def test_statuses_that_may_pass_are_tried_again(status: int) -> None:
    assert work(request(0), tries=2).finish(ended(status=status)) is not None


@pytest.mark.parametrize("status", [200, 301, 400, 401, 404, 413, 422])
def test_other_statuses_are_final(status: int) -> None:
    some = work(request(0), tries=2)
    assert some.finish(ended(status=status)) is None
    assert some.has_backlog


@pytest.mark.parametrize("code", ["bad_answer", "answer_too_large"])
def test_broken_answers_are_final(code: str) -> None:
    assert work(request(0), tries=2).finish(ended(failure=f"{code}: x")) is None


@given(st.integers(1, 8))
def test_delays_grow_and_stay_bounded(number: int) -> None:
    due_ns = work(request(0), tries=99).finish(ended(number=number, status=503))
    assert due_ns is not None
    assert 0 <= due_ns - 10 * S <= min(30.0, 0.5 * 2 ** (number - 1)) * S


@pytest.mark.parametrize(
    ("value", "least_s"),
    [
        ("7", 7.0),
        ("999999999999", MAX_RETRY_AFTER_S),
        ("soon", 0.0),
        ("\xb2", 0.0),
        (formatdate(0, usegmt=True), 0.0),
    ],
)
def test_the_servers_word_on_when_to_come_back_is_kept_within_bounds(value: str, least_s: float) -> None:
    due_ns = work(request(0), tries=2).finish(ended(status=429, headers=f"Retry-After: {value}\r\n"))
    assert due_ns is not None
    assert least_s <= (due_ns - 10 * S) / S <= max(least_s, 0.5)


def test_a_date_to_come_back_at_is_understood() -> None:
    late = formatdate(4_000_000_000, usegmt=True)
    due_ns = work(request(0), tries=2).finish(ended(status=429, headers=f"Retry-After: {late}\r\n"))
    assert due_ns == round((10 + MAX_RETRY_AFTER_S) * S)


def test_much_unread_is_read_at_once() -> None:
    some = work(request(0))
    assert not some.is_behind
    for _ in range(257):
        some.finish(ended())
    assert some.is_behind


def test_an_error_found_while_reading_wakes_an_idle_stream() -> None:
    some = work(request(0), tries=2)
    woken: list[int] = []
    some.wake = woken.append
    done = ended()
    body = b'{"error": {"message": "later", "code": 503}}'
    done.response = Response()
    done.response.add(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body), 0)
    some.finish(done)
    some.read_next()
    assert len(woken) == 1
    assert some.remaining == 1
