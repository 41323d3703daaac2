"""What a request may ask of llama.cpp has its effect on the answer, or is refused by name."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator
from io import BytesIO

import jsonschema
import pytest
from PIL import Image

from vlmhyperbench_sdk.gateway import LoadRequest
from vlmhyperbench_sdk.testing.gateways import GatewayProcess
from vlmhyperbench_sdk.types import JsonObject, JsonValue
from vlmhyperbench_tiny_doc_vlm import path

SCHEMA: JsonValue = {
    "type": "object",
    "properties": {"total": {"type": "integer", "minimum": 0, "maximum": 99}},
    "required": ["total"],
    "additionalProperties": False,
}


@pytest.fixture(scope="module")
def gateway() -> Iterator[GatewayProcess]:
    files = {
        "weights": str(path("tiny-doc-vlm-f16.gguf", "0.2")),
        "mmproj": str(path("tiny-doc-vlm-mmproj-f16.gguf", "0.2")),
    }
    params: JsonObject = {"n_ctx": 1024, "parallel": 4, "threads": 1}
    with GatewayProcess() as process:
        answer = process.load(LoadRequest(model="m", backend_class="llamacpp", files=files, engine_params=params))
        assert answer.status == 200, answer.body
        yield process


def _image(colour: str) -> JsonValue:
    buffer = BytesIO()
    Image.new("RGB", (96, 96), colour).save(buffer, "PNG")
    url = f"data:image/png;base64,{base64.b64encode(buffer.getvalue()).decode()}"
    return {"type": "image_url", "image_url": {"url": url}}


def _choices(gateway: GatewayProcess, content: JsonValue = "Hello", **fields: JsonValue) -> list[dict[str, JsonValue]]:
    messages: JsonValue = [{"role": "user", "content": content}]
    request: JsonObject = {"model": "m", "messages": messages, "temperature": 0, "max_tokens": 30, **fields}
    answer = gateway.chat(request)
    assert answer.status == 200, answer.body
    choices = answer.json()["choices"]
    assert isinstance(choices, list)
    return choices


def _text(gateway: GatewayProcess, content: JsonValue = "Hello", **fields: JsonValue) -> str:
    message = _choices(gateway, content, **fields)[0]["message"]
    assert isinstance(message, dict)
    return str(message["content"])


def _as_url(kind: str) -> JsonValue:
    """Return the same picture in a format without loss, as the part of a message."""
    buffer = BytesIO()
    Image.linear_gradient("L").resize((96, 96)).convert("RGB").save(buffer, kind, lossless=True)
    return {
        "type": "image_url",
        "image_url": {"url": f"data:image/{kind.lower()};base64,{base64.b64encode(buffer.getvalue()).decode()}"},
    }


def test_a_webp_is_answered_as_the_png_of_the_same_pixels_is(gateway: GatewayProcess) -> None:
    question: JsonValue = {"type": "text", "text": "What is the total?"}
    assert _text(gateway, [_as_url("WEBP"), question]) == _text(gateway, [_as_url("PNG"), question])


def test_sampling_fields_have_their_effect(gateway: GatewayProcess) -> None:
    plain = _text(gateway, ignore_eos=True)
    for narrow in ({"top_k": 1}, {"top_p": 0.0001}, {"min_p": 1}):
        fields: JsonObject = {"temperature": 2, "seed": 3, "ignore_eos": True, **narrow}
        assert _text(gateway, **fields) == plain
    drawn = [_text(gateway, temperature=2, top_k=0, seed=seed, ignore_eos=True) for seed in (1, 1, 2)]
    assert drawn[0] == drawn[1] != drawn[2]
    for penalty in ({"presence_penalty": 2}, {"frequency_penalty": 2}):
        assert _text(gateway, ignore_eos=True, **penalty) != plain
    assert _text(gateway, ignore_eos=True, stop=[plain[2]]) == plain[: plain.index(plain[2])]
    assert len(_text(gateway, ignore_eos=True, max_tokens=5)) < len(plain)


def test_choices_and_log_probabilities_come(gateway: GatewayProcess) -> None:
    choices = _choices(gateway, n=3, temperature=2, top_k=0, seed=1, ignore_eos=True)
    assert [choice["index"] for choice in choices] == [0, 1, 2]
    assert len({json.dumps(choice["message"]) for choice in choices}) == 3
    [choice] = _choices(gateway, logprobs=True, top_logprobs=2, max_tokens=4, ignore_eos=True)
    logprobs = choice["logprobs"]
    assert isinstance(logprobs, dict)
    assert [len(token["top_logprobs"]) for token in logprobs["content"]] == [2] * 4


def test_formats_are_kept_and_several_images_are_read(gateway: GatewayProcess) -> None:
    wanted: JsonValue = {"type": "json_schema", "json_schema": {"schema": SCHEMA}}
    assert 0 <= json.loads(_text(gateway, response_format=wanted, max_tokens=100))["total"] <= 99
    assert _text(gateway, response_format={"type": "json_object"}, max_tokens=60).lstrip().startswith("{")
    images = [_image(colour) for colour in ("white", "black")]
    assert _text(gateway, [*images, {"type": "text", "text": "kind?"}], ignore_eos=True)


NULL: JsonObject = {"type": "null"}
DATE: JsonObject = {"type": "string", "pattern": r"^\d{4}-\d{2}-\d{2}$"}
ENFORCED: dict[str, JsonObject] = {
    "pattern in anyOf": {
        "type": "object",
        "properties": {"date": {"anyOf": [DATE, NULL]}, "total": {"anyOf": [{"type": "number", "minimum": 3}, NULL]}},
        "required": ["date", "total"],
        "additionalProperties": False,
    },
    "pattern without anchors": {"type": "string", "pattern": "[0-9]{3}", "maxLength": 9},
    "pattern of what is not": {"type": "string", "pattern": "^[^0-9A-Z]{3}$"},
    "$ref": {"$ref": "#/$defs/short", "$defs": {"short": {"type": "string", "minLength": 2, "maxLength": 5}}},
    "bounds": {"type": "number", "exclusiveMinimum": 0.5, "maximum": 0.75},
    "counts": {"type": "array", "items": {"enum": ["a", 1, None]}, "minItems": 2, "maxItems": 3},
    "allOf": {"allOf": [{"type": "string", "maxLength": 4}, {"type": "string", "pattern": "^[a-c]+$"}]},
}


@pytest.mark.parametrize("name", ENFORCED)
def test_a_schema_is_enforced_whole(gateway: GatewayProcess, name: str) -> None:
    wanted: JsonValue = {"type": "json_schema", "json_schema": {"schema": ENFORCED[name]}}
    for seed in range(6):
        answer = _text(gateway, response_format=wanted, temperature=2, seed=seed, max_tokens=200)
        jsonschema.validate(json.loads(answer), ENFORCED[name])


@pytest.mark.parametrize("pattern", [r"\d{3}-(yes|no)", r"[^a-z\s]{4}", 'a/b\n"c"', ".{5}"])
def test_an_answer_matches_its_pattern_as_a_whole(gateway: GatewayProcess, pattern: str) -> None:
    wanted: JsonValue = {"type": "regex", "regex": pattern}
    for seed in range(4):
        answer = _text(gateway, response_format=wanted, temperature=2, seed=seed, max_tokens=60)
        assert re.fullmatch(pattern, answer), answer


REFUSED: dict[str, JsonObject] = {
    "uniqueItems": {"type": "array", "items": {"type": "string"}, "uniqueItems": True},
    "propertyNames": {"type": "object", "propertyNames": {"enum": ["a"]}},
    "not": {"anyOf": [{"type": "object", "properties": {"a": {"not": {"type": "string"}}}}, NULL]},
    "oneOf": {"oneOf": [{"type": "string"}, {"type": "string", "minLength": 3}]},
    "contains": {"type": "array", "contains": {"type": "string"}},
    "dependentRequired": {"type": "object", "dependentRequired": {"a": ["b"]}},
    "look-around": {"anyOf": [{"type": "string", "pattern": "^(?=a)[a-z]$"}, NULL]},
    "Unknown format": {"type": "string", "format": "invoice-number"},
    "Invalid type": {"type": "sonnet"},
    "has a character that JSON escapes": {"anyOf": [{"type": "string", "pattern": '^"[ab]"$'}, NULL]},
}
"""What llguidance cannot enforce → such a schema; llama.cpp by itself would answer most of them freely."""


@pytest.mark.parametrize("name", REFUSED)
def test_a_schema_that_cannot_be_enforced_whole_is_refused_by_name(gateway: GatewayProcess, name: str) -> None:
    wanted: JsonValue = {"type": "json_schema", "json_schema": {"schema": REFUSED[name]}}
    refused = gateway.chat({"model": "m", "messages": [{"role": "user", "content": "Hi"}], "response_format": wanted})
    assert (refused.status, refused.error_code()) == (400, "unsupported")
    assert name in refused.body.decode()


@pytest.mark.parametrize(
    "fields",
    [
        {"response_format": {"type": "regex", "regex": "a(?=b)"}},
        {"response_format": {"type": "regex", "regex": "["}},
        {"grammar": "%llguidance {}\nstart: nothing"},
        {"grammar": "root ::= ["},
        {"grammar": 'root ::= "a"', "response_format": {"type": "json_object"}},
    ],
)
def test_a_grammar_that_would_have_no_effect_is_refused(gateway: GatewayProcess, fields: JsonObject) -> None:
    refused = gateway.chat({"model": "m", "messages": [{"role": "user", "content": "Hi"}], **fields})
    assert refused.status == 400, refused.body


@pytest.mark.parametrize("fields", [{"min_tokens": 3}, {"guided_regex": "x"}])
def test_what_llama_cpp_cannot_do_is_refused_by_name(gateway: GatewayProcess, fields: JsonObject) -> None:
    request: JsonObject = {"model": "m", "messages": [{"role": "user", "content": "Hi"}], **fields}
    refused = gateway.chat(request)
    assert refused.status == 400
    assert refused.error_code() in {"unsupported", "unknown_field"}
    assert any(name in refused.body.decode() for name in fields)
