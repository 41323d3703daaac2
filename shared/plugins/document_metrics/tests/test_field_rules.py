"""When a field is right, by each rule, and what a field is."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scoring_support import value_of

from vlmhyperbench_document_metrics.field_accuracy import FieldAccuracy
from vlmhyperbench_document_metrics.field_f1 import FieldF1
from vlmhyperbench_document_metrics.rules import RULES, Scalar, is_right, read_scalar, right_pairs
from vlmhyperbench_document_metrics.work import Work

TEXTS = st.sampled_from(
    ["12.5", "12.50", "1250e-2", "12,5", "abcdefghij", "abcdefghik", "ABCDEFGHIJ", "true", "7", "007"]
)
SCALARS = st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXTS | st.text(min_size=1)
FIELDS = st.lists(SCALARS.map(read_scalar).filter(bool), max_size=6)


def _right(rule: str, true: object, answer: object) -> bool:
    return value_of(FieldAccuracy(profile=rule), json.dumps({"a": answer}), json.dumps({"a": true})) == 1.0


@pytest.mark.parametrize(
    ("true", "answer", "right"),
    [
        (12.5, 12.5, True),
        (12.5, "12.50", True),
        ("12.50", 12.5, True),
        (12.5, "1.25e1", True),
        (100, 100.0, True),
        (100.0, "100", True),
        (1e22, "10000000000000000000000", True),
        (0.1, "0.10000000000000001", False),
        (12345678901234567890123456789, 12345678901234567890123456780, False),
        (-0.0, 0, True),
        ("12.5", "12.50", False),
        (12.5, "12,5", False),
        (12.5, "12.5 EUR", False),
        (7, "007", False),
        ("007", "7", False),
        (True, "true", True),
        ("TRUE", True, True),
        (True, 1, False),
        (True, "yes", False),
        (False, None, False),
        ("Straße", "STRASSE", True),
        ("ﬁne  print ", "fine print", True),
        ("e\u0301", "\u00e9", True),
        ("\u202eabc", "abc", False),
        ("\ud800", "\ud800", True),
        ("a.", "a", False),
        ("x", ["x"], False),
        ("x", {"x": "x"}, False),
        (["x"], "x", False),
    ],
)
def test_exact_wants_the_same_text_or_the_same_number(true: object, answer: object, right: bool) -> None:
    assert _right("exact", true, answer) is right


@pytest.mark.parametrize(
    ("true", "answer", "right"),
    [
        ("a" * 20, "a" * 17 + "bbb", True),  # 3 of 20
        ("a" * 20, "a" * 16 + "bbbb", False),
        ("a" * 20, "a" * 23, True),
        ("a" * 20, "a" * 24, False),
        ("a" * 6, "a" * 7, False),  # 1 of 6
        ("a" * 7, "a" * 6, True),  # 1 of 7
        (1234567, "1234568", True),
        (1234567, 1234568, True),
        (12.5, "12.6", False),
    ],
)
def test_cer_allows_fifteen_edits_in_a_hundred_characters_of_the_reference(
    true: object, answer: object, right: bool
) -> None:
    assert _right("cer", true, answer) is right


@pytest.mark.parametrize(
    ("true", "answer", "right"),
    [
        ("a" * 10, "a" * 9 + "b", True),  # 1 of 10
        ("a" * 9, "a" * 8 + "b", False),
        ("a" * 9, "a" * 10, True),
        ("a" * 20, "a" * 18 + "bb", True),
        ("a" * 20, "a" * 17 + "bbb", False),
        (1234567890, 1234567891, True),
    ],
)
def test_similarity_allows_one_edit_in_ten_characters_of_the_longer_text(
    true: object, answer: object, right: bool
) -> None:
    assert _right("similarity", true, answer) is right


@pytest.mark.parametrize("rule", RULES)
@given(true=FIELDS, answer=FIELDS)
def test_many_pairs_are_judged_as_one_by_one(rule: str, true: list[Scalar], answer: list[Scalar]) -> None:
    expected = [[is_right(rule, first, second, Work()) for second in answer] for first in true]
    assert right_pairs(rule, true, answer, Work()).tolist() == expected


@given(true=SCALARS, answer=SCALARS)
def test_what_similarity_or_equality_accepts_cer_accepts_too(true: object, answer: object) -> None:
    """At least 0.9 of the longer text is at most 15 edits in a hundred of the shorter one."""
    first, second = read_scalar(true), read_scalar(answer)
    if first and second:
        judged = [is_right(rule, first, second, Work()) for rule in ("exact", "similarity", "cer")]
        assert judged == sorted(judged)


@pytest.mark.parametrize("nothing", [None, "", " \u00a0\n", [], {}, [None, ""], {"b": None}, [[], {"c": [{}]}]])
def test_what_holds_no_value_is_no_field_on_either_side(nothing: object) -> None:
    true, answer = json.dumps({"a": nothing, "b": 1}), json.dumps({"a": nothing})
    assert value_of(FieldF1(), '{"b": 1}', true) == 1.0
    assert value_of(FieldF1(), answer, true) == 0.0
    assert value_of(FieldF1(), answer, "{}") == 1.0
    assert value_of(FieldF1(), '{"a": 0}', true) == 0.0
