"""What verdicts are worth: the mean of both orders, and nothing known where one of them cannot be read."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.shared.domain.builders_of_jobs import JUDGING, judge_metric
from vlmhyperbench.errors import InvalidInput
from vlmhyperbench.scoring.judge import KEY, NO_VERDICT, UNREADABLE, Judge
from vlmhyperbench.scoring.metrics import open_metric
from vlmhyperbench_sdk.types import JsonObject, JsonValue, Measures

PREFERRING = {"first": "first", "second": "second", "tie": 0.5}


def said(*texts: str | None) -> JsonObject:
    """Verdicts on one answer, in the one order and the other by turns."""
    orders = ("reference_first", "answer_first")
    given: JsonValue = [{"order": orders[no % 2], "repeat": no // 2, "text": text} for no, text in enumerate(texts)]
    return {KEY: given}


def measured(*answers: JsonObject, **changes: object) -> Measures:
    judge = open_metric(judge_metric(**changes))
    return judge.measure(["x"] * len(answers), [["y"]] * len(answers), metadata=list(answers))


def test_an_answer_is_worth_the_mean_of_its_verdicts() -> None:
    found = measured(said("yes", "Yes."), said(" no ", "NO!"), said("yes", "no"))
    assert list(found.values) == [1.0, 0.0, 0.5]
    assert found.statistics["orders"] == [1.0, 1.0, 1.0]
    assert found.statistics["orders_agree"] == [1.0, 1.0, 0.0]


def test_repeats_that_differ_are_counted() -> None:
    found = measured(said("yes", "yes", "no", "yes"), repeats=2)
    assert list(found.values) == [0.75]
    assert (found.statistics["repeats"], found.statistics["repeats_agree"]) == ([2.0], [1.0])


def test_orders_are_compared_repeat_by_repeat() -> None:
    found = measured(said("yes", "no", "perhaps", "yes", "no", "no"), repeats=3)
    assert (found.statistics["orders"], found.statistics["orders_agree"]) == ([2.0], [1.0])


@pytest.mark.parametrize("texts", [("yes", "perhaps"), ("yes", None), ("", ""), ("yes and no", "yes")])
def test_a_verdict_that_cannot_be_read_is_unavailable_and_never_zero(texts: tuple[str | None, ...]) -> None:
    found = measured(said(*texts))
    assert (list(found.values), list(found.reasons)) == ([None], [UNREADABLE])


def test_a_judge_that_never_answered_gave_no_verdict() -> None:
    assert list(measured(said(None, None)).reasons) == [NO_VERDICT]


def test_a_preference_is_worth_where_the_answer_stood() -> None:
    found = measured(said("second", "first"), said("first", "first"), said("tie", "tie"), labels=PREFERRING)
    assert list(found.values) == [1.0, 0.5, 0.5]


def test_one_order_is_enough_where_no_other_is_asked_for() -> None:
    only: JsonObject = {KEY: [{"order": "reference_first", "repeat": 0, "text": "yes"}]}
    assert list(measured(only, swap=False).values) == [1.0]
    assert list(measured(only).reasons) == [UNREADABLE]


def test_what_was_never_answered_counts_as_wrong() -> None:
    judge = open_metric(judge_metric())
    assert list(judge.measure(["", ""], [["y"], ["y"]], metadata=[{}, {}]).values) == [0.0, 0.0]
    assert list(judge.measure([""], [["y"]]).values) == [0.0]


def test_sums_combine_to_the_mean() -> None:
    judge = Judge(**JUDGING.model_dump(mode="json"))
    assert judge.combine({"worth": 1.5, "count": 2.0}) == 0.75
    assert judge.combine({}) is None
    assert judge.description.title == "Wise one"


def test_params_that_are_none_of_a_judge_are_refused() -> None:
    with pytest.raises(InvalidInput, match="A judge's params: target"):
        Judge(prompt="x")
    with pytest.raises(InvalidInput, match="no profile 'v2'"):
        Judge(profile="v2")


@given(st.lists(st.sampled_from(["yes", "no"]), min_size=2, max_size=2))
def test_which_order_comes_first_changes_nothing(texts: list[str]) -> None:
    assert measured(said(*texts)).values == measured(said(*reversed(texts))).values
