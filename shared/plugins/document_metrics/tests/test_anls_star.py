"""ANLS* against its published values and the authors' package."""

from __future__ import annotations

import json
from fractions import Fraction
from itertools import permutations, product
from math import isclose, prod
from random import Random

import pytest
from anls_star import anls_score
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from rapidfuzz.distance import Levenshtein
from scoring_support import combined, measure, value_of

from vlmhyperbench_document_metrics.anls_star import AnlsStar

WORDS = st.sampled_from(
    ["", "abc", "abx", " ABC ", "a  b", "a b", "xyz", "true", "1", "12.5", "ß", "e\u0301", "\ud800"]
)
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | WORDS
    | st.text(max_size=6)
)
KEYS = st.sampled_from(["a", "b", "c"])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(0, 12) | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=8,
)
ITEMS = st.lists(st.fixed_dictionaries({"name": SCALARS, "price": SCALARS}), max_size=3)
UNTIMED = settings(suppress_health_check=[HealthCheck.too_slow])
DOCUMENTS = st.fixed_dictionaries({}, optional={"id": SCALARS, "tags": st.lists(SCALARS, max_size=3), "items": ITEMS})


def _value(true: object, said: object) -> float | None:
    return value_of(AnlsStar(), json.dumps(said), json.dumps(true))


# Values of the tests of the authors' package (deepopinion/anls_star_metric), the paper's own cases among them.
@pytest.mark.parametrize(
    ("true", "said", "expected"),
    [
        (["Hello", "World"], ["World", "Hello"], 1.0),
        (["Hello", "World"], ["Hello"], 0.5),
        ({"a": "Hello", "b": "World"}, {"b": "World", "a": "Hello"}, 1.0),
        ({"a": "Hello", "b": "World"}, {"a": "Hello"}, 0.5),
        ({"a": "Hello", "b": "World"}, {"b": "World", "a": "Hello", "c": "Great"}, 2 / 3),
        ({"a": "Hello", "b": ["w", "r", "l", "d"]}, {"a": "Hello", "b": ["w", "r", "d"]}, 0.8),
        (["Hello", "World"], "World", 1.0),
        ({"v": 0.2}, {"v": 0.199999}, 0.0),
        ({"v": "Yesterday"}, {"v": None}, 0.0),
        ({"a": None, "b": None, "c": None, "d": None}, {"a": "California", "b": "Ray"}, 0.5),
        ({"name": "david", "company": None}, {"name": "david"}, 1.0),
        ({"a": "b", "c": "d"}, {"a": "b", "e": "d"}, 1 / 3),
        ({"a": ["a", "b", "c"]}, {"a": "b"}, 0.0),
        (
            {"k1": 1, "k2": "mock", "line_items": [{"a": "b", "c": "d"}, {"e": "f"}]},
            {"k1": 1, "k2": "kcom", "line_items": [{"e": "f"}, {"a": "y", "c": "d"}]},
            3 / 5,
        ),
    ],
)
def test_values_of_documents_are_those_of_the_paper(true: object, said: object, expected: float) -> None:
    assert _value(true, said) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("true", "said", "expected"),
    [
        ("Hello World", "Hello Wrold", 9 / 11),  # codespell:ignore wrold
        ("Hello World", "How are you?", 0.0),
        ("31.12.2023", "31. Dec 2023", 7 / 12),
        (" Test   HELLO\n", "test hello", 1.0),
        ("ab", "ax", 0.5),
        ("", "", 1.0),
        ("12.50", "12.5", 0.8),
        ("null", "null", 1.0),
        ("true", '"true"', 4 / 6),
    ],
)
def test_a_reference_that_is_no_document_is_a_text_and_so_is_the_answer(true: str, said: str, expected: float) -> None:
    assert value_of(AnlsStar(), said, true) == pytest.approx(expected)


# Values of anls_star 1.0.1, run on these: what null matches, and what a made-up null costs.
@pytest.mark.parametrize(
    ("true", "said", "expected"),
    [
        ({"a": None}, {"a": ""}, 1.0),
        ({"a": ""}, {"a": None}, 0.0),
        ({"a": []}, {}, 0.0),
        ({"a": "x"}, {"a": "x", "b": None}, 0.5),
        ({}, [], 1.0),
        ({}, {}, 1.0),
        ([{}], [[]], 1.0),
    ],
)
def test_empty_values_count_as_in_the_package(true: object, said: object, expected: float) -> None:
    assert _value(true, said) == anls_score(true, said) == expected


