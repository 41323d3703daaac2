"""The verdict on an ensemble: three sentences that claim no more than the interval."""

from __future__ import annotations

import pytest

from tests.support.wording import Wording
from vlmhyperbench.analysis.ensemble_costs import Costs
from vlmhyperbench.analysis.ensembles import MemberUplift, Uplift
from vlmhyperbench.analysis.worth import Worth, verdict


def uplift(
    value: float, low: float | None, high: float | None, *, p_value: float = 0.01, is_constant: bool = False
) -> Uplift:
    member = MemberUplift(
        name="reader", value=0.75, interval=None, uplift=value, uplift_interval=None, p_value=p_value, best_share=1.0
    )
    return Uplift(
        samples=200,
        left_out=0,
        units=100,
        value=0.8,
        interval=None,
        best="reader",
        uplift=value,
        low=low,
        high=high,
        members=(member,),
        is_constant=is_constant,
    )


COSTS = Costs(seconds=3.0, best_seconds=1.0, bytes=6_000_000_000, best_bytes=2_000_000_000, uplift=0.05)


@pytest.mark.parametrize(
    ("low", "high", "worth"),
    [(0.01, 0.09, "better"), (-0.01, 0.11, "not_shown"), (-0.09, -0.01, "worse"), (None, None, "not_shown")],
)
def test_the_verdict_follows_the_interval(
    low: float | None, high: float | None, worth: Worth, wording: Wording
) -> None:
    result = verdict(uplift(0.05 if worth != "worse" else -0.05, low, high), COSTS)
    assert result.worth == worth
    assert ("for each extra" in result.text) == (worth == "better")
    wording(result.text)


def test_what_was_not_measured_is_not_compared(wording: Wording) -> None:
    costs = Costs(seconds=1.0, best_seconds=0.0, bytes=None, best_bytes=None, uplift=0.05)
    wording(verdict(uplift(0.05, 0.01, 0.09), costs).text)


def test_an_interval_of_a_handful_of_documents_needs_the_test_too() -> None:
    assert verdict(uplift(0.05, 0.01, 0.09, p_value=0.5), COSTS).worth == "not_shown"
    assert verdict(uplift(-0.05, -0.09, -0.01, p_value=0.5), COSTS).worth == "not_shown"


@pytest.mark.parametrize(("value", "worth"), [(-1.0, "worse"), (1.0, "better"), (0.0, "not_shown")])
def test_a_difference_without_variance_is_judged_by_the_test(value: float, worth: Worth, wording: Wording) -> None:
    result = verdict(uplift(value, None, None, is_constant=True), COSTS, who="The stage read")
    assert result.worth == worth
    wording(result.quality)
