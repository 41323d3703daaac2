"""Strict JSON: what RFC 8259 does not allow is refused with a reason."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vlmhyperbench_sdk.errors import InvalidInput
from vlmhyperbench_sdk.jsontext import parse_json, parse_object

_TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))
_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | _TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_TEXT, inner, max_size=4),
    max_leaves=10,
)


@given(_VALUES)
def test_whatever_json_writes_is_read_back(value: object) -> None:
    assert parse_json(json.dumps(value)) == value


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "not JSON"),
        ("{", "not JSON"),
        ('{"a": 1, "a": 2}', "'a' appears twice"),
        ("[NaN]", "NaN is no JSON number"),
        ("-Infinity", "-Infinity is no JSON number"),
        ("1e999", "out of range"),
        (r'"\u0000"', "NUL"),
        (r'{"\u0000": 1}', "NUL"),
        (r'"\ud800"', "lone surrogate"),
        ("[" * 65 + "]" * 65, "nested too deeply"),
        ("[" * 100_000, "nested too deeply"),
        ("9" * 5000, "not JSON"),
        (b"\xff", "not JSON"),
    ],
)
def test_what_the_rfc_does_not_allow_is_refused(text: str | bytes, reason: str) -> None:
    with pytest.raises(InvalidInput, match=reason):
        parse_json(text)


def test_an_object_is_wanted_where_one_is_wanted() -> None:
    assert parse_object('{"a": [1]}') == {"a": [1]}
    with pytest.raises(InvalidInput, match="The body is not a JSON object"):
        parse_object("[1]", what="The body")
