"""Types made from a JSON Schema: what they accept is what the schema says; what is not supported is refused."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from pydantic import ValidationError

from tests.support.wording import Wording
from vlmhyperbench.scoring.schema import complaint_of, schema_type
from vlmhyperbench_sdk.errors import InvalidInput

INVOICE = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "$defs": {"money": {"type": "number", "minimum": 0}},
    "type": "object",
    "title": "Invoice",
    "properties": {
        "class": {"enum": ["invoice", "receipt", None]},
        "_id": True,
        "total": {"$ref": "#/$defs/money"},
        "vat": {"$ref": "#/$defs/money"},
        "paid": {"type": "boolean"},
        "note": {"type": ["string", "null"], "maxLength": 5},
        "count": {"type": "integer", "exclusiveMaximum": 10},
        "items": {"type": "array", "minItems": 1, "items": {"anyOf": [{"type": "string"}, {"type": "null"}]}},
        "extra": {"type": "object", "additionalProperties": {"type": "integer"}},
    },
    "required": ["total", "_id"],
    "additionalProperties": False,
}
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-2, 12)
    | st.sampled_from([0.5, 3.0])
    | st.sampled_from(["", "a", "invoice", "longer"]),
    lambda inner: st.lists(inner, max_size=2),
    max_leaves=3,
)
INVOICES = st.fixed_dictionaries(
    {},
    optional={**dict.fromkeys([*INVOICE["properties"], "_id", "odd"], VALUES), "total": st.integers(-1, 5)},
)


def complaint(schema: Any, value: Any) -> str | None:
    try:
        schema_type(schema).validate_python(value)
    except ValidationError as error:
        return complaint_of(error.errors())
    return None


def test_a_value_that_keeps_to_the_schema_is_accepted() -> None:
    assert complaint(INVOICE, {"total": 5, "_id": "x", "class": None, "count": 3.0, "items": ["a", None]}) is None


@pytest.mark.parametrize(
    "value",
    [
        {"_id": 1},
        {"total": 1},
        {"total": -1, "_id": 1},
        {"total": True, "_id": 1},
        {"total": 1, "_id": 1, "odd": 1},
        {"total": 1, "_id": 1, "items": []},
        {"total": 1, "_id": 1, "class": "letter"},
        [],
    ],
)
def test_a_complaint_names_the_place(value: Any, wording: Wording) -> None:
    wording(complaint(INVOICE, value) or "")


@given(INVOICES | VALUES)
def test_it_agrees_with_a_validator_of_json_schema(value: Any) -> None:
    assert (complaint(INVOICE, value) is None) == Draft202012Validator(INVOICE).is_valid(value)


@pytest.mark.parametrize("value", [1, "a", None, {"x": [1]}])
def test_an_empty_schema_accepts_everything(value: Any) -> None:
    assert complaint({}, value) is None
    assert complaint(True, value) is None


def test_a_constant_and_null_are_types() -> None:
    assert complaint({"const": "EUR"}, "EUR") is None
    assert complaint({"const": "EUR"}, "USD") is not None
    assert complaint({"type": "null"}, None) is None
    assert complaint({"type": "null"}, 0) is not None


def test_true_is_not_1() -> None:
    assert complaint({"enum": [1, 2]}, True) is not None
    assert complaint({"const": True}, 1) is not None
    assert complaint({"enum": [1, True]}, True) is None


def test_a_part_that_many_refer_to_is_made_once() -> None:
    levels = {
        f"a{n}": {"type": "object", "properties": {k: {"$ref": f"#/$defs/a{n + 1}"} for k in "xyz"}} for n in range(25)
    }
    schema = {"$defs": {**levels, "a25": {"type": "string"}}, "$ref": "#/$defs/a0"}
    assert complaint(schema, {"x": {"y": {}}}) is None  # 3 to the 25th parts, if each were made for itself


@pytest.mark.parametrize(
    "schema",
    [
        "text",
        {"type": "thing"},
        {"properties": {}},
        {"type": "object", "patternProperties": {}},
        {"type": "array", "items": {"type": "string", "minimum": 1}},
        {"oneOf": []},
        {"anyOf": []},
        {"enum": []},
        {"enum": [[1]]},
        {"type": "object", "properties": []},
        {"type": "object", "required": ["a"], "additionalProperties": False},
        {"type": "object", "required": "a"},
        {"type": "object", "properties": {"a": {}}, "additionalProperties": {"type": "string"}},
        {"$ref": "#"},
        {"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"},
        {"$ref": "https://example.org/x.json"},
        {"$ref": 5},
        {"$ref": "#/$defs/none"},
        {"type": "string", "pattern": "("},
        {"type": "string", "minLength": "x"},
    ],
)
def test_what_is_no_schema_or_not_supported_is_refused_with_its_place(schema: Any, wording: Wording) -> None:
    with pytest.raises(InvalidInput) as refused:
        schema_type(schema)
    wording(refused.value)


def test_a_schema_that_is_nested_without_end_is_refused(wording: Wording) -> None:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(100):
        schema = {"type": "array", "items": schema}
    with pytest.raises(InvalidInput) as refused:
        schema_type(schema)
    wording(refused.value)
