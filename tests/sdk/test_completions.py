"""The rule of what counts as an answer, in the corners that no recorded answer reaches."""

from __future__ import annotations

import json

import pytest

from vlmhyperbench_sdk.completions import (
    MAX_TOKENS,
    BadAnswer,
    ChoiceContent,
    ChoiceStream,
    count_choices,
    only_asked,
    parse_document,
    read_completion,
    token_count,
)


def _choice(index: int, text: str = "a", reason: str | None = "stop") -> dict[str, object]:
    return {"index": index, "message": {"content": text}, "finish_reason": reason}


def _event(index: int, text: str, reason: str | None = None) -> dict[str, object]:
    return {"choices": [{"index": index, "delta": {"content": text}, "finish_reason": reason}]}


def test_several_choices_come_in_the_order_of_their_indexes() -> None:
    document = {"choices": [_choice(1, "b"), _choice(0), _choice(2, "c")]}
    assert [answer.text for answer in read_completion(document, 2)] == ["a", "b"]
    assert only_asked(document, range(2))["choices"] == [_choice(1, "b"), _choice(0)]


def test_a_choice_that_was_asked_for_and_never_came_is_no_answer() -> None:
    with pytest.raises(BadAnswer, match="no choice 1"):
        read_completion({"choices": [_choice(0)]}, 2)
    choices = ChoiceStream(2)
    choices.take(_event(0, "a", "stop"))
    with pytest.raises(BadAnswer, match="no choice 1"):
        choices.check_end()


def test_each_choice_of_a_stream_ends_by_itself() -> None:
    choices = ChoiceStream(2)
    assert choices.take(_event(0, "a", "stop")) == {0: ChoiceContent("a", finish_reason="stop")}
    assert not choices.have_ended
    assert choices.take(_event(0, "late")) == {}
    assert choices.take(_event(1, "b", "length")) == {1: ChoiceContent("b", finish_reason="length")}
    assert choices.have_ended
    assert choices.finish_reasons == {0: "stop", 1: "length"}
    choices.check_end()


def test_how_many_were_asked_for_is_told_by_an_answer_without_a_gap() -> None:
    asked = [
        count_choices({"choices": [_choice(index) for index in indexes]}) for indexes in ((), (0, 1), (0, 2), (5,))
    ]
    assert asked == [1, 2, 1, 1]


@pytest.mark.parametrize("value", [-1, MAX_TOKENS + 1, 1.0, True, "1", None, [1]])
def test_what_is_no_count_of_tokens_is_unknown(value: object) -> None:
    assert token_count(value) is None


def test_a_count_of_tokens_is_a_whole_number_from_none_to_the_most() -> None:
    assert [token_count(0), token_count(MAX_TOKENS)] == [0, MAX_TOKENS]


@pytest.mark.parametrize(
    ("data", "document", "is_exact"),
    [
        (b'{"a": "\xc3\xa9 \xef\xbf\xbd NaN \\ud83d\\ude00"}', {"a": "é \ufffd NaN \U0001f600"}, True),
        (b'{"a": [1, -2.5, 1e3]}', {"a": [1, -2.5, 1000.0]}, True),
        (b'{"a": "\xff"}', {"a": "\ufffd"}, False),
        (b'{"a": "\\uD83D"}', {"a": "\ufffd"}, False),
        (b'{"a": [NaN, -Infinity, 1e999, ' + b"9" * 5000 + b"]}", {"a": [None] * 4}, False),
    ],
)
def test_what_had_to_be_replaced_is_told(data: bytes, document: object, is_exact: bool) -> None:
    assert tuple(parse_document(data)) == (document, is_exact)


@pytest.mark.parametrize("data", [b"", b"{", b"{}{}", b"[]", b"null", b'{"a":' * 50_000, b"\xff{}"])
def test_what_is_not_one_json_object_is_no_answer(data: bytes) -> None:
    with pytest.raises(BadAnswer):
        parse_document(data)


def test_a_function_call_of_old_counts_as_what_the_model_said() -> None:
    message = {"content": None, "function_call": {"name": "f", "arguments": "{}"}}
    (answer,) = read_completion({"choices": [{"message": message}]})
    assert answer.bears_tokens
    with pytest.raises(BadAnswer, match="function_call"):
        read_completion(json.loads('{"choices": [{"message": {"content": "a", "function_call": "f()"}}]}'))
