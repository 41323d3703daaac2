"""Chat requests: what is checked before any engine sees them."""

from __future__ import annotations

import pytest

from tests.support.wording import Wording
from vlmhyperbench_sdk.chat import translate
from vlmhyperbench_sdk.errors import InvalidInput
from vlmhyperbench_sdk.types import JsonValue


def _request(**more: JsonValue) -> dict[str, JsonValue]:
    return {"model": "m", "messages": [{"role": "user", "content": "Hi"}], **more}


def test_a_plain_request_passes_as_it_is() -> None:
    request = _request(temperature=0, stop=["\n"], seed=1, stream=True, stream_options={"include_usage": True})
    assert translate(request, formats=["text"]) == request


def test_a_field_that_is_null_is_left_out() -> None:
    assert "seed" not in translate(_request(seed=None), formats=["text"])


def test_model_params_become_fields_where_the_engine_takes_them(wording: Wording) -> None:
    body = translate(_request(model_params={"min_p": 0.1}), formats=["text"], model_params=("min_p",))
    assert body["min_p"] == 0.1
    assert "model_params" not in body
    with pytest.raises(InvalidInput) as refused:
        translate(_request(model_params={"min_p": 0.1}), formats=["text"])
    wording(refused.value)


def test_model_params_cannot_replace_a_field(wording: Wording) -> None:
    with pytest.raises(InvalidInput) as refused:
        translate(_request(model_params={"model": "x"}), formats=["text"], model_params=("model",))
    wording(refused.value)


def test_a_format_that_the_engine_cannot_answer_in_is_refused(wording: Wording) -> None:
    with pytest.raises(InvalidInput) as caught:
        translate(_request(response_format={"type": "regex", "regex": "a+"}), formats=["text"])
    wording(caught.value)
    assert caught.value.code == "unsupported"


def test_what_not_every_engine_can_do_is_refused_by_name_unless_it_asks_for_nothing() -> None:
    asked: dict[str, JsonValue] = {"n": 2, "ignore_eos": True, "min_tokens": 3}
    for name, value in asked.items():
        with pytest.raises(InvalidInput, match=f"what {name} asks for") as caught:
            translate(_request(**{name: value}), formats=["text"])
        assert caught.value.code == "unsupported"
    assert translate(_request(**asked), formats=["text"], optional=("n", "ignore_eos", "min_tokens")) == _request(
        **asked
    )
    nothing: dict[str, JsonValue] = {"n": 1, "ignore_eos": False, "min_tokens": 0}
    assert translate(_request(**nothing), formats=["text"]) == _request()


def test_a_vendors_field_passes_only_where_the_engine_is_known_to_take_it() -> None:
    request = _request(repetition_penalty=1.1)
    for vendor in (("repetition_penalty",), "any"):
        assert translate(request, formats=["text"], vendor=vendor) == request
    with pytest.raises(InvalidInput, match="'repetition_penalty' is unknown") as caught:
        translate(request, formats=["text"], vendor=("top_k_return",))
    assert caught.value.code == "unknown_field"
    usage = _request(stream=True, stream_options={"include_usage": True, "continuous_usage_stats": True})
    assert translate(usage, formats=["text"], vendor="any") == usage


@pytest.mark.parametrize(
    ("more", "named"),
    [
        ({"model": ""}, "model"),
        ({"messages": []}, "messages"),
        ({"messages": [{"role": "robot", "content": "x"}]}, r"messages\[0\]"),
        ({"messages": [{"role": "user"}]}, r"messages\[0\].content"),
        ({"messages": [{"role": "user", "content": [{"type": "audio"}]}]}, r"content\[0\]"),
        ({"messages": [{"role": "user", "content": [{"type": "text"}]}]}, r"content\[0\].text"),
        ({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, "image_url.url"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"max_tokens": True}, "max_tokens"),
        ({"temperature": 3}, "temperature"),
        ({"n": 0}, "n must"),
        ({"n": 129}, "n must"),
        ({"ignore_eos": 1}, "ignore_eos must"),
        ({"min_tokens": -1}, "min_tokens must"),
        ({"stream": "yes"}, "stream"),
        ({"stream_options": {"include_usage": True}}, "needs stream"),
        ({"stream": True, "stream_options": {"x": 1}}, "stream_options"),
        ({"stop": [1]}, "stop"),
        ({"response_format": {"type": "json_schema"}}, "JSON Schema"),
        ({"response_format": {"type": "regex"}}, "pattern"),
        ({"model_params": []}, "model_params"),
        ({"cheese": 1}, "'cheese' is unknown"),
    ],
)
def test_a_malformed_request_is_refused_by_the_name_of_the_field(more: dict[str, JsonValue], named: str) -> None:
    with pytest.raises(InvalidInput, match=named):
        translate(_request(**more), formats=("text", "json_object", "json_schema", "regex"))
