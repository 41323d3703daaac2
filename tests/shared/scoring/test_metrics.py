"""The metric that a run pins is opened, or it is said why not."""

from __future__ import annotations

import pytest

from tests.support.wording import Wording
from vlmhyperbench.domain.specs import MetricSpec
from vlmhyperbench.scoring.metrics import Policy, open_answering, open_failing, open_metric
from vlmhyperbench_sdk.errors import Conflict, InvalidInput, NotFound, PluginFailure
from vlmhyperbench_sdk.types import JsonValue

EXACT = MetricSpec(name="exact_match", profile="v1", version="1.0.0", class_path="exact_match")


class Broken:
    """A class that is registered nowhere and cannot be constructed."""

    def __init__(self, *, profile: str) -> None:
        raise ZeroDivisionError("no weights")


class Indescribable:
    """A class whose description cannot be made."""

    def __init__(self, *, profile: str, known: bool = False) -> None:
        self._error = InvalidInput("It lacks its table.") if known else ZeroDivisionError("no table")

    @property
    def description(self) -> None:
        raise self._error


def test_a_registered_metric_is_opened_in_its_profile() -> None:
    anls = open_metric(EXACT.model_copy(update={"name": "anls", "class_path": "anls", "profile": "inclusive"}))
    assert (anls.description.name, anls.description.profile) == ("anls", "inclusive")


def test_params_are_keywords_and_the_pinned_profile_wins_over_them() -> None:
    metric = open_metric(EXACT.model_copy(update={"params": {"yo_fold": True, "profile": "other"}}))
    assert metric.description.profile == "v1"
    assert metric.description.normaliser.endswith("+ yo_fold")


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"class_path": "exact_mach"}, NotFound),
        ({"class_path": "no_such_module:Metric"}, NotFound),
        ({"class_path": f"{__name__}:Brokn"}, NotFound),
        ({"profile": "nonsense"}, InvalidInput),
        ({"params": {"nonsense": 1}}, InvalidInput),
        ({"params": {"strip_punct": "no"}}, InvalidInput),
        ({"version": "2.0.0"}, Conflict),
        ({"class_path": f"{__name__}:Broken"}, PluginFailure),
        ({"class_path": f"{__name__}:Indescribable"}, PluginFailure),
        ({"class_path": f"{__name__}:Indescribable", "params": {"known": True}}, InvalidInput),
    ],
)
def test_a_metric_that_cannot_be_had_says_why(
    changes: dict[str, object], error: type[Exception], wording: Wording
) -> None:
    with pytest.raises(error) as refused:
        open_metric(EXACT.model_copy(update=changes))
    wording(refused.value)


def test_failures_have_the_worst_value_even_where_unreadable_answers_are_excluded() -> None:
    spec = MetricSpec(
        name="anls_star",
        profile="paper",
        version="1.0.0",
        class_path="anls_star",
        params={"on_invalid": "exclude"},
    )
    excluded, failed = (
        opened.measure([""], [['{"total": 1}']]).values for opened in (open_metric(spec), open_failing(spec))
    )
    assert (excluded, failed) == ([None], [0.0])
    assert open_failing(EXACT).description == open_metric(EXACT).description


@pytest.mark.parametrize(
    ("params", "policy", "value"),
    [
        ({}, "zero", 0.0),
        ({}, "exclude", None),
        ({"on_invalid": "exclude"}, "zero", None),
        ({"on_invalid": "zero"}, "exclude", 0.0),
    ],
)
def test_the_params_of_a_metric_win_over_the_policy_of_its_run(
    params: dict[str, JsonValue], policy: Policy, value: float | None
) -> None:
    spec = MetricSpec(name="anls_star", profile="paper", version="1.0.0", class_path="anls_star", params=params)
    metric = open_answering(spec, on_invalid=policy)
    assert metric.measure(["no JSON"], [['{"total": 1}']]).values == [value]


def test_a_metric_that_knows_no_such_policy_is_opened_as_it_is() -> None:
    assert open_answering(EXACT, on_invalid="zero").description == open_metric(EXACT).description
