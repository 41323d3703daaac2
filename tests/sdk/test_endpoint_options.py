"""The options of an endpoint: what may be said, and what would contradict the record of a run."""

from __future__ import annotations

import pytest

from vlmhyperbench_sdk.endpoint import EndpointOptions, problems_with, read_options
from vlmhyperbench_sdk.errors import InvalidInput
from vlmhyperbench_sdk.types import JsonObject, JsonValue


def test_without_options_a_request_is_what_it_was() -> None:
    request: JsonObject = {"model": "m", "max_tokens": 3, "temperature": 0.0}
    assert read_options({"url": "u"}) == EndpointOptions()
    assert EndpointOptions().fit(request) == request


def test_headers_are_plain_or_name_their_secret() -> None:
    options = read_options({"headers": {"X-Title": "a bench", "api-key": {"secret": "AZURE"}}})
    assert options.headers == {"X-Title": "a bench"}
    assert options.secret_headers == {"api-key": "AZURE"}


@pytest.mark.parametrize(
    ("params", "path"),
    [
        ({"headers": ["X-Title"]}, ("headers",)),
        ({"headers": {f"X-{no}": "v" for no in range(21)}}, ("headers",)),
        ({"headers": {"X Title": "v"}}, ("headers", "X Title")),
        ({"headers": {"Content-Length": "3"}}, ("headers", "Content-Length")),
        ({"headers": {"X-A": "v", "x-a": "v"}}, ("headers", "x-a")),
        ({"headers": {"X-A": {"secret": "../etc"}}}, ("headers", "X-A")),
        ({"headers": {"X-A": {"secret": "A", "more": 1}}}, ("headers", "X-A")),
        ({"headers": {"X-A": 3}}, ("headers", "X-A")),
        ({"headers": {"X-A": "two\r\nlines"}}, ("headers", "X-A")),
        ({"headers": {"X-A": ""}}, ("headers", "X-A")),
        ({"headers": {"X-A": "v" * 1001}}, ("headers", "X-A")),
        ({"headers": {"Authorization": "abc"}}, ("headers", "Authorization")),
        ({"headers": {"X-Api-Key": "abc"}}, ("headers", "X-Api-Key")),
        ({"headers": {"X-A": "Bearer abc"}}, ("headers", "X-A")),
        ({"max_tokens_field": "model"}, ("max_tokens_field",)),
        ({"omit": "temperature"}, ("omit",)),
        ({"omit": ["messages"]}, ("omit",)),
        ({"extra_body": [1]}, ("extra_body",)),
        ({"extra_body": {"a": "v" * 16_000}}, ("extra_body",)),
        ({"extra_body": {"a": None}}, ("extra_body", "a")),
        ({"extra_body": {"stream": False}}, ("extra_body", "stream")),
        ({"extra_body": {"model": "other"}}, ("extra_body", "model")),
        ({"extra_body": {"max_completion_tokens": 3}}, ("extra_body", "max_completion_tokens")),
        ({"extra_body": {"temperature": 1}}, ("extra_body", "temperature")),
        ({"extra_body": {"response_format": {}}}, ("extra_body", "response_format")),
    ],
)
def test_what_cannot_be_or_would_contradict_the_record_is_refused_with_its_place(
    params: dict[str, JsonValue], path: tuple[str, ...]
) -> None:
    [problem] = problems_with(params)
    assert problem.path == path
    assert problem.cure
    with pytest.raises(InvalidInput, match=path[-1]):
        read_options(params)


def test_everything_that_is_wrong_is_said_at_once() -> None:
    found = problems_with({"headers": {"Host": "h", "X-Key": "k"}, "omit": ["n"], "extra_body": {"n": 2}})
    assert [problem.path[0] for problem in found] == ["headers", "headers", "omit", "extra_body"]
