"""Fuzz what reads answers: no bytes make it raise, no way of cutting them changes what was said or when."""

from __future__ import annotations

import json
from itertools import accumulate

from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.fuzz.streams import HEAD, chunked, cut, receive, said
from vlmhyperbench_loadgen.answers import read_stream
from vlmhyperbench_loadgen.http1 import Body

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
        if alone.finish_reason is not None:
            break
    assert (whole.text, whole.reasoning) == (text, reasoning)


RAW = st.one_of(
    st.sampled_from(
        [
            b"a",
            b"be",
            b" c",
            "\u200c🏮".encode(),
            b'\\"',
            b"\\n",
            b"\\",
            b'"',
            b"",
            b"\0",
            b"\x1f",
            b"\x7f",
            b"\xff",
            b"\xed\xa0\x80",
        ]
    ),
    st.binary(max_size=3).filter(lambda raw: not set(raw) & set(b"\r\n")),
)


@settings(deadline=None)
@given(st.lists(RAW, max_size=30), st.integers(1, 20))
def test_pieces_that_are_taken_together_say_what_each_of_them_says(texts: list[bytes], times: int) -> None:
    events = [b'data: {"choices":[{"index":0,"delta":{"content":"%b"}}]}' % text for text in texts * times]
    answers = [
        # Where lines end in two bytes, every event is parsed.
        receive(
            [
                HEAD,
                *[b"%x\r\n%b\r\n" % (len(one + end), one + end) for one in [b": " + b"x" * 4096, *events]],
                b"0\r\n\r\n",
            ]
        )
        for end in (b"\n\n", b"\r\n\r\n")
    ]
    assert said(answers[0]) == said(answers[1])
    assert answers[0].event_ns == answers[1].event_ns
