"""Field accuracy and field F1: which fields belong together, what is counted, and by which name."""

from __future__ import annotations

import json
from fractions import Fraction
from itertools import permutations
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scoring_support import combined, measure, value_of

from vlmhyperbench_document_metrics.field_accuracy import FieldAccuracy
from vlmhyperbench_document_metrics.field_f1 import FieldF1
from vlmhyperbench_sdk.errors import InvalidInput
from vlmhyperbench_sdk.types import Measures

INVOICE = {
    "no": "A-17",
    "total": 12.5,
    "items": [{"name": "tea", "price": 4}, {"name": "milk", "price": 8.5}],
}
"""6 fields."""
VALUES = st.sampled_from(["a", "b", "c", 1, 2, None])
ITEMS = st.lists(st.dictionaries(st.sampled_from(["k", "l", "m"]), VALUES, max_size=3), max_size=4)
DOCUMENTS = st.recursive(
    VALUES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["k", "l"]), inner, max_size=3),
    max_leaves=10,
).filter(lambda value: isinstance(value, (dict, list)))


def _sample(metric: FieldAccuracy | FieldF1, said: object, *true: object) -> dict[str, float]:
    measures = measure(metric, [(json.dumps(said), list(map(json.dumps, true)))])
    assert measures.reasons == [None]
    return {name: column[0] for name, column in measures.statistics.items()}


@pytest.mark.parametrize(
    ("said", "right", "predicted"),
    [
        (INVOICE, 6, 6),
        (INVOICE | {"items": INVOICE["items"][::-1]}, 6, 6),
        (INVOICE | {"no": "A-18"}, 5, 6),
        (INVOICE | {"no": None}, 5, 5),
        (INVOICE | {"date": "2024-01-02"}, 6, 7),
        (INVOICE | {"items": INVOICE["items"][:1]}, 4, 4),
        (INVOICE | {"items": [*INVOICE["items"], {"name": "tea", "price": 4}]}, 6, 8),
        (INVOICE | {"items": INVOICE["items"][0]}, 2, 4),
        (INVOICE | {"items": [["tea", 4]]}, 2, 4),
        ([INVOICE], 0, 6),
        ("A-17", 0, 1),
        (None, 0, 0),
        ({}, 0, 0),
    ],
)
def test_right_predicted_and_expected_fields_are_counted(said: object, right: int, predicted: int) -> None:
    counts = _sample(FieldF1(), said, INVOICE)
    assert (counts["right"], counts["predicted"], counts["expected"]) == (right, predicted, 6)
    assert value_of(FieldF1(), json.dumps(said), json.dumps(INVOICE)) == pytest.approx(2 * right / (predicted + 6))
    assert value_of(FieldAccuracy(), json.dumps(said), json.dumps(INVOICE)) == pytest.approx(right / 6)


def test_items_are_matched_by_the_highest_sum_of_their_f1_not_one_after_another() -> None:
    # The first item shares 2 of 3 fields with either; only the second needs the first of the reference.
    true = [{"a": 1, "b": 1, "c": 1}, {"a": 1, "b": 1, "c": 2}]
    said = [{"a": 1, "b": 1, "c": 3}, {"a": 1, "b": 1, "c": 1}]
    assert _sample(FieldF1(), said, true)["right"] == 5.0


def test_of_two_matchings_with_the_same_f1_the_one_with_more_right_fields_counts() -> None:
    said, small, large = {"a": 1, "b": 2}, {"a": 1}, {"a": 1, "b": 2, "c": 3, "d": 4}  # 2 / 3 and 4 / 6
    assert _sample(FieldF1(), [said], [small, large])["right"] == 2.0
    assert _sample(FieldF1(), [said], [large, small])["right"] == 2.0


def test_lists_in_lists_and_lists_of_texts_are_matched_too() -> None:
    true = {"table": [["a", "b"], ["c", "d", "e"]], "tags": ["x", "y", "y"]}
    said = {"table": [["e", "d"], ["b", "a"]], "tags": ["y", "x", "z"]}
    counts = _sample(FieldF1(), said, true)
    assert (counts["right"], counts["predicted"], counts["expected"]) == (6.0, 7.0, 8.0)
    assert counts["expected:table[][]"] == 5.0
    assert counts["right:tags[]"] == 2.0


