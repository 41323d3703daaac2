"""Formats become grammars that llama.cpp enforces whole, or are refused; real answers are in tests/gateway."""

from __future__ import annotations

import json

import pytest

from tests.support.wording import Wording
from vlmhyperbench_llamacpp.adapter import LlamaCpp
from vlmhyperbench_llamacpp.formats import HEAD, JSON_STYLE
from vlmhyperbench_sdk.errors import InvalidInput
from vlmhyperbench_sdk.types import JsonValue


def _body(wanted: JsonValue, **more: JsonValue) -> dict[str, JsonValue]:
    messages: JsonValue = [{"role": "user", "content": "Hi"}]
    return LlamaCpp().to_engine({"model": "m", "messages": messages, "response_format": wanted, **more})


def _schema(schema: JsonValue) -> JsonValue:
    return {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema, "strict": True}}


def test_a_free_answer_has_no_grammar() -> None:
    assert "grammar" not in _body(None)
    assert "grammar" not in _body({"type": "text"})


def test_a_schema_is_in_the_grammar_in_its_own_order() -> None:
    schema: JsonValue = {"type": "object", "properties": {"b": {"type": "null"}, "a": {"type": "null"}}}
    for wanted, inside in ((_schema(schema), schema), ({"type": "json_object"}, {"type": "object"})):
        body = _body(wanted)
        assert "response_format" not in body
        start = f"{HEAD}start: %json "
        assert str(body["grammar"]).startswith(start)
        written = str(body["grammar"])[len(start) :]
        assert written == json.dumps({"x-guidance": dict(JSON_STYLE), **inside})


def test_a_pattern_is_in_the_grammar_with_its_delimiters_escaped() -> None:
    assert _body({"type": "regex", "regex": "a/b\nc"})["grammar"] == f"{HEAD}start: /a\\/b\\nc/"


@pytest.mark.parametrize(
    "pattern",
    ['"[ab]', r"\\[ab]", "\n[ab]", r"\n[ab]", r"\x22[ab]", r"[\u0022][ab]"],
    ids=lambda pattern: repr(pattern),
)
def test_a_pattern_with_a_character_that_json_escapes_is_refused_in_a_schema_only(pattern: str) -> None:
    text: JsonValue = {"type": "string", "pattern": f"^{pattern}$"}
    names: JsonValue = {"type": "object", "patternProperties": {f"^{pattern}$": {"type": "null"}}}
    for part in (text, names, {"anyOf": [{"type": "null"}, {"type": "array", "items": text}]}):
        with pytest.raises(InvalidInput) as refused:
            _body(_schema(part))
        assert refused.value.code == "unsupported"
    assert "grammar" in _body({"type": "regex", "regex": pattern})


def test_values_and_names_of_members_are_no_patterns() -> None:
    members: JsonValue = {
        "pattern": {"type": "string"},
        "kind": {"enum": ['"', "\\"]},
        "c": {"const": {"pattern": '"'}},
    }
    assert "grammar" in _body(_schema({"type": "object", "properties": members}))


@pytest.mark.parametrize(
    "wanted",
    [
        _schema({"type": "array", "uniqueItems": True}),
        _schema({"anyOf": [{"type": "string", "pattern": "(?=a)"}]}),
        _schema({"type": "string", "pattern": '^"a$'}),
        _schema({"const": "\ud800"}),
        {"type": "regex", "regex": "a(?=b)"},
        {"type": "regex", "regex": "\ud800"},
    ],
)
def test_what_cannot_be_enforced_whole_is_refused(wanted: JsonValue, wording: Wording) -> None:
    with pytest.raises(InvalidInput) as refused:
        _body(wanted)
    assert refused.value.code == "unsupported"
    wording(refused.value)


def test_a_schema_that_is_nested_without_end_is_refused() -> None:
    schema: JsonValue = {"type": "null"}
    for _ in range(100_000):
        schema = {"items": schema}
    with pytest.raises(InvalidInput):
        _body(_schema(schema))


@pytest.mark.parametrize(
    "fields",
    [
        {"response_format": {"type": "json_object"}, "grammar": 'root ::= "a"'},
        {"response_format": None, "grammar": f"{HEAD}start: nothing"},
    ],
)
def test_a_grammar_is_the_only_constraint_and_one_that_works(fields: dict[str, JsonValue], wording: Wording) -> None:
    with pytest.raises(InvalidInput) as refused:
        _body(fields.pop("response_format"), **fields)
    wording(refused.value)


def test_a_grammar_of_its_own_is_passed_on() -> None:
    for grammar in ('root ::= "a"', f"{HEAD}start: /a/"):
        assert (
            LlamaCpp().to_engine(
                {"model": "m", "messages": [{"role": "user", "content": "Hi"}], "model_params": {"grammar": grammar}}
            )["grammar"]
            == grammar
        )
