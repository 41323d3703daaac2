"""Where interval, p-value and adjusted p-value of a difference disagree, the difference names the reason."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import polars
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.shared.analysis.test_gates import DELTA
from vlmhyperbench.analysis.comparison import SIGNIFICANT, Delta, Measured, Verdict, compare_metrics
from vlmhyperbench_text_metrics.exact_match import ExactMatch


def measured(values: Sequence[float], *, definition: str = "", per_document: int = 1) -> Measured:
    metric = ExactMatch()
    keys = [f"s{i}" for i in range(len(values))]
    clusters = [f"d{i // per_document}" for i in range(len(values))]
    columns = {"key": keys, "repeat": [0] * len(values), "cluster": clusters, "value": list(values)}
    return Measured(
        key=metric.description.name,
        label=metric.description.title,
        definition=definition,
        description=metric.description,
        combine=metric.combine,
        frame=polars.DataFrame(columns),
    )


def compare(first: Sequence[float], second: Sequence[float], *, metrics: int = 1, per_document: int = 1) -> list[Delta]:
    sides = [
        [measured(values, definition=str(no), per_document=per_document) for no in range(metrics)]
        for values in (first, second)
    ]
    return compare_metrics(sides[0], sides[1])


@given(values=st.lists(st.tuples(st.booleans(), st.booleans()), min_size=2, max_size=40), documents=st.integers(1, 3))
def test_interval_and_p_values_agree_or_the_reason_is_named(values: list[tuple[bool, bool]], documents: int) -> None:
    first, second = zip(*[(float(before), float(after)) for before, after in values], strict=True)
    for delta in compare(first, second, metrics=4, per_document=documents):
        is_shown = {None if delta.low is None else not delta.holds_zero}
        is_shown |= {p < SIGNIFICANT for p in (delta.p_value, delta.p_adjusted) if p is not None}
        assert (len(is_shown - {None}) > 1) == (delta.disagreement is not None)
        if delta.verdict in {Verdict.BETTER, Verdict.WORSE, Verdict.DIFFERS}:
            assert delta.disagreement is None


def test_the_interval_of_three_mended_answers_excludes_0_and_the_exact_test_does_not() -> None:
    (delta,) = compare([1.0] * 57 + [0.0] * 3, [1.0] * 60)
    assert delta.low is not None
    assert delta.low > 0
    assert delta.p_value == 0.25
    assert (delta.disagreement, delta.verdict) == ("test", Verdict.NOT_SHOWN)


def test_a_difference_that_the_adjustment_for_several_metrics_removes_is_named() -> None:
    delta, *_ = compare([1.0] * 54 + [0.0] * 6, [1.0] * 60, metrics=3)
    assert delta.p_value == pytest.approx(0.03125)
    assert (delta.tested, delta.disagreement, delta.verdict) == (3, "holm", Verdict.NOT_SHOWN)


def test_an_interval_that_includes_0_while_the_test_rejects_it_is_named() -> None:
    delta = replace(DELTA, difference=0.1, low=-0.01, high=0.2, p_value=0.04, p_adjusted=0.04)
    assert delta.disagreement == "interval"


def test_a_difference_that_was_not_tested_has_no_disagreement() -> None:
    elsewhere = replace(measured([1.0]), frame=measured([1.0]).frame.with_columns(key=polars.lit("another")))
    (delta,) = compare_metrics([measured([0.0])], [elsewhere])
    assert (delta.p_value, delta.disagreement) == (None, None)