@UNTIMED
@given(true=DOCUMENTS, said=DOCUMENTS)
def test_documents_score_as_in_the_authors_package(true: object, said: object) -> None:
    assert _value(true, said) == pytest.approx(anls_score(true, said))


@given(true=st.text() | WORDS, said=st.text() | WORDS)
def test_texts_score_as_in_the_authors_package(true: str, said: str) -> None:
    assume(not true.lstrip().startswith(("{", "[")))
    assert value_of(AnlsStar(), said, true) == pytest.approx(anls_score(true, said))


@UNTIMED
@given(true=st.lists(VALUES, max_size=3) | st.dictionaries(KEYS, VALUES, max_size=3), said=VALUES)
def test_any_nested_value_scores_as_one_of_its_best_matchings_does(true: object, said: object) -> None:
    """The definition leaves a tie between matchings open; the package breaks it by the order of the items."""
    assume(not isinstance(said, str))
    open_values = [float(total / length) if length else 1.0 for total, length in _outcomes(true, said)]
    assert any(isclose(_value(true, said) or 0.0, value, abs_tol=1e-9) for value in open_values)
    assert any(isclose(anls_score(true, said), value, abs_tol=1e-9) for value in open_values)


@UNTIMED
@given(true=VALUES, said=VALUES, order=st.randoms(use_true_random=False))
def test_the_order_of_items_changes_nothing(true: object, said: object, order: Random) -> None:
    def shuffled(value: object) -> object:
        if isinstance(value, dict):
            return {key: shuffled(part) for key, part in value.items()}
        return order.sample([shuffled(part) for part in value], len(value)) if isinstance(value, list) else value

    assert _value([true], [said]) == pytest.approx(_value([shuffled(true)], [shuffled(said)]))


def test_of_two_best_matchings_the_shorter_one_counts_in_any_order() -> None:
    # Nothing in the lists is alike: matched by size they have 3 leaves, matched across they have 4.
    true, swapped = {"a": "x", "l": ["q", ["r", "s"]]}, {"a": "x", "l": [["t", "u"], "v"]}
    assert _value(true, swapped) == _value(true, {"a": "x", "l": ["v", ["t", "u"]]}) == 1 / 4
    assert anls_score(true, swapped) == 1 / 5


def test_of_two_best_matchings_of_the_same_length_the_one_more_alike_counts_in_any_order() -> None:
    # Three leaves either way: one of them half right, or one of them wholly.
    assert _value([["ac"], "ab"], [["ab"], ["ac", "ac"]]) == 1 / 3
    assert _value([["ac"], "ab"], [["ac", "ac"], ["ab"]]) == 1 / 3
    assert anls_score([["ac"], "ab"], [["ab"], ["ac", "ac"]]) == 1 / 6


def test_items_that_are_half_right_count_half() -> None:
    assert _value(["ab", "cd"], ["cy", "ax"]) == 0.5


def test_the_best_reference_counts_and_a_group_is_the_mean() -> None:
    measures = measure(
        AnlsStar(), [('{"a": "x"}', ['{"a": "y"}', '{"a": "x", "b": 1}']), ("abcd", ["abcx"]), ("x", [])]
    )
    assert measures.values == [0.5, 0.75, None]
    assert measures.reasons == [None, None, "no_reference"]
    assert combined(AnlsStar(), measures) == 0.625


@pytest.mark.parametrize("answer", ["", "total: 5", '{"a": 5', '{"a": 5, "a": 6}', '```json\n{"a": 5}\n```', "NaN"])
def test_an_answer_that_is_not_json_has_no_value_unless_it_is_worth_zero(answer: str) -> None:
    measures = measure(AnlsStar(), [(answer, ['{"a": 5}'])])
    assert (measures.values, measures.reasons) == ([None], ["invalid_json"])
    zero = measure(AnlsStar(on_invalid="zero"), [(answer, ['{"a": 5}']), ('{"a": 5}', ['{"a": 5}'])])
    assert zero.values == [0.0, 1.0]
    assert list(zero.statistics["invalid"]) == [1.0, 0.0]
    assert combined(AnlsStar(on_invalid="zero"), zero) == 0.5


