"""Strict JSON: what RFC 8259 does not allow is refused with a reason. Repair cuts, and changes nothing inside."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.wording import Wording
from vlmhyperbench_sdk.errors import InvalidInput
from vlmhyperbench_sdk.jsontext import NumberText, compact_json, parse_json, parse_object, repair_json

_TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))
_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | _TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_TEXT, inner, max_size=4),
    max_leaves=10,
)


@given(_VALUES)
def test_whatever_json_writes_is_read_back(value: object) -> None:
    assert parse_json(json.dumps(value)) == value


@given(_VALUES)
def test_compact_json_is_the_same_value_in_sorted_order(value: object) -> None:
    text = compact_json(value)
    assert text == json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


@pytest.mark.parametrize("number", ["12.50", "1e2", "-0", "10000000000000000000000.10"])
def test_a_number_stays_as_it_stands_where_that_is_wanted(number: str) -> None:
    value = parse_json(f'{{"b": [{number}, "1"], "a": true}}', exact=True)
    assert value == {"b": [number, "1"], "a": True}
    assert isinstance(value["b"][0], NumberText)
    assert compact_json(value) == f'{{"a":true,"b":[{number},"1"]}}'


@pytest.mark.parametrize("number", ["1e999", "9" * 5000])
def test_a_number_that_nobody_can_hold_is_refused_as_text_too(number: str) -> None:
    with pytest.raises(InvalidInput):
        parse_json(number, exact=True)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        '{"a": 1, "a": 2}',
        "[NaN]",
        "-Infinity",
        "1e999",
        '"\\u0000"',
        '{"\\u0000": 1}',
        '"\\ud800"',
        "[" * 65 + "]" * 65,
        "[" * 100000,
        "9" * 5000,
        b"\xff",
    ],
    ids=[
        *("empty", "half", "duplicate key", "NaN", "infinity", "range", "NUL", "NUL in a key", "surrogate"),
        *("65 levels", "100000 levels", "5000 digits", "no UTF-8"),
    ],
)
def test_what_the_rfc_does_not_allow_is_refused(text: str | bytes, wording: Wording) -> None:
    with pytest.raises(InvalidInput) as refused:
        parse_json(text)
    wording(refused.value)


def test_an_object_is_wanted_where_one_is_wanted(wording: Wording) -> None:
    assert parse_object('{"a": [1]}') == {"a": [1]}
    with pytest.raises(InvalidInput) as refused:
        parse_object("[1]", what="The body")
    wording(refused.value)


@pytest.mark.parametrize(
    ("answer", "json_text", "repairs"),
    [
        ('{"a": 1}', '{"a": 1}', ()),
        (" [1, 2] ", " [1, 2] ", ()),
        ('```json\n{"a": 1}\n```', '{"a": 1}\n', ("fence",)),
        ('Here it is:\n```\n{"a": 1}\n```\nAnything else?', '{"a": 1}\n', ("fence",)),
        ('```json\n{"a": 1}', '{"a": 1}', ("fence",)),
        ('The answer is {"a": "}"} as asked.', '{"a": "}"}', ("first_object",)),
        ('{"a": {"b": 1}} {"c": 2}', '{"a": {"b": 1}}', ("first_object",)),
        ('```\nSure: {"a": "\\"}"}\n```', '{"a": "\\"}"}', ("fence", "first_object")),
        ("no object", "no object", ()),
        ('{"a": 1', '{"a": 1', ()),
    ],
)
def test_repair_finds_the_json_in_an_answer_and_names_what_it_did(
    answer: str, json_text: str, repairs: tuple[str, ...]
) -> None:
    assert repair_json(answer) == (json_text, repairs)


def test_repair_cuts_out_an_array_where_one_is_meant() -> None:
    assert repair_json("Order: [2, 1, 3].", opening="[") == ("[2, 1, 3]", ("first_object",))


@given(st.text('{}[]"\\`: ,1a\n', max_size=60))
def test_what_repair_returns_is_part_of_the_answer(answer: str) -> None:
    text, repairs = repair_json(answer)
    assert text in answer
    assert repair_json(text)[0] == text or "first_object" not in repairs


@pytest.mark.parametrize("piece", ["{", '\\"', '"', "```", "}{", "[{", "``` {"])
def test_repair_of_a_hostile_megabyte_ends(piece: str) -> None:
    hostile = '{"' + piece * (1_000_000 // len(piece))
    assert repair_json(hostile)[0] in hostile  # a quadratic scan would take hours
