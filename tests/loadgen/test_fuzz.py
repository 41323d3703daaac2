"""Fuzz the parsing of answers: no bytes make it raise, and no cuts between reads change the content or the instants."""

from __future__ import annotations

import json
from itertools import accumulate

from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.fuzz.streams import HEAD, chunked, content_of, cut, receive
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
    """Write events with or without escapes for characters outside ASCII."""
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
def test_no_bytes_make_the_parser_raise(reads: list[bytes], has_head: bool) -> None:
    answer = receive([HEAD, *reads] if has_head else reads)
    assert len(answer.event_ns) == len(answer.event_tokens) == len(answer.event_kind)
    assert answer.event_ns == sorted(answer.event_ns)


@settings(deadline=None)
@given(STREAMS, st.lists(st.integers(0, 5000), max_size=8), st.lists(st.integers(0, 5000), max_size=12))
def test_cuts_between_chunks_and_reads_do_not_change_the_content(
    stream: list[tuple[object, bool, str]], chunks: list[int], reads: list[int]
) -> None:
    payload = payload_of(stream) + b"data: [DONE]\n\n"
    at_once = receive([HEAD + chunked([payload])])
    in_pieces = receive(cut(HEAD + chunked(cut(payload, chunks)), reads))
    assert content_of(in_pieces) == content_of(at_once)
    assert in_pieces.event_ns == sorted(in_pieces.event_ns)


@settings(deadline=None)
@given(STREAMS, st.lists(st.integers(0, 5000), max_size=12))
def test_an_event_has_the_instant_of_the_read_with_the_end_of_its_line(
    stream: list[tuple[object, bool, str]], offsets: list[int]
) -> None:
    payload = payload_of(stream)
    reads = cut(payload, offsets) or [b""]
    ends = list(accumulate(map(len, reads)))
    answer = read_stream(
        Body(payload=payload, pieces=[(0, len(payload))]), ends, list(range(len(reads))), is_complete=False
    )
    line_ends, at = [], 0
    for event in stream:
        line = payload_of([event])
        # The first line feed ends the data line, because JSON holds no line feed.
        line_ends.append(at + line.index(b"\n"))
        at += len(line)
    arrivals = [next(number for number, end in enumerate(ends) if end > line_end) for line_end in line_ends]
    # Events without content are not recorded, so the recorded instants are a subsequence of the arrivals.
    rest = iter(arrivals)
    assert all(any(recorded == arrival for arrival in rest) for recorded in answer.event_ns)


@settings(deadline=None)
@given(STREAMS)
def test_events_matched_by_template_have_the_text_of_each_event(stream: list[tuple[object, bool, str]]) -> None:
    # Short answers are parsed without templates: a comment makes this answer long.
    padding = b": " + b"x" * 4096 + b"\n\n"
    whole = receive([HEAD + chunked([padding + payload_of(stream) + b"data: [DONE]\n\n"])])
    if whole.error is not None:
        return
    text, reasoning = "", ""
    for event in stream:
        # The first event of an answer is parsed without a template.
        single = receive([HEAD + chunked([payload_of([event]) + b"data: [DONE]\n\n"])])
        text, reasoning = text + single.text, reasoning + single.reasoning
        if single.finish_reason is not None:
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
def test_events_matched_together_have_the_content_of_events_parsed_singly(texts: list[bytes], times: int) -> None:
    events = [b'data: {"choices":[{"index":0,"delta":{"content":"%b"}}]}' % text for text in texts * times]
    answers = [
        # Events whose lines end in CRLF are parsed singly.
        receive(
            [
                HEAD,
                *[b"%x\r\n%b\r\n" % (len(event + end), event + end) for event in [b": " + b"x" * 4096, *events]],
                b"0\r\n\r\n",
            ]
        )
        for end in (b"\n\n", b"\r\n\r\n")
    ]
    assert content_of(answers[0]) == content_of(answers[1])
    assert answers[0].event_ns == answers[1].event_ns
