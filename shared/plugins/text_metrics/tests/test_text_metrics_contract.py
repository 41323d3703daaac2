"""Every metric of the package keeps the SDK's contract, in every profile, and is found by its name."""

from __future__ import annotations

import pytest

import vlmhyperbench_text_metrics
from vlmhyperbench_sdk import discovery
from vlmhyperbench_sdk.errors import InvalidInput
from vlmhyperbench_sdk.protocols import Metric
from vlmhyperbench_sdk.testing.metrics import check_metric
from vlmhyperbench_text_metrics import Accuracy, Anls, Bleu, Cer, ExactMatch, Wer

METRICS: list[Metric] = [
    ExactMatch(),
    ExactMatch(strip_punct=True, yo_fold=True, words_to_digits=True),
    Accuracy(),
    Accuracy(labels=["the cat", "something"]),
    Anls(),
    Anls(profile="inclusive"),
    Cer(),
    Wer(),
    Bleu(),
]
NAMES = {"accuracy": Accuracy, "anls": Anls, "bleu": Bleu, "cer": Cer, "exact_match": ExactMatch, "wer": Wer}


@pytest.mark.parametrize(
    "metric", METRICS, ids=lambda metric: f"{metric.description.name}@{metric.description.profile}"
)
def test_a_metric_keeps_the_contract(metric: Metric) -> None:
    check_metric(metric)


@pytest.mark.parametrize("name", NAMES)
def test_a_metric_is_found_by_its_registered_name(name: str) -> None:
    found = discovery.load("metrics", name)
    assert found is NAMES[name]
    assert found().description.name == name


@pytest.mark.parametrize("name", NAMES)
def test_an_unknown_profile_is_refused(name: str) -> None:
    with pytest.raises(InvalidInput, match="has no profile 'nonsense'"):
        NAMES[name](profile="nonsense")


def test_the_public_names_are_sorted_and_complete() -> None:
    assert vlmhyperbench_text_metrics.__all__ == sorted(metric.__name__ for metric in NAMES.values())
