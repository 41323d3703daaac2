"""Bytes and instants are parsed into events, text and token counts."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vlmhyperbench_loadgen.answers import ParsedAnswer, read_refusal, read_stream, read_whole, spread
from vlmhyperbench_loadgen.connection import Response

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"


def event(delta: dict[str, object] | None = None, *, finish: str | None = None, usage: object = None) -> bytes:
    document: dict[str, object] = {"choices": [] if delta is None else [{"delta": delta, "finish_reason": finish}]}
    if usage is not None:
        document["usage"] = usage
    return b"data: " + json.dumps(document).encode() + b"\n\n"


def tokens_of(count: int) -> dict[str, int]:
    return {"prompt_tokens": 3, "completion_tokens": count}


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


def read(*reads: bytes, end: bytes = b"0\r\n\r\n", is_complete: bool = True) -> ParsedAnswer:
    """Parse an answer whose n-th read was at n·10 ns; the first read is the head and the last is `end`."""
    response = Response()
    for number, data in enumerate([HEAD, *reads, end]):
        response.add(data, number * 10)
    assert response.head is not None
    assert response.is_whole is is_complete
    return read_stream(response.read_body(), response.ends, response.times, is_complete=is_complete)


def test_each_event_has_the_instant_of_its_read() -> None:
    answer = read(
        chunk(event({"role": "assistant", "content": ""})),
        chunk(event({"content": "Hello"})),
        chunk(event({"content": " world"})),
        chunk(event({}, finish="stop")),
        chunk(event(usage=tokens_of(2))),
        chunk(b"data: [DONE]\n\n"),
    )
    assert answer.event_ns == [10, 20, 30, 50]
    assert answer.event_kind == ["role", "content", "content", "usage"]
    assert answer.event_tokens == [0, 1, 1, 0]
    assert (answer.text, answer.finish_reason, answer.error) == ("Hello world", "stop", None)
    assert (answer.prompt_tokens, answer.completion_tokens) == (3, 2)


def test_events_of_one_read_share_its_instant() -> None:
    answer = read(chunk(event({"content": "a"}) + event({"content": "b"}, finish="stop")))
    assert answer.event_ns == [10, 10]


def test_an_event_in_two_reads_has_the_instant_of_the_second() -> None:
    data = chunk(event({"content": "a"}, finish="stop"))
    answer = read(data[:20], data[20:])
    assert answer.event_ns == [20]


def test_the_blank_line_after_an_event_does_not_move_its_instant() -> None:
    data = event({"content": "a"}, finish="stop")
    answer = read(chunk(data[:-1]), chunk(data[-1:]))
    assert answer.event_ns == [10]


def test_reasoning_is_separate_from_content() -> None:
    answer = read(chunk(event({"reasoning_content": "hm"})), chunk(event({"content": "yes"}, finish="stop")))
    assert answer.event_kind == ["reasoning", "content"]
    assert (answer.reasoning, answer.text) == ("hm", "yes")


def test_a_tool_call_has_tokens() -> None:
    call = {"index": 0, "function": {"arguments": "{}"}}
    answer = read(chunk(event({"tool_calls": [call]}, finish="tool_calls") + event(usage=tokens_of(9))))
    assert answer.event_kind == ["tool", "usage"]
    assert answer.event_tokens == [9, 0]


def test_running_usage_counts_the_tokens_of_each_event() -> None:
    answer = read(
        chunk(event({"content": "aaaa"}, usage=tokens_of(1))),
        chunk(event({"content": "b"}, usage=tokens_of(4), finish="stop")),
    )
    assert answer.event_tokens == [1, 3]
    assert answer.event_token_source == "usage"


@pytest.mark.parametrize("stated", [0, 1])
@pytest.mark.parametrize("count", [2, 5])
def test_a_count_that_stays_the_same_until_the_end_is_no_running_usage(stated: int, count: int) -> None:
    pieces = [chunk(event({"content": "aa"}, usage=tokens_of(stated))) for _ in range(count)]
    answer = read(*pieces, chunk(event({}, finish="stop")), chunk(event(usage=tokens_of(count))))
    assert answer.event_tokens == [1] * count + [0]


@pytest.mark.parametrize("line_end", [b"\n", b"\r\n"])
def test_an_event_without_data_is_ignored(line_end: bytes) -> None:
    answer = read(
        chunk(event({"content": "a"}, finish="stop")), chunk(b"data:" + 2 * line_end + b"data: " + 2 * line_end)
    )
    assert (answer.text, answer.error) == ("a", None)


def test_cached_tokens_of_the_prompt_are_those_that_the_server_states() -> None:
    cached = {**tokens_of(1), "prompt_tokens_details": {"cached_tokens": 64}}
    assert read(chunk(event({"content": "a"}, usage=cached)), chunk(b"data: [DONE]\n\n")).cached_tokens == 64
    assert read(chunk(event({"content": "a"}, usage=tokens_of(1))), chunk(b"data: [DONE]\n\n")).cached_tokens is None


def hidden_of(count: int, hidden: int) -> dict[str, object]:
    return {**tokens_of(count), "completion_tokens_details": {"reasoning_tokens": hidden}}


def test_hidden_tokens_of_reasoning_are_in_no_event() -> None:
    pieces = [chunk(event({"content": "aa"})) for _ in range(3)]
    answer = read(*pieces, chunk(event({}, finish="stop")), chunk(event(usage=hidden_of(503, 500))))
    assert (answer.event_tokens, answer.completion_tokens) == ([1, 1, 1, 0], 503)
    assert answer.event_token_source == "usage"
    running = [chunk(event({"content": "aa"}, usage=hidden_of(501 + number, 500))) for number in range(3)]
    assert read(*running, chunk(event({}, finish="stop"))).event_tokens == [1, 1, 1]
    visible = read(chunk(event({"reasoning_content": "hm"})), *pieces[:1], chunk(event(usage=hidden_of(502, 501))), b"")
    assert sum(visible.event_tokens) == 502
    both = event({"content": "a", "reasoning_content": "hm"})
    assert sum(read(chunk(both), chunk(event(usage=hidden_of(9, 8))), b"").event_tokens) == 9


def test_tokens_are_spread_by_characters_where_only_their_sum_is_known() -> None:
    answer = read(
        chunk(event({"content": "x" * 30})),
        chunk(event({"content": "x" * 10}, finish="stop")),
        chunk(event(usage=tokens_of(8))),
    )
    assert answer.event_tokens == [6, 2, 0]
    assert answer.event_token_source == "estimated"


def test_without_usage_no_tokens_are_counted() -> None:
    answer = read(chunk(event({"content": "word"}, finish="stop")))
    assert answer.completion_tokens is None
    assert answer.event_tokens == [0]
    assert answer.event_token_source is None


@given(st.integers(0, 5000), st.lists(st.integers(0, 50), min_size=1, max_size=60))
def test_spread_tokens_add_up_to_the_total(total: int, characters: list[int]) -> None:
    tokens = spread(total, characters)
    assert sum(tokens) == total
    assert min(tokens) >= (1 if total >= len(characters) else 0)


@pytest.mark.parametrize("line_end", [b"\n", b"\r\n"])
def test_both_line_ends_and_comments_are_parsed(line_end: bytes) -> None:
    data = b": ping\n\nevent: message\n" + event({"content": "a"}, finish="stop") + b"data: [DONE]\n\n"
    answer = read(chunk(data.replace(b"\n", line_end)))
    assert (answer.text, answer.error) == ("a", None)


def test_lines_of_one_event_are_joined() -> None:
    answer = read(chunk(b'data: {"choices": [{"delta":\ndata: {"content": "a"}, "finish_reason": "stop"}]}\n\n'))
    assert answer.text == "a"


def test_a_stream_without_a_finish_reason_and_done_is_incomplete() -> None:
    answer = read(chunk(event({"content": "a"})))
    assert answer.error is not None
    assert answer.error.startswith("incomplete_stream:")
    assert answer.is_transient


def test_a_stream_may_end_with_done_and_without_a_finish_reason() -> None:
    assert read(chunk(event({"content": "a"}) + b"data: [DONE]\n\n")).error is None


def test_the_events_before_a_cut_are_parsed() -> None:
    answer = read(chunk(event({"content": "a"})), end=b"", is_complete=False)
    assert (answer.text, answer.event_ns, answer.error) == ("a", [10], None)


@pytest.mark.parametrize(("code", "is_transient"), [(500, True), (429, True), (400, False), (None, True)])
def test_an_error_in_the_stream_is_the_error_of_the_answer(code: int | None, is_transient: bool) -> None:
    error = json.dumps({"error": {"message": "no memory", "code": code}}).encode()
    answer = read(chunk(event({"content": "a"})), chunk(b"data: " + error + b"\n\n"))
    assert answer.error == "stream_error: no memory" + (f" [code={code}]" if code else "")
    assert answer.is_transient is is_transient
    assert answer.text == "a"


@pytest.mark.parametrize("data", [b"not json", b"[1]", b"NaN", b"[" * 100_000])
def test_an_event_that_is_no_object_is_a_bad_answer(data: bytes) -> None:
    answer = read(chunk(b"data: " + data + b"\n\n"))
    assert answer.error is not None
    assert answer.error.startswith("bad_answer:")
    assert len(answer.error) < 600


@pytest.mark.parametrize(
    "delta",
    [
        {"content": None},
        {"content": 3},
        {"content": [{"type": "text"}]},
        {"content": {}, "reasoning": 1},
        {"role": 5, "tool_calls": []},
    ],
)
def test_values_of_wrong_types_have_no_tokens(delta: dict[str, object]) -> None:
    answer = read(chunk(event(delta, finish="stop", usage={"completion_tokens": "many", "prompt_tokens": -1})))
    assert (answer.text, answer.reasoning, answer.completion_tokens, answer.prompt_tokens) == ("", "", None, None)
    assert "content" not in answer.event_kind


def test_half_a_surrogate_pair_becomes_a_replacement_character() -> None:
    text = rb'data: {"choices": [{"delta": {"content": "a\ud83d"}, "finish_reason": "stop"}]}' + b"\n\n"
    assert read(chunk(text)).text == "a�"


def test_a_finish_reason_is_short_and_has_no_nul() -> None:
    choice = {"delta": {"content": "a"}, "message": {"content": "a"}, "finish_reason": "stop\0" + "p" * 1000}
    document = json.dumps({"choices": [choice]}).encode()
    for answer in (read(chunk(b"data: " + document + b"\n\n")), read_whole(document, 1)):
        assert answer.finish_reason == "stop\ufffd" + "p" * 58 + "…"


def test_a_whole_answer_is_one_event_at_its_end() -> None:
    document = {
        "choices": [{"message": {"role": "assistant", "content": "yes", "reasoning": "hm"}, "finish_reason": "stop"}],
        "usage": tokens_of(7),
    }
    answer = read_whole(json.dumps(document).encode(), 99)
    assert (answer.event_ns, answer.event_tokens, answer.event_kind) == ([99], [7], ["content"])
    assert (answer.text, answer.reasoning) == ("yes", "hm")


def test_plain_completions_are_parsed_too() -> None:
    assert read_whole(b'{"choices": [{"text": "yes", "finish_reason": "length"}]}', 1).text == "yes"


@pytest.mark.parametrize("payload", [b"", b"<html>", b"[]", b"{}", b'{"choices": []}', b"\xff\xfe"])
def test_a_whole_answer_without_choices_is_bad(payload: bytes) -> None:
    assert str(read_whole(payload, 1).error).startswith("bad_answer:")


def test_an_error_object_with_status_200_is_an_error() -> None:
    assert read_whole(b'{"error": {"message": "later", "code": 503}}', 1).is_transient


@pytest.mark.parametrize(
    ("payload", "error"),
    [
        (b'{"error": {"message": "no such  model"}}', "http_404: no such model"),
        (b'{"error": "gone"}', "http_404: gone"),
        (b'{"detail": "not here"}', "http_404: not here"),
        (b"<h1>Not\nFound</h1>", "http_404: <h1>Not Found</h1>"),
        (b"", "http_404: nothing"),
    ],
)
def test_a_refusal_is_written_in_one_line(payload: bytes, error: str) -> None:
    assert read_refusal(404, payload) == error


@given(st.binary(max_size=300))
def test_no_bytes_make_the_parser_raise(data: bytes) -> None:
    read(chunk(data) if data else b"")
    read_whole(data, 1)
    read_refusal(500, data)
