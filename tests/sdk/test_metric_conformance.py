"""The conformance suite of metrics: a sound metric passes, and each way to break the contract is caught."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import pytest

from tests.support.wording import Wording
from vlmhyperbench_sdk.errors import PluginFailure
from vlmhyperbench_sdk.protocols import MetricDescription
from vlmhyperbench_sdk.testing.metrics import MetricCase, breaches_of, check_metric
from vlmhyperbench_sdk.types import JsonObject, Measures

DESCRIPTION = MetricDescription(
    name="same",
    profile="plain",
    version="1.0.0",
    title="Same",
    kind="text",
    unit="1",
    range=(0.0, 1.0),
    direction="higher",
    aggregation="mean",
    proportion=True,
    normaliser="none",
    formula="1 if equal",
    source="this test",
)
Change = Callable[[Measures, Sequence[str]], Measures]


class Same:
    """Exact equality; each test breaks one thing."""

    def __init__(
        self,
        *,
        description: MetricDescription = DESCRIPTION,
        change: Change = lambda measures, _: measures,
        combine: Callable[[dict[str, float]], float | None] | None = None,
    ) -> None:
        self.description = description
        self._change = change
        self._combine = combine or (lambda sums: sums["right"] / sums["count"] if sums["count"] else None)

    def measure(
        self,
        predictions: Sequence[str],
        references: Sequence[Sequence[str]],
        *,
        metadata: Sequence[JsonObject] | None = None,
    ) -> Measures:
        values = [float(answer in own) if own else None for answer, own in zip(predictions, references, strict=True)]
        measures = Measures(
            values=values,
            reasons=[None if value is not None else "no_reference" for value in values],
            statistics={"right": [value or 0.0 for value in values], "count": [float(v is not None) for v in values]},
        )
        return self._change(measures, predictions)

    def combine(self, sums: Mapping[str, float]) -> float | None:
        return self._combine(sums)


def _first(number: float | None) -> Change:
    """Replace the first value."""
    return lambda measures, _: replace(measures, values=[number, *measures.values[1:]] if measures.values else [])


def _statistics(measures: Measures, **columns: Sequence[float]) -> Measures:
    return replace(measures, statistics={**measures.statistics, **columns})


def _raise_on_nul(measures: Measures, predictions: Sequence[str]) -> Measures:
    if any("\x00" in text for text in predictions):
        raise ValueError("embedded null byte")
    return measures


def _raise_on_one(measures: Measures, predictions: Sequence[str]) -> Measures:
    if len(predictions) == 1:
        raise ValueError("too few")
    return measures


def _raise_on_nothing(measures: Measures, predictions: Sequence[str]) -> Measures:
    if not predictions:
        raise ValueError("nothing")
    return measures


def _share_of_batch(measures: Measures, predictions: Sequence[str]) -> Measures:
    return _statistics(
        measures, right=[1.0 / len(predictions) if value is not None else 0 for value in measures.values]
    )


def _by_place(measures: Measures, predictions: Sequence[str]) -> Measures:
    return _statistics(measures, early=[float(n < 20 and value is not None) for n, value in enumerate(measures.values)])


def _pollute(sums: dict[str, float]) -> float | None:
    value = sums["right"] / sums["count"] if sums["count"] else None
    sums["right"] += 1
    return value


def _crash(sums: dict[str, float]) -> float | None:
    raise ZeroDivisionError("no samples")


def test_a_sound_metric_passes() -> None:
    check_metric(Same())


def test_a_metrics_own_cases_are_checked_too(wording: Wording) -> None:
    def refuse(measures: Measures, predictions: Sequence[str]) -> Measures:
        if "own" in predictions:
            raise ValueError("own")
        return measures

    check_metric(Same(change=refuse))
    with pytest.raises(PluginFailure) as refused:
        check_metric(Same(change=refuse), cases=[MetricCase(prediction="own", references=("own",))])
    wording(refused.value)


@pytest.mark.parametrize(
    "metric",
    [
        Same(description=replace(DESCRIPTION, source=" ")),
        Same(description=replace(DESCRIPTION, range=(1.0, 0.0))),
        Same(description=replace(DESCRIPTION, range=(0.0, 2.0))),
        Same(description=replace(DESCRIPTION, aggregation="pooled")),
        Same(change=_raise_on_nul),
        Same(change=_raise_on_one),
        Same(change=_raise_on_nothing),
        Same(change=lambda measures, _: replace(measures, reasons=[])),
        Same(change=lambda measures, _: replace(measures, reasons=[None] * len(measures))),
        Same(change=lambda measures, _: replace(measures, reasons=["why"] * len(measures))),
        Same(change=lambda measures, _: _statistics(measures, count=[1.0] * len(measures))),
        Same(change=lambda measures, _: _statistics(measures, right=[float("nan")] * len(measures))),
        Same(change=_first(float("inf"))),
        Same(change=_first(2.0)),
        Same(change=_first(-1.0)),
        Same(change=_first(0.5)),
        Same(change=_share_of_batch),
        Same(change=_by_place),
        Same(combine=_pollute),
        Same(combine=_crash),
        Same(combine=lambda sums: sums["right"]),
        Same(combine=lambda sums: None),
        Same(combine=lambda sums: float("nan")),
        Same(combine=lambda sums: sums["right"] / max(sums["count"], 1)),
    ],
)
def test_a_breach_is_named(metric: Same, wording: Wording) -> None:
    wording("; ".join(breaches_of(metric))[:200])


def test_a_metric_that_scores_nothing_needs_cases_of_its_own(wording: Wording) -> None:
    def nothing(measures: Measures, predictions: Sequence[str]) -> Measures:
        zeros = [0.0] * len(measures)
        return Measures(
            values=[None] * len(measures), reasons=["?"] * len(measures), statistics={"right": zeros, "count": zeros}
        )

    [breach] = breaches_of(Same(change=nothing))
    wording(breach)


def test_an_empty_batch_must_give_no_measures(wording: Wording) -> None:
    def pad(measures: Measures, predictions: Sequence[str]) -> Measures:
        return (
            measures
            if predictions
            else Measures(values=[None], reasons=["?"], statistics={"right": [0.0], "count": [0.0]})
        )

    wording("\n".join(breaches_of(Same(change=pad))))
