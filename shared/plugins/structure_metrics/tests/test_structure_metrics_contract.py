"""Every metric of the package keeps the SDK's contract, in every profile, and is found by its name."""

from __future__ import annotations

import pytest

from tests.support.wording import Wording
from vlmhyperbench_sdk import discovery
from vlmhyperbench_sdk.errors import InvalidInput
from vlmhyperbench_sdk.protocols import Metric
from vlmhyperbench_sdk.testing.metrics import MetricCase, check_metric, in_every_profile, names_of
from vlmhyperbench_structure_metrics.ordering import Ordering

NAMES = names_of("vlmhyperbench-structure-metrics")
METRICS: list[Metric] = [
    *in_every_profile(NAMES),
    *(Ordering(profile=profile, on_invalid="zero") for profile in Ordering.profiles),
]
CASES = [
    MetricCase(prediction=prediction, references=references)
    for prediction in ("[1, 2, 3]", "3, 1, 2", "[3, 2, 1]", "[1]", "[]", "{}", "[1, 1, 2]", '["a", "b"]')
    for references in (("[1, 2, 3]",), ("[2, 1, 3]", "[3, 2, 1]"), ("[1]",), ('["b", "a"]', "no list"), ("3",))
]


@pytest.mark.parametrize(
    "metric", METRICS, ids=lambda metric: f"{metric.description.name}@{metric.description.profile}"
)
def test_a_metric_keeps_the_contract(metric: Metric) -> None:
    check_metric(metric, cases=CASES)


@pytest.mark.parametrize("name", NAMES)
def test_an_unknown_profile_is_refused(name: str, wording: Wording) -> None:
    with pytest.raises(InvalidInput) as refused:
        discovery.load("metrics", name)(profile="nonsense")
    wording(refused.value)
