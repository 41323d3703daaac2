"""JSON Schemas: what they accept is what the draft says; what is broken, foreign or endless is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from tests.support.wording import Wording
from vlmhyperbench_sdk.errors import InvalidInput
from vlmhyperbench_structure_metrics import keywords
from vlmhyperbench_structure_metrics.schemas import DIALECT, read_schema

NAMES = st.sampled_from(["a", "b", "ab"])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-1, 3) | st.sampled_from([0.5, 2.0]) | st.sampled_from(["", "a", "ab"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=6,
)
LEAVES = st.sampled_from(
    [
        True,
        False,
        {},
        {"type": "integer"},
        {"type": ["string", "null"]},
        {"minimum": 1},
        {"multipleOf": 2},
        {"pattern": "^a"},
        {"maxLength": 1},
        {"enum": [1, True, "a", []]},
        {"const": 0},
        {"required": ["a"]},
        {"minItems": 2, "uniqueItems": True},
        {"$ref": "#/$defs/x"},
    ]
)


def around(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    several = st.lists(inner, min_size=1, max_size=2)
    return st.fixed_dictionaries(
        {},
        optional={
            "properties": st.dictionaries(NAMES, inner, max_size=2),
            "patternProperties": st.dictionaries(st.sampled_from(["^a", "b$"]), inner, max_size=1),
            "additionalProperties": inner,
            "unevaluatedProperties": inner,
            "dependentSchemas": st.dictionaries(NAMES, inner, max_size=1),
            "propertyNames": inner,
            "prefixItems": several,
            "items": inner,
            "contains": inner,
            "unevaluatedItems": inner,
            "allOf": several,
            "anyOf": several,
            "oneOf": several,
            "not": inner,
            "if": inner,
            "then": inner,
            "else": inner,
        },
    )


SCHEMAS = st.recursive(LEAVES, around, max_leaves=6)


def is_valid(schema: Any, value: Any) -> bool:
    return read_schema(schema).is_valid(value)


@given(schema=SCHEMAS, shared=SCHEMAS, value=VALUES)
def test_it_agrees_with_the_plain_validator(schema: Any, shared: Any, value: Any) -> None:
    if "$ref" in json.dumps(shared):
        shared = True
    document = {"$defs": {"x": shared}, "allOf": [schema]}
    assert is_valid(document, value) == Draft202012Validator(document).is_valid(value)


# Cases of the official JSON-Schema-Test-Suite, draft2020-12, shortened.
@pytest.mark.parametrize(
    ("schema", "value", "expected"),
    [
        ({"multipleOf": 0.01}, 1.1, True),
        ({"multipleOf": 0.01}, 1.111, False),
        ({"multipleOf": 0.0001}, 0.0075, True),
        ({"type": "integer", "multipleOf": 0.123456789}, 10**308, False),
        ({"multipleOf": 1e-8}, 12391239123, True),
        ({"multipleOf": 3}, 10**400, False),
        ({"multipleOf": 2}, True, True),
        ({"uniqueItems": True}, [1, True], True),
        ({"uniqueItems": True}, [1, 1.0], False),
        ({"uniqueItems": True}, [{"a": 1, "b": 2}, {"b": 2.0, "a": 1}], False),
        ({"uniqueItems": True}, [[0], [False]], True),
        ({"type": "integer"}, 1.0, True),
        ({"type": "number"}, True, False),
        ({"minLength": 2}, "\U0001f4a9", False),
        ({"format": "date"}, "no date", True),
        ({"properties": {"a": {}}, "patternProperties": {"^b": {}}, "additionalProperties": False}, {"bc": 1}, True),
        ({"properties": {"a": {}}, "patternProperties": {"^b": {}}, "additionalProperties": False}, {"c": 1}, False),
        ({"patternProperties": {"^a": True}, "unevaluatedProperties": False}, {"ab": 1}, True),
        ({"allOf": [{"properties": {"a": {}}}], "unevaluatedProperties": False}, {"a": 1, "b": 1}, False),
        ({"contains": {"type": "string"}, "unevaluatedItems": False}, ["a"], True),
        ({"contains": {"type": "string"}, "unevaluatedItems": False}, ["a", 1], False),
        ({"$ref": "#/definitions/n", "definitions": {"n": {"type": "null"}}}, 1, False),
        ({"$ref": "#/components/n", "components": {"n": {"type": "null"}}}, None, True),
        ({"$ref": "#n", "$defs": {"x": {"$anchor": "n", "type": "null"}}}, 1, False),
        ({"$id": "http://h/a", "$ref": "b", "$defs": {"x": {"$id": "b", "type": "null"}}}, 1, False),
        ({"$defs": {"x": {"$dynamicAnchor": "n", "type": "null"}}, "items": {"$dynamicRef": "#n"}}, [1], False),
        ({"properties": {"$ref": {"type": "string"}}}, {"$ref": "a"}, True),
        ({"$schema": DIALECT, "items": {"$ref": "#"}, "type": "array"}, [[[]]], True),
        (True, None, True),
        (False, None, False),
        ('{"type": "null"}', 1, False),
        (MappingProxyType({"type": "null"}), 1, False),
    ],
)
def test_values_of_the_draft(schema: Any, value: Any, expected: bool) -> None:
    assert is_valid(schema, value) is expected


@pytest.mark.parametrize(
    "schema",
    [
        {"type": 5},
        {"properties": {"a": {"minimum": "x"}}},
        {"items": [{}]},
        [],
        "no JSON",
        {"minimum": float("nan")},
        {"const": {1, 2}},
        {"$schema": "http://json-schema.org/draft-07/schema#"},
        {"items": {"$schema": DIALECT}},
        {"$ref": "#/a", "a": {"$schema": DIALECT, "pattern": "(a+)+$"}},
        {"$ref": "#/a", "a": {"type": 5}},
        {"$ref": "#/a", "a": {"$id": 5}},
        {"$ref": "#/a", "a": "text"},
        {"$ref": "#/a/b", "a": "text"},
        {"$ref": "#/a/b", "a": 5},
        {"$ref": "#/a/b", "a": []},
        {"$ref": "#none"},
        {"allOf": [{"$ref": "https://example.com/schema"}]},
        {"$ref": DIALECT},
        {"properties": {"a": {"pattern": "(?=a)"}}},
        {"patternProperties": {"(a)\\1": {}}},
    ],
)
def test_what_cannot_be_used_is_refused_with_its_place(schema: Any, wording: Wording) -> None:
    with pytest.raises(InvalidInput) as refused:
        read_schema(schema)
    wording(refused.value)
    assert refused.value.code == "invalid_schema"


def test_a_schema_nested_too_deeply_is_refused() -> None:
    schema: Any = {}
    for _ in range(100_000):
        schema = {"not": schema}
    with pytest.raises(InvalidInput, match="JSON"):
        read_schema(schema)


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"$ref": "#"}, []),
        ({"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}, "items": {"$ref": "#/$defs/a"}}, [1]),
        ({"anyOf": [{"type": "string"}, {"$ref": "#"}]}, 1),
        ({"unevaluatedProperties": False, "allOf": [{"$ref": "#"}]}, {}),
        ({"$dynamicAnchor": "a", "not": {"$dynamicRef": "#a"}}, 1),
    ],
)
def test_a_reference_that_never_ends_is_a_loop(schema: Any, value: Any) -> None:
    with pytest.raises(InvalidInput, match="without end") as refused:
        is_valid(schema, value)
    assert refused.value.code == "schema_loop"


def test_a_loop_that_an_answer_does_not_reach_harms_nobody() -> None:
    assert is_valid({"anyOf": [{"type": "string"}, {"$ref": "#"}]}, "text")


def test_a_schema_that_consumes_what_it_refers_to_is_no_loop() -> None:
    tree = {"type": "object", "properties": {"next": {"anyOf": [{"type": "null"}, {"$ref": "#"}]}}}
    assert is_valid(tree, json.loads('{"next":' * 45 + "null" + "}" * 45))
    assert not is_valid(tree, json.loads('{"next":' * 45 + "5" + "}" * 45))


def doubled(depth: int, one: Any) -> Any:
    return {
        "$ref": "#/$defs/s0",
        "$defs": {**{f"s{no}": one(f"#/$defs/s{no + 1}") for no in range(depth)}, f"s{depth}": True},
    }


@pytest.mark.parametrize(
    "schema",
    [
        doubled(40, lambda ref: {"allOf": [{"$ref": ref}, {"$ref": ref}]}),
        doubled(40, lambda ref: {"unevaluatedProperties": False, "allOf": [{"$ref": ref}, {"$ref": ref}]}),
    ],
)
def test_a_schema_that_doubles_its_work_runs_out_of_steps(schema: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keywords, "MAX_STEPS", 10_000)
    with pytest.raises(InvalidInput, match="10,000 steps") as refused:
        is_valid(schema, {"a": 1})
    assert refused.value.code == "schema_too_costly"


def from_a_caller_inside(frames: int, callee: Callable[[], None]) -> None:
    if frames:
        from_a_caller_inside(frames - 1, callee)
    else:
        callee()


@pytest.mark.parametrize("frames", range(0, 200, 4))
def test_a_chain_of_references_that_is_too_long_is_too_deep_from_everywhere(frames: int) -> None:
    from_a_caller_inside(frames, assert_that_a_chain_ends)


def assert_that_a_chain_ends() -> None:
    assert is_valid(doubled(keywords.MAX_NESTED - 1, lambda ref: {"$ref": ref}), None)
    with pytest.raises(InvalidInput, match="more than 180 keywords") as refused:
        is_valid(doubled(2000, lambda ref: {"$ref": ref}), None)
    assert refused.value.code == "schema_too_deep"


@pytest.mark.parametrize(
    "schema",
    [
        {"uniqueItems": True},
        {"allOf": [{"prefixItems": [True] * 10_000}], "unevaluatedItems": False},
    ],
)
def test_long_lists_take_linear_time(schema: Any) -> None:
    assert is_valid(schema, [{"a": no} for no in range(10_000)])


def test_the_same_schema_is_compiled_once() -> None:
    assert read_schema({"type": "null"}) is read_schema({"type": "null"})
