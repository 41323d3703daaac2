"""Ordering against scipy, and which answers are an order."""

from __future__ import annotations

import itertools
import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from vlmhyperbench_sdk.errors import InvalidInput
from vlmhyperbench_structure_metrics.ordering import Ordering

TRUE = "[1, 2, 3, 4]"


def value_of(prediction: str, *references: str, profile: str = "kendall_tau") -> float | None:
    return Ordering(profile=profile).measure([prediction], [references]).values[0]


@pytest.mark.parametrize(
    ("prediction", "tau", "rho", "places"),
    [
        ("[1, 2, 3, 4]", 1.0, 1.0, 1.0),
        ("[2, 1, 3, 4]", 4 / 6, 0.8, 0.5),  # one of six pairs is the wrong way round; d² sums to 2
        ("[2, 1, 4, 3]", 2 / 6, 0.6, 0.0),
        ("[4, 3, 2, 1]", -1.0, -1.0, 0.0),
        ("[2, 3, 4, 1]", 0.0, -0.2, 0.0),
    ],
)
def test_orders_by_head(prediction: str, tau: float, rho: float, places: float) -> None:
    assert value_of(prediction, TRUE) == tau
    assert value_of(prediction, TRUE, profile="spearman_rho") == pytest.approx(rho)
    assert value_of(prediction, TRUE, profile="positional_accuracy") == places


@given(st.integers(2, 30).flatmap(lambda size: st.tuples(*[st.permutations(range(size))] * 2)))
def test_any_order_agrees_with_scipy(orders: tuple[list[int], list[int]]) -> None:
    answer, true = orders
    pages = sorted(true)
    ranks = [answer.index(page) for page in pages], [true.index(page) for page in pages]
    texts = json.dumps(answer), json.dumps(true)
    assert value_of(*texts) == pytest.approx(stats.kendalltau(*ranks).statistic)
    assert value_of(*texts, profile="spearman_rho") == pytest.approx(stats.spearmanr(*ranks).statistic)


def test_every_order_of_five_pages_agrees_with_scipy() -> None:
    orders = list(itertools.permutations(range(5)))
    values = Ordering().measure([json.dumps(order) for order in orders], [["[0, 1, 2, 3, 4]"]] * len(orders)).values
    assert values == pytest.approx([stats.kendalltau(order, range(5)).statistic for order in orders])


@pytest.mark.parametrize("profile", ["kendall_tau", "spearman_rho", "positional_accuracy"])
@pytest.mark.parametrize("prediction", ["[1, 2, 3]", "[1, 2, 3, 5]", "[1, 2, 3, 4, 4]", "[1, 2, 3, 3]", "[]", "", " "])
def test_a_wrong_set_of_pages_is_zero(profile: str, prediction: str) -> None:
    measures = Ordering(profile=profile).measure([prediction], [[TRUE]])
    assert measures.values == [0.0]
    assert measures.statistics["wrong_pages"] == [1.0]


@pytest.mark.parametrize("profile", ["kendall_tau", "spearman_rho", "positional_accuracy"])
def test_a_single_page_is_right_or_wrong(profile: str) -> None:
    assert value_of("[7]", "[7]", profile=profile) == 1.0
    assert value_of("[8]", "[7]", profile=profile) == 0.0


@pytest.mark.parametrize(
    "prediction",
    [
        "[2, 1, 3]",
        " [2,1,3]\n",
        '["2", " 1", "03"]',
        "[2.0, 1, 3e0]",
        "2, 1, 3",
        "2,1,3.",
        "2 1 3",
        "2\n1\n3",
        "2; 1; 3",
        "2 -> 1 -> 3",
        "2→1→3",
        "(2, 1, 3)",
        "[2 1 3]",
        "[02, 1, 3]",
    ],
)
def test_ways_of_writing_an_order(prediction: str) -> None:
    assert value_of(prediction, "[2, 1, 3]", profile="positional_accuracy") == 1.0


def test_labels_are_pages_in_json_only() -> None:
    assert value_of('["cover", "B"]', '["cover", "B"]') == 1.0
    assert value_of('["b", "cover"]', '["cover", "B"]') == 0.0
    assert value_of("cover, B", '["cover", "B"]') is None


@pytest.mark.parametrize(
    "prediction",
    [
        "The order is 2, 1, 3",
        "```json\n[2, 1, 3]\n```",
        "two, one",
        "[2, null]",
        "[true, 1]",
        "[2.5, 1]",
        "[[2], [1]]",
        '[""]',
        "{}",
        "1.5, 2",
        "-1, 2",
        "٣, ١",
        "[1, 2",
        "1-2-3",
    ],
)
def test_what_is_no_order_is_unscored_or_zero(prediction: str) -> None:
    excluded = Ordering().measure([prediction], [["[2, 1, 3]"]])
    assert (excluded.values, excluded.reasons) == ([None], ["invalid_json"])
    zero = Ordering(on_invalid="zero").measure([prediction], [["[2, 1, 3]"]])
    assert (zero.values, zero.reasons) == ([0.0], [None])
    assert (zero.statistics["invalid"], zero.statistics["wrong_pages"]) == ([1.0], [0.0])


@pytest.mark.parametrize("reference", ["3", "3, 1, 2", "[]", "[1, 1]", '["1", 1]', "[null]", "{}", ""])
@pytest.mark.parametrize("on_invalid", ["exclude", "zero"])
def test_a_reference_that_is_no_order_leaves_its_sample_unscored(reference: str, on_invalid: str) -> None:
    metric = Ordering(on_invalid=on_invalid)
    measures = metric.measure(["[1]", "x"], [[reference], []])
    assert measures.values == [None, None]
    assert measures.reasons == ["invalid_reference", "no_reference"]


def test_the_best_reference_counts_and_a_group_is_the_mean() -> None:
    metric = Ordering()
    measures = metric.measure(
        ["[3, 2, 1]", "[1, 2]", "?", "[2, 1]"], [["[1, 2, 3]", "[3, 2, 1]", "no"], ["[2, 3]"], ["[1]"], ["[1, 2]"]]
    )
    assert measures.values == [1.0, 0.0, None, -1.0]
    assert metric.combine({name: math.fsum(column) for name, column in measures.statistics.items()}) == 0.0
    assert metric.combine({}) is None


def test_a_policy_that_is_none_is_refused() -> None:
    with pytest.raises(InvalidInput, match="on_invalid"):
        Ordering(on_invalid="maybe")


@pytest.mark.parametrize("text", ["1 " * 500_000, "[" * 1_000_000, "7" * 1_000_000, json.dumps(["x" * 1_000_000])])
def test_a_megabyte_is_read(text: str) -> None:
    assert Ordering(on_invalid="zero").measure([text], [["[1, 2]"]]).values == [0.0]


def test_a_thousand_pages_are_compared() -> None:
    pages = list(range(1000))
    assert value_of(json.dumps(pages[::-1]), json.dumps(pages)) == -1.0


def test_orders_are_shown_as_they_are_compared() -> None:
    assert Ordering().compared(["3, 01 -> 2.", "[3, 1, 2]", "no order"]) == ["3 → 1 → 2", "3 → 1 → 2", "no order"]