def test_statistics_name_every_field_of_the_reference() -> None:
    said = {"no": "A-18", "total": "12.50", "items": [{"name": "milk", "price": 1, "unit": "l"}], "extra": {"a": 1}}
    counts = _sample(FieldAccuracy(), said, INVOICE)
    assert {name: number for name, number in counts.items() if ":" in name} == {
        "expected:no": 1.0,
        "right:no": 0.0,
        "expected:total": 1.0,
        "right:total": 1.0,
        "expected:items[].name": 2.0,
        "right:items[].name": 1.0,
        "expected:items[].price": 2.0,
        "right:items[].price": 0.0,
    }
    assert not any(":" in name for name in _sample(FieldAccuracy(per_field=False), said, INVOICE))


def test_fields_add_up_to_all_fields_however_many_there_are() -> None:
    many = {f"key {no}": no for no in range(150)}
    counts = _sample(FieldF1(), many | {"key 140": "x"}, many)
    named = [name for name in counts if ":" in name]
    assert len(named) == 200
    assert (counts["expected:key 98"], counts["expected:*"], counts["right:*"]) == (1.0, 51.0, 50.0)
    assert "expected:*" not in _sample(FieldF1(), {}, {f"key {no}": no for no in range(100)})
    assert sum(counts[name] for name in named if name.startswith("expected:")) == counts["expected"]


def test_a_field_that_few_samples_have_is_zero_in_all_others() -> None:
    measures = measure(FieldF1(), [('{"a": 1}', ['{"a": 1}']), ("{}", ['{"b": 1}']), ("?", ['{"a": 1}'])])
    column = measures.statistics["right:a"]
    assert list(column) == [column[0], column[1], column[-1]] == column[:] == column[-3:] == [1.0, 0.0, 0.0]
    assert len(column) == 3
    assert measures[1].statistics["expected:b"] == 1.0
    with pytest.raises(IndexError):
        column[3]


def test_long_and_strange_names_of_fields_are_cut_and_cleaned() -> None:
    true = {"k" * 1000 + "1": 1, "k" * 1000 + "2": 1, "a\0b\ud800": 1, "\u202e\u0633": 1, "": {"": 1}}
    names = {name.partition(":")[2] for name in _sample(FieldF1(), true, true) if ":" in name}
    assert {len(name) for name in names if name.startswith("kk")} == {100}
    assert len(names) == 5
    assert {"a\ufffdb\ufffd", "\u202e\u0633"} < names
    assert all(name.encode() for name in names if name)


@pytest.mark.parametrize("metric", [FieldAccuracy(), FieldF1()])
def test_a_group_is_pooled_and_combine_needs_no_field_statistics(metric: FieldAccuracy | FieldF1) -> None:
    small, large = {"a": 1}, {f"k{no}": no for no in range(9)}
    measures = measure(metric, [("{}", [json.dumps(small)]), (json.dumps(large), [json.dumps(large)]), ("?", ["{}"])])
    assert measures.values[:2] == [0.0, 1.0]
    assert combined(metric, measures) == (0.9 if metric.description.name == "field_accuracy" else 18 / 19)
    plain = {name: sum(column) for name, column in measures.statistics.items() if ":" not in name}
    assert metric.combine(plain) == combined(metric, measures)


def test_a_document_without_fields_has_no_accuracy_and_an_f1_of_one_for_silence() -> None:
    samples = [("{}", ["{}"]), ('{"a": 1}', ['{"a": null}'])]
    assert measure(FieldAccuracy(), samples).reasons == ["no_fields", "no_fields"]
    measures = measure(FieldF1(), samples)
    assert measures.values == [1.0, 0.0]
    assert combined(FieldF1(), Measures(values=[1.0], reasons=[None], statistics=_first(measures))) == 1.0


