from __future__ import annotations

import json
import re

import pytest
from pydantic import JsonValue

from tests.support.wording import Wording
from vlmhyperbench.domain.base import Refused
from vlmhyperbench.domain.response_formats import (
    MAX_DEPTH,
    MAX_PATTERN,
    check_response_format,
    format_name,
    format_of_sample,
    pinned_format,
)
from vlmhyperbench.errors import InvalidInput


def _schema(**schema: JsonValue) -> dict[str, JsonValue]:
    return {"type": "json_schema", "json_schema": {"name": "answer", "schema": dict(schema)}}


def _deep(levels: int) -> JsonValue:
    schema: JsonValue = True
    for _ in range(levels):
        schema = {"items": schema}
    return schema


@pytest.mark.parametrize(
    "value",
    [
        {"type": "text"},
        {"type": "json_schema"},
        {"type": "json_object"},
        {"type": "regex", "regex": r"\d+(,\d+)?"},
        {"type": "json_schema", "json_schema": {"schema": {}}},
        {"type": "json_schema", "json_schema": {"name": "a-b_1", "description": "d", "strict": True, "schema": {}}},
        _schema(type="object", properties={"total": {"type": ["number", "null"], "minimum": 0.5}}, required=["total"]),
        _schema(type="array", items={"$ref": "#/$defs/row~1a"}, minItems=0, **{"$defs": {"row/a": {"type": "string"}}}),
        _schema(anyOf=[{"enum": [1, None]}, {"const": 5}, True], additionalProperties=False, title="x"),
        _schema(type="string", pattern="^a$", maxLength=5),
        _schema(**{"$ref": "#"}),
    ],
)
def test_a_well_formed_response_format_is_returned_unchanged(value: dict[str, JsonValue]) -> None:
    assert check_response_format(value) is value


@pytest.mark.parametrize(
    ("value", "path"),
    [
        ({}, "type"),
        ({"type": "xml"}, "type"),
        ({"type": ["text"]}, "type"),
        ({"type": "text", "schema": {}}, "schema"),
        ({"type": "regex"}, "regex"),
        ({"type": "regex", "regex": 5}, "regex"),
        ({"type": "regex", "regex": ""}, "regex"),
        ({"type": "regex", "regex": "("}, "regex"),
        ({"type": "regex", "regex": "a{99999999999999999999}"}, "regex"),
        ({"type": "regex", "regex": "x" * (MAX_PATTERN + 1)}, "regex"),
        ({"type": "json_schema", "json_schema": None}, "json_schema.schema"),
        ({"type": "json_schema", "json_schema": {"schema": "x"}}, "json_schema.schema"),
        ({"type": "json_schema", "json_schema": {"schema": {}, "scheme": {}}}, "scheme"),
        ({"type": "json_schema", "json_schema": {"schema": {}, "name": "with space"}}, "json_schema.name"),
        ({"type": "json_schema", "json_schema": {"schema": {}, "strict": 1}}, "json_schema.strict"),
        (_schema(type="text"), "schema.type"),
        (_schema(type=[]), "schema.type"),
        (_schema(type=5), "schema.type"),
        (_schema(required="total"), "schema.required"),
        (_schema(required=[5]), "schema.required"),
        (_schema(enum=[]), "schema.enum"),
        (_schema(minLength=-1), "schema.minLength"),
        (_schema(maxItems=True), "schema.maxItems"),
        (_schema(minimum="1"), "schema.minimum"),
        (_schema(properties=["total"]), "schema.properties"),
        (_schema(properties={"total": "number"}), "schema.properties.total"),
        (_schema(items=[{}]), "schema.items"),
        (_schema(anyOf=[]), "schema.anyOf"),
        (_schema(anyOf=[{}, 5]), "schema.anyOf.1"),
        (_schema(type="string", pattern="["), "schema.pattern"),
        (_schema(**{"$ref": "#/$defs/none"}), "schema.$ref"),
        (_schema(**{"$ref": "https://example.com/schema"}), "schema.$ref"),
        (_schema(**{"$ref": 5}), "schema.$ref"),
        (_schema(items=_deep(MAX_DEPTH + 1)), "schema.items"),
    ],
)
def test_a_malformed_response_format_is_refused_with_path_and_cure(value: dict[str, JsonValue], path: str) -> None:
    with pytest.raises(Refused, match=re.escape(path)) as raised:
        check_response_format(value)
    assert raised.value.cure


def test_a_format_is_named_by_its_type_and_the_name_of_its_schema() -> None:
    assert [format_name(value) for value in (None, {"type": "regex", "regex": "a"}, _schema())] == [
        "text",
        "regex",
        "json_schema answer",
    ]


def test_a_json_schema_without_a_schema_is_that_of_the_sample() -> None:
    own = {"type": "object"}
    for written in (own, '{"type": "object"}'):
        made = format_of_sample({"type": "json_schema"}, {"json_schema": written}, key="k")
        assert made == {"type": "json_schema", "json_schema": {"name": "answer", "schema": own, "strict": True}}
    for value in (None, {"type": "json_object"}):
        assert format_of_sample(value, {}, key="k") is value


def test_a_pinned_schema_keeps_the_order_of_its_members_although_keys_are_sorted_where_it_is_stored() -> None:
    wanted = _schema(type="object", properties={"total": {}, "date": {}, "a": {}})
    stored = json.loads(json.dumps(pinned_format(wanted), sort_keys=True))
    sent = format_of_sample(stored, {}, key="k")
    assert sent == wanted
    assert list(sent["json_schema"]["schema"]["properties"]) == ["total", "date", "a"]
    assert pinned_format({"type": "text"}) is None
    assert pinned_format({"type": "json_object"}) == {"type": "json_object"}


def test_a_sample_without_a_schema_is_named(wording: Wording) -> None:
    for metadata in ({}, {"json_schema": {"type": "text"}}, {"json_schema": "{"}):
        with pytest.raises(InvalidInput) as refused:
            format_of_sample({"type": "json_schema"}, metadata, key="7/000001/schema")
        wording(refused.value)