def test_repair_reads_a_fence_or_the_first_balanced_value_of_the_references_kind() -> None:
    metric = AnlsStar(repair=True)
    assert value_of(metric, '```json\n{"a": 5}\n```', '{"a": 5}') == 1.0
    assert value_of(metric, 'Here is [1]: {"a": 5}.', '{"a": 5}') == 1.0
    assert value_of(metric, 'Here is {"a": 5} and [1].', "[1]") == 1.0
    assert "code fence" not in AnlsStar().description.normaliser
    assert "code fence" in metric.description.normaliser


@pytest.mark.parametrize("reference", ['{"a": 1,}', '{"a": 1, "a": 2}', '["a", NaN]', '[{"a": 1}'])
def test_a_reference_that_is_meant_as_json_and_is_not_has_no_value(reference: str) -> None:
    measures = measure(AnlsStar(), [('{"a": 1}', [reference])])
    assert measures.reasons == ["invalid_reference"]


def test_a_text_in_brackets_is_a_text() -> None:
    assert value_of(AnlsStar(), "[illegible]", "[illegible]") == 1.0


def test_what_would_take_too_long_has_no_value() -> None:
    long, half, short = ["x"] * 2001, ["x"] * 2000, ["x", "y"]
    measures = measure(
        AnlsStar(),
        [
            (json.dumps(long), [json.dumps(half)]),
            (json.dumps(half), [json.dumps(half)]),
            (json.dumps(long), [json.dumps(short)]),
            ("x" * 400_000, ["y" * 200_000]),
            ("y" * 1_000_000, ["y"]),
            (json.dumps([["x"]] * 201), [json.dumps([["x"]] * 200)]),
        ],
    )
    assert measures.reasons == ["too_large", None, None, "too_large", None, "too_large"]
    assert measures.values[1:3] == [1.0, 1 / 2001]


def test_a_reference_that_would_take_too_long_might_have_been_the_best() -> None:
    long = json.dumps(["x"] * 2001)
    assert measure(AnlsStar(), [(long, ['["y"]', long])]).reasons == ["too_large"]


def _outcomes(true: object, said: object) -> set[tuple[Fraction, int]]:
    """Sum of similarities and length of every best matching, in exact arithmetic (Peer et al. 2024, section 3)."""
    longer = max(_leaves(true), _leaves(said))
    if isinstance(true, dict) and isinstance(said, dict):
        keys = [_outcomes(true[key], said.get(key)) for key in true]
        made_up = sum(max(1, _leaves(said[key])) for key in said.keys() - true.keys())
        return {(sum((t for t, _ in part), Fraction()), made_up + sum(n for _, n in part)) for part in product(*keys)}
    if isinstance(true, list) and isinstance(said, list):
        return set().union(*(_matchings(true, said, cells) for cells in _choices(true, said)))
    if true is None:
        return {(Fraction(said in (None, "", [], {})), longer)}
    if isinstance(true, (dict, list)) or said is None or isinstance(said, (dict, list)):
        return {(Fraction(), longer)}
    own, counterpart = (" ".join(str(text).lower().split()) for text in (true, said))
    wrong, most = Levenshtein.distance(own, counterpart), max(len(own), len(counterpart), 1)
    return {(1 - Fraction(wrong, most) if 2 * wrong <= most else Fraction(), 1)}


def _choices(true: list[object], said: list[object]) -> list[tuple[tuple[Fraction, int], ...]]:
    cells = [sorted(_outcomes(part, counterpart)) for part in true for counterpart in said]
    assume(prod(map(len, cells)) <= 16)
    return list(product(*cells))


def _matchings(
    true: list[object], said: list[object], cells: tuple[tuple[Fraction, int], ...]
) -> set[tuple[Fraction, int]]:
    found = []
    size = min(len(true), len(said))
    for rows in permutations(range(len(true)), size):
        for columns in permutations(range(len(said)), size):
            chosen = [cells[row * len(said) + column] for row, column in zip(rows, columns, strict=True)]
            rest = sum(_leaves(true[row]) for row in {*range(len(true))} - {*rows})
            rest += sum(_leaves(said[column]) for column in {*range(len(said))} - {*columns})
            averages = sum(Fraction(total, length) if length else 1 for total, length in chosen)
            found.append((averages, sum((t for t, _ in chosen), Fraction()), rest + sum(n for _, n in chosen)))
    highest = max(average for average, _, _ in found)
    return {(total, length) for average, total, length in found if average == highest}


def _leaves(value: object) -> int:
    if isinstance(value, dict):
        return sum(map(_leaves, value.values()))
    return sum(map(_leaves, value)) if isinstance(value, list) else 1
