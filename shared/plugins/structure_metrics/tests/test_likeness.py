"""Two JSON documents: shared keys, closeness of values by type, equality."""

from __future__ import annotations

import json
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vlmhyperbench_sdk.types import JsonValue
from vlmhyperbench_structure_metrics.likeness import closeness, compare, compare_with_nothing

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-3, 3)
    | st.sampled_from([0.5, 1.0, -2.5])
    | st.sampled_from(["", "a", "ab", "Ё"])
)
DOCUMENTS = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=8,
)


def paths_of(value: JsonValue, here: tuple[object, ...] = ()) -> tuple[set[object], dict[object, JsonValue]]:
    """Keys and values of a document by their paths: the definition, written down again."""
    keys: set[object] = set()
    values: dict[object, JsonValue] = {}
    if isinstance(value, (dict, list)) and value:
        parts = value.items() if isinstance(value, dict) else enumerate(value)
        for name, part in parts:
            path = (*here, name)
            keys |= {path} if isinstance(value, dict) else set()
            inner_keys, inner_values = paths_of(part, path)
            keys |= inner_keys
            values |= inner_values
    else:
        values[here] = value
    return keys, values


@given(true=DOCUMENTS, answer=DOCUMENTS)
def test_a_walk_over_both_counts_what_sets_of_paths_count(true: JsonValue, answer: JsonValue) -> None:
    keys, values = paths_of(true)
    said_keys, said_values = paths_of(answer)
    found = compare(true, answer)
    assert (found.expected_keys, found.predicted_keys, found.shared_keys) == (
        len(keys),
        len(said_keys),
        len(keys & said_keys),
    )
    assert found.values == len(values.keys() | said_values.keys())
    shared = values.keys() & said_values.keys()
    assert found.score == pytest.approx(sum(closeness(values[path], said_values[path]) for path in shared))


@given(true=DOCUMENTS, answer=DOCUMENTS)
def test_documents_are_equal_where_their_text_is(true: JsonValue, answer: JsonValue) -> None:
    def text(value: JsonValue) -> str:
        return json.dumps(value, sort_keys=True).replace(".0", "")

    assert compare(true, answer).is_equal == (text(true) == text(answer))


def test_one_document_by_head() -> None:
    true: JsonValue = {"a": 1, "b": {"c": "cat"}, "d": [1, 2]}
    found = compare(true, {"d": [1], "b": {"x": True, "c": "car"}, "a": 2})
    assert (found.expected_keys, found.predicted_keys, found.shared_keys) == (4, 5, 4)
    assert found.values == 5  # a, b.c, b.x, d.0, d.1
    assert found.score == pytest.approx(1 / 2 + 2 / 3 + 0 + 1 + 0)
    assert not found.is_equal


@pytest.mark.parametrize(
    ("true", "answer", "expected"),
    [
        (100, 95, 0.95),
        (95, 100, 0.95),
        (100, 100.0, 1.0),
        (100, 0, 0.0),
        (0, 0.0, 1.0),
        (5, -5, 0.0),
        (1e308, -1e308, 0.0),
        (10**400, 10**400, 1.0),
        (10**400, 9 * 10**399, 0.9),
        (10**400, 1.5, 0.0),
        ("kitten", "sitting", 4 / 7),
        ("Cat", "cat", 2 / 3),
        ("", "", 1.0),
        ("", "a", 0.0),
        (True, True, 1.0),
        (True, False, 0.0),
        (True, 1, 0.0),
        (1, True, 0.0),
        (None, None, 1.0),
        (None, 0, 0.0),
        (None, "", 0.0),
        ("12.5", 12.5, 0.0),
        ([], [], 1.0),
        ([], {}, 0.0),
        ("\ud800", "\ud800", 1.0),
    ],
)
def test_values_are_compared_by_type(true: JsonValue, answer: JsonValue, expected: float) -> None:
    assert closeness(true, answer) == pytest.approx(expected)


def test_two_numbers_that_no_float_tells_apart_are_not_equal() -> None:
    found = compare(10**20, 10**20 + 1)
    assert found.score == 1.0
    assert not found.is_equal


def test_a_list_is_compared_by_position() -> None:
    assert compare([1, 2], [2, 1]).score == pytest.approx(1 / 2 + 1 / 2)
    assert not compare([1, 2], [2, 1]).is_equal


@pytest.mark.parametrize(
    ("true", "answer", "values"),
    [
        ({"a": 1}, [], 2),
        ({"a": 1}, 1, 2),
        ([1, 2], {"a": 1}, 3),
        ({"a": {}}, {"a": {"b": 1, "c": 2}}, 3),
        ("x", "y", 1),
    ],
)
def test_where_the_forms_differ_the_values_of_both_are_missed(true: JsonValue, answer: JsonValue, values: int) -> None:
    found = compare(true, answer)
    assert (found.values, found.score) == (values, 0.0)


def test_no_document_misses_every_key_and_value() -> None:
    found = compare_with_nothing({"a": [1, {"b": None}], "c": {}})
    assert (found.expected_keys, found.predicted_keys, found.shared_keys) == (3, 0, 0)
    assert (found.values, found.score, found.is_equal) == (3, 0.0, False)


def test_the_order_of_keys_changes_no_bit_of_the_score() -> None:
    names = [f"k{no}" for no in range(200)]
    true = dict.fromkeys(names, "x" * 7)
    answer = {name: "x" * (no % 7) for no, name in enumerate(names)}
    shuffled = random.Random(0).sample(names, len(names))
    assert compare(true, {name: answer[name] for name in shuffled}).score == compare(true, answer).score
