"""Every metric of the package keeps the SDK's contract, in every profile, and is found by its name."""

from __future__ import annotations

import pytest

import vlmhyperbench_text_metrics
from vlmhyperbench_sdk import discovery
from vlmhyperbench_sdk.errors import InvalidInput
from vlmhyperbench_sdk.protocols import Metric
from vlmhyperbench_sdk.testing.metrics import check_metric
from vlmhyperbench_sdk.types import Measures
from vlmhyperbench_text_metrics import (
    Accuracy,
    Anls,
    Bleu,
    Cer,
    Chrf,
    Classification,
    ExactMatch,
    RelaxedAccuracy,
    Rouge,
    Ter,
    TokenF1,
    VqaAccuracy,
    Wer,
)

METRICS: list[Metric] = [
    ExactMatch(),
    ExactMatch(strip_punct=True, yo_fold=True, words_to_digits=True),
    Accuracy(),
    Accuracy(labels=["the cat", "something"]),
    *(Classification(profile=profile) for profile in Classification.profiles),
    Anls(),
    Anls(profile="inclusive"),
    Cer(),
    Wer(),
    Bleu(),
    Chrf(),
    Chrf(profile="chrfpp"),
    Ter(),
    Rouge(),
    Rouge(profile="rouge1"),
    Rouge(profile="rouge2", stemmer=True),
    TokenF1(),
    TokenF1(profile="v1"),
    VqaAccuracy(),
    VqaAccuracy(profile="normalized"),
    RelaxedAccuracy(),
    RelaxedAccuracy(profile="strict"),
]
NAMES = {
    "accuracy": Accuracy,
    "anls": Anls,
    "bleu": Bleu,
    "cer": Cer,
    "chrf": Chrf,
    "classification": Classification,
    "exact_match": ExactMatch,
    "relaxed_accuracy": RelaxedAccuracy,
    "rouge": Rouge,
    "ter": Ter,
    "token_f1": TokenF1,
    "vqa_accuracy": VqaAccuracy,
    "wer": Wer,
}
BESIDE_METRICS = {"ClassScores", "Confusion", "confusion_of"}
MEGABYTE = 1_000_000
LONG = {
    "words": "word " * (MEGABYTE // 5),
    "one_word": "y" * MEGABYTE,
    "digits": "7" * MEGABYTE,
    "per_cent": "%" * MEGABYTE,
    "punctuation": "." * MEGABYTE,
    "commas": "1,0" * (MEGABYTE // 3),
    "blanks": " " * MEGABYTE + "x",
    "combining": "e\u0301" * (MEGABYTE // 2),
    "right_to_left": "\u0633\u0644\u0627\u0645 " * (MEGABYTE // 5),
    "surrogates": "\ud800 " * (MEGABYTE // 2),
}


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
    metrics = {metric.__name__ for metric in NAMES.values()}
    assert vlmhyperbench_text_metrics.__all__ == sorted(metrics | BESIDE_METRICS)


@pytest.mark.parametrize("name", NAMES)
def test_a_megabyte_of_anything_has_a_value(name: str) -> None:
    texts = list(LONG.values())
    measures: Measures = NAMES[name]().measure(texts, [["word 12", "x"]] * len(texts))
    assert all(value is not None for value in measures.values)


@pytest.mark.parametrize(
    "metric", METRICS, ids=lambda metric: f"{metric.description.name}@{metric.description.profile}"
)
def test_text_that_says_nan_and_text_without_letters_have_values(metric: Metric) -> None:
    texts = ["NaN", "nan", "inf", "-1e999", "?!", "…", "%", "", " ", "\ud83d"]
    measures = metric.measure(texts, [[text, "0"] for text in texts[::-1]])
    assert all(value is not None for value in measures.values)
