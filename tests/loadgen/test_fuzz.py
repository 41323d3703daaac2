"""Fuzz what reads answers: no bytes make it raise, no way of cutting them changes what was said or when."""

from __future__ import annotations

import json
from itertools import accumulate, pairwise

from hypothesis import example, given, settings
from hypothesis import strategies as st

from vlmhyperbench_loadgen.answers import Answer, read_stream
from vlmhyperbench_loadgen.connection import Reply
from vlmhyperbench_loadgen.http1 import Body, NotHttp
from vlmhyperbench_loadgen.rows import make_row, pack_rows, unpack_rows
from vlmhyperbench_loadgen.segments import encode_rows
from vlmhyperbench_loadgen.table import Request
from vlmhyperbench_loadgen.work import Try, read_try

REQUEST = Request(1, 0, 0, 0, 0, 0, -1, 0, 0, 0, -1, -1, b"")
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"

TEXTS = st.one_of(
    st.text(max_size=8),
    st.sampled_from(['"', "\\", "\n", "data: ", '{"content": "a"}', "\u2028", "🏮", "a", "a", "a", '"}', "null"]),
)
DELTAS = st.one_of(
    st.builds(lambda text: {"content": text}, TEXTS),
    st.builds(lambda text: {"reasoning_content": text}, TEXTS),
    st.builds(lambda text: {"reasoning": text}, TEXTS),
    st.builds(lambda text: {"role": "assistant", "content": text}, TEXTS),
    st.builds(lambda text: {"tool_calls": [{"function": {"arguments": text}}]}, TEXTS),
    st.just({}),
    st.recursive(st.none() | st.integers() | TEXTS, lambda inner: st.dictionaries(TEXTS, inner, max_size=3)),
)
EVENTS = st.one_of(
    st.builds(lambda delta: {"choices": [{"index": 0, "delta": delta, "finish_reason": None}]}, DELTAS),
    st.builds(
        lambda delta, tokens: {"choices": [{"delta": delta}], "usage": {"completion_tokens": tokens}},
        DELTAS,
        st.integers(-1, 40),
    ),
    st.builds(lambda tokens: {"choices": [], "usage": {"completion_tokens": tokens}}, st.integers(0, 40)),
    st.builds(lambda reason: {"choices": [{"delta": {}, "finish_reason": reason}]}, st.none() | TEXTS),
)
STREAMS = st.lists(st.tuples(EVENTS, st.booleans(), st.sampled_from(["\n\n", "\r\n\r\n", "\n: hi\n\n"])), max_size=12)


def payload_of(stream: list[tuple[object, bool, str]]) -> bytes:
    """Write events with or without escapes for what is not ASCII."""
    return b"".join(
        f"data: {json.dumps(event, ensure_ascii=escapes)}{end}".encode("utf-8", "surrogatepass")
        for event, escapes, end in stream
    )


def cut(data: bytes, places: list[int]) -> list[bytes]:
    """Cut bytes at the given places, taken modulo their length."""
    at = sorted({place % (len(data) + 1) for place in places} | {0, len(data)})
    return [data[start:end] for start, end in pairwise(at)]


def chunked(pieces: list[bytes]) -> bytes:
    return b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces if piece) + b"0\r\n\r\n"


def receive(reads: list[bytes]) -> Answer:
    """Take reads in, the n-th at instant n, and read what they brought."""
    reply = Reply()
    done = Try(request=REQUEST, number=1, scheduled_ns=0, stream=0, sent_ns=0, end_ns=len(reads))
    done.reply = reply
    try:
        for number, data in enumerate(reads):
            if reply.is_whole:
                break
            reply.add(data, number)
    except NotHttp as error:
        done.failure = f"bad_answer: {error}"
    answer = read_try(done)
    row = make_row(done, answer, str)
    assert unpack_rows(*pack_rows([list(row)])) == [row]
    assert encode_rows([row]).endswith(b"PAR1")
    return answer


def said(answer: Answer) -> tuple[object, ...]:
    return (
        answer.text,
        answer.reasoning,
        answer.event_kind,
        answer.event_tokens,
        answer.finish_reason,
        answer.completion_tokens,
        answer.error,
    )


@settings(deadline=None)
@given(st.lists(st.binary(max_size=40), max_size=20), st.booleans())
@example([b"0\r\n", b"\r\n"], True)
@example([b"fffffffffffffff\r\n"], True)
@example([b"1\r\nab\r\n"], True)
@example([b"-1\r\n\r\n"], True)
def test_no_bytes_make_it_raise(reads: list[bytes], has_head: bool) -> None:
    answer = receive([HEAD, *reads] if has_head else reads)
    assert len(answer.event_ns) == len(answer.event_tokens) == len(answer.event_kind)
    assert answer.event_ns == sorted(answer.event_ns)


@settings(deadline=None)
@given(STREAMS, st.lists(st.integers(0, 5000), max_size=8), st.lists(st.integers(0, 5000), max_size=12))
def test_however_it_is_cut_the_same_is_said(
    stream: list[tuple[object, bool, str]], chunks: list[int], reads: list[int]
) -> None:
    payload = payload_of(stream) + b"data: [DONE]\n\n"
    at_once = receive([HEAD + chunked([payload])])
    in_pieces = receive(cut(HEAD + chunked(cut(payload, chunks)), reads))
    assert said(in_pieces) == said(at_once)
    assert in_pieces.event_ns == sorted(in_pieces.event_ns)


@settings(deadline=None)
@given(STREAMS, st.lists(st.integers(0, 5000), max_size=12))
def test_an_event_came_with_the_read_that_brought_the_end_of_its_line(
    stream: list[tuple[object, bool, str]], places: list[int]
) -> None:
    payload = payload_of(stream)
    reads = cut(payload, places) or [b""]
    ends = list(accumulate(map(len, reads)))
    answer = read_stream(
        Body(payload=payload, starts=[0], shifts=[0]), ends, list(range(len(reads))), is_complete=False
    )
    line_ends, at = [], 0
    for one in stream:
        line = payload_of([one])
        # The line feed that ends the data line: the first one, for JSON holds none.
        line_ends.append(at + line.index(b"\n"))
        at += len(line)
    arrivals = [next(number for number, end in enumerate(ends) if end > place) for place in line_ends]
    # Some events say nothing; those that count came with one of the reads, in order, each read at most once an event.
    rest = iter(arrivals)
    assert all(any(came == read for read in rest) for came in answer.event_ns)


@settings(deadline=None)
@given(STREAMS)
def test_what_is_read_by_pattern_is_what_each_event_says(stream: list[tuple[object, bool, str]]) -> None:
    # Short answers are not read by pattern: a comment makes this one long.
    padding = b": " + b"x" * 4096 + b"\n\n"
    whole = receive([HEAD + chunked([padding + payload_of(stream) + b"data: [DONE]\n\n"])])
    if whole.error is not None:
        return
    text, reasoning = "", ""
    for one in stream:
        # The first event is never read by pattern.
        alone = receive([HEAD + chunked([payload_of([one]) + b"data: [DONE]\n\n"])])
        text, reasoning = text + alone.text, reasoning + alone.reasoning
    assert (whole.text, whole.reasoning) == (text, reasoning)
