"""Item count accuracy: how many items an answer lists, and how many of them are recognised."""

from __future__ import annotations

import json

import pytest
from scoring_support import combined, measure, value_of

from vlmhyperbench_document_metrics.item_count import ItemCountAccuracy
from vlmhyperbench_sdk.errors import InvalidInput

TEA, MILK, SALT = (
    {"name": name, "price": price, "unit": "kg"} for name, price in (("tea", 4), ("milk", 8), ("salt", 2))
)


def _values(answer: object, true: object) -> tuple[float | None, float | None]:
    texts = json.dumps(answer), json.dumps(true)
    return value_of(ItemCountAccuracy(), *texts), value_of(ItemCountAccuracy(profile="recognised"), *texts)


@pytest.mark.parametrize(
    ("answer", "count", "recognised"),
    [
        ([TEA, MILK], 1.0, 1.0),
        ([MILK, TEA], 1.0, 1.0),
        ([TEA], 0.5, 0.5),
        ([TEA, MILK, SALT], 2 / 3, 2 / 3),
        ([SALT, SALT], 1.0, 0.0),
        ([TEA, TEA], 1.0, 0.5),
        ([TEA, {"name": "milk", "price": 9, "unit": "kg"}], 1.0, 0.5),
        ([TEA, MILK | {"note": "cold"}], 1.0, 1.0),
        ([TEA, None, {}, {"name": ""}], 0.5, 0.5),
        (["tea", "milk"], 1.0, 0.0),
        (TEA, 0.0, 0.0),
        ([], 0.0, 0.0),
        (None, 0.0, 0.0),
    ],
)
def test_items_are_counted_and_recognised(answer: object, count: float, recognised: float) -> None:
    assert _values({"items": answer}, {"items": [TEA, MILK]}) == (pytest.approx(count), pytest.approx(recognised))


def test_an_item_is_recognised_at_an_f1_of_85_per_cent() -> None:
    # With 20 fields on both sides 17 right ones are exactly 0.85; with 7 and 6 right ones it is 12/14.
    for fields, right, expected in ((20, 17, 1.0), (20, 16, 0.0), (7, 6, 1.0), (6, 5, 0.0)):
        true = {f"k{no}": no for no in range(fields)}
        answer = true | {f"k{no}": "wrong" for no in range(right, fields)}
        assert _values([answer], [true])[1] == expected
    true = {f"k{no}": no for no in range(9)}  # 8 of 9 right and one made up: 16 / 19 = 0.842
    assert _values([true | {"k8": "wrong", "k9": 9}], [true])[1] == 0.0


def test_the_rule_decides_what_is_recognised() -> None:
    true, answer = [{"name": "abcdefghij"}], [{"name": "abcdefghik"}]
    for rule, expected in (("exact", 0.0), ("similarity", 1.0), ("cer", 1.0)):
        metric = ItemCountAccuracy(profile="recognised", rule=rule)
        assert value_of(metric, json.dumps(answer), json.dumps(true)) == expected
    with pytest.raises(InvalidInput, match=r"'rule' .*'close'"):
        ItemCountAccuracy(rule="close")


def test_all_item_lists_of_the_document_add_up_and_lists_of_values_are_none() -> None:
    true = {"items": [TEA, MILK], "fees": [{"name": "card"}], "tags": ["a", "b"], "rows": [["a"]]}
    answer = {"items": [TEA], "fees": [{"name": "card"}, {"name": "cash"}, {"name": "bill"}], "tags": []}
    assert _values(answer, true) == (2 / 5, 2 / 5)


def test_a_list_inside_of_an_item_belongs_to_the_matched_item() -> None:
    true = [TEA | {"parts": [{"no": 1}, {"no": 2}]}, MILK | {"parts": [{"no": 3}]}]
    answer = [MILK | {"parts": [{"no": 3}]}, TEA | {"parts": [{"no": 1}]}]
    # 2 of 2 items, 1 of 2 and 1 of 1 parts; milk is recognised, tea is at 2 * 4 / 9.
    assert _values(answer, true) == (4 / 5, 4 / 5)
    assert _values([{"name": "salt", "parts": [{"no": 9}]}], true[:1]) == (1 / 3, 0.0)


def test_an_empty_list_counts_what_is_made_up() -> None:
    assert _values({"items": []}, {"items": []}) == (1.0, 1.0)
    assert _values({}, {"items": []}) == (1.0, 1.0)
    assert _values({"items": [TEA]}, {"items": []}) == (0.0, 0.0)


def test_a_document_without_item_lists_has_no_value() -> None:
    measures = measure(ItemCountAccuracy(), [('{"items": [{}]}', ['{"no": "A-17", "tags": ["a"]}'])])
    assert (measures.values, measures.reasons) == ([None], ["no_item_lists"])


def test_a_group_is_pooled_from_its_statistics() -> None:
    samples = [
        (json.dumps([TEA, MILK, SALT]), [json.dumps([TEA])]),
        (json.dumps([TEA]), [json.dumps([TEA, MILK])]),
        ("[]", ["[]"]),
    ]
    measures = measure(ItemCountAccuracy(), samples)
    assert measures.values == [1 / 3, 1 / 2, 1.0]
    sums = {name: sum(column) for name, column in measures.statistics.items()}
    assert (sums["items_expected"], sums["items_predicted"], sums["items_recognised"]) == (3.0, 4.0, 2.0)
    assert combined(ItemCountAccuracy(), measures) == 2 / 5
    assert combined(ItemCountAccuracy(), measure(ItemCountAccuracy(), samples[2:])) == 1.0


def test_an_answer_that_is_not_json_has_no_value_or_is_worth_zero() -> None:
    samples = [("no items", [json.dumps([TEA])]), ("no items", ["[]"])]
    assert measure(ItemCountAccuracy(), samples).reasons == ["invalid_json"] * 2
    for profile in ("count", "recognised"):
        metric = ItemCountAccuracy(profile=profile, on_invalid="zero")
        measures = measure(metric, samples)
        assert measures.values == [0.0, 0.0]
        assert combined(metric, measures) == 0.0
        assert list(measures.statistics["invalid"]) == [1.0, 1.0]