@pytest.mark.parametrize("answer", ["", "no idea", '{"a": 1,}', '{"a": 1, "a": 1}', '```json\n{"a": 1}\n```', "NaN"])
def test_an_answer_that_is_not_json_has_no_value_or_is_one_wrong_field(answer: str) -> None:
    for metric in (FieldAccuracy, FieldF1):
        assert measure(metric(), [(answer, ['{"a": 1}'])]).reasons == ["invalid_json"]
        zero = measure(metric(on_invalid="zero"), [(answer, ['{"a": 1}']), ('{"a": 1}', ['{"a": 1}'])])
        assert zero.values == [0.0, 1.0]
        assert list(zero.statistics["invalid"]) == [1.0, 0.0]
        assert combined(metric(on_invalid="zero"), zero) == 0.5
    assert measure(FieldF1(on_invalid="zero"), [(answer, ["{}"])]).values == [0.0]


def test_repair_reads_the_fence() -> None:
    assert value_of(FieldF1(repair=True), '```json\n{"a": 1}\n```', '{"a": 1}') == 1.0


def test_references_must_be_objects_or_arrays_and_the_best_counts() -> None:
    measures = measure(
        FieldF1(),
        [
            ('{"a": 1}', ["a: 1"]),
            ('{"a": 1}', ['"a"']),
            ('{"a": 1}', ['{"a": 1}', "7"]),
            ('{"a": 1}', []),
            ('{"a": 1}', ['{"a": 2}', '{"a": 1, "b": 1}', "[]"]),
        ],
    )
    assert measures.reasons == ["invalid_reference"] * 3 + ["no_reference", None]
    assert measures.values[4] == pytest.approx(2 / 3)
    assert measures.statistics["expected"][4] == 2.0


def test_what_would_take_too_long_has_no_value() -> None:
    items, more = [{"a": no} for no in range(2000)], [{"a": no} for no in range(2001)]
    measures = measure(
        FieldF1(profile="cer"),
        [
            (json.dumps(items[::-1]), [json.dumps(items)]),
            (json.dumps(more), [json.dumps(items)]),
            (json.dumps({"a": "x" * 400_000}), [json.dumps({"a": "y" * 200_000})]),
        ],
    )
    assert measures.reasons == [None, "too_large", "too_large"]
    assert measures.values[0] == 1.0


def test_a_param_that_is_no_flag_is_refused() -> None:
    with pytest.raises(InvalidInput, match="The param 'per_field'"):
        FieldF1(per_field="no")


@given(true=ITEMS, said=ITEMS)
def test_no_other_matching_of_items_has_a_higher_sum_of_f1(true: list[object], said: list[object]) -> None:
    """Every matching is tried; of the best ones that with the most right fields counts."""
    own, second = ([_filled(item) for item in side if _filled(item)] for side in (true, said))
    best = max(
        (sum(_f1(own[row], said) for row, said in pairs), sum(_shared(own[row], said) for row, said in pairs))
        for rows in permutations(range(len(own)), min(len(own), len(second)))
        for chosen in permutations(second, min(len(own), len(second)))
        for pairs in [list(zip(rows, chosen, strict=True))]
    )
    assert _sample(FieldF1(), said, true)["right"] == best[1]


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(true=DOCUMENTS, said=DOCUMENTS, order=st.randoms(use_true_random=False))
def test_the_order_of_keys_and_items_changes_no_count(true: object, said: object, order: Random) -> None:
    def shuffled(value: object) -> object:
        if isinstance(value, dict):
            return {key: shuffled(value[key]) for key in order.sample(list(value), len(value))}
        return order.sample([shuffled(item) for item in value], len(value)) if isinstance(value, list) else value

    names = ("right", "predicted", "expected")
    first, second = _sample(FieldF1(), said, true), _sample(FieldF1(), shuffled(said), shuffled(true))
    assert [first[name] for name in names] == [second[name] for name in names]


@given(document=DOCUMENTS)
def test_a_document_is_right_in_all_its_fields(document: object) -> None:
    counts = _sample(FieldF1(), document, document)
    assert counts["right"] == counts["predicted"] == counts["expected"]


def _first(measures: Measures) -> dict[str, list[float]]:
    return {name: [column[0]] for name, column in measures.statistics.items()}


def _filled(item: dict[str, object]) -> dict[str, object]:
    return {key: value for key, value in item.items() if value is not None}


def _shared(true: dict[str, object], said: dict[str, object]) -> int:
    return sum(key in said and said[key] == value for key, value in true.items())


def _f1(true: dict[str, object], said: dict[str, object]) -> Fraction:
    return Fraction(2 * _shared(true, said), len(true) + len(said))
