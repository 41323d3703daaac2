"""Exact match and accuracy: what counts as the same answer."""

from __future__ import annotations

import pytest
from hypothesis import given
from scoring_support import SAMPLES, combined, measure, value_of

from tests.support.wording import Wording
from vlmhyperbench_sdk.errors import InvalidInput
from vlmhyperbench_text_metrics.accuracy import Accuracy
from vlmhyperbench_text_metrics.exact_match import ExactMatch
from vlmhyperbench_text_metrics.normalise import NormaliserV1


@pytest.mark.parametrize(
    ("prediction", "reference"),
    [
        ("Berlin", "berlin"),
        ("  12,50\n EUR ", "12,50 EUR"),
        ("ﬁne", "FINE"),  # the ligature fi
        ("Ｎo １", "no 1"),  # full-width letters
        ("Straße", "STRASSE"),
        ("", " "),
    ],
)
def test_texts_that_differ_in_form_only_match(prediction: str, reference: str) -> None:
    assert value_of(ExactMatch(), prediction, reference) == 1.0


@pytest.mark.parametrize(("prediction", "reference"), [("12.50", "12,50"), ("Ёлка", "Елка"), ("two", "2"), ("a.", "a")])
def test_options_are_off_by_default(prediction: str, reference: str) -> None:
    assert value_of(ExactMatch(), prediction, reference) == 0.0


def test_each_option_does_what_it_says() -> None:
    assert value_of(ExactMatch(yo_fold=True), "Ёлка", "Елка") == 1.0
    assert value_of(ExactMatch(words_to_digits=True), "Два cats", "2 Cats") == 1.0
    assert value_of(ExactMatch(strip_punct=True), "«Yes!» —", "yes") == 1.0
    assert value_of(ExactMatch(strip_punct=True), "12.50", "1250") == 0.0
    assert value_of(ExactMatch(strip_punct=True, words_to_digits=True), "Two.", "2") == 1.0


def test_options_are_recorded_in_the_description() -> None:
    assert ExactMatch(yo_fold=True).description.normaliser == f"{NormaliserV1()} + yo_fold"


def test_any_reference_may_match() -> None:
    assert value_of(ExactMatch(), "b", "a", "b") == 1.0
    assert value_of(ExactMatch(), "c", "a", "b") == 0.0


def test_a_sample_without_references_is_unscored() -> None:
    measures = measure(ExactMatch(), [("a", ["a"]), ("a", []), ("b", ["a"])])
    assert measures.values == [1.0, None, 0.0]
    assert measures.reasons == [None, "no_reference", None]
    assert combined(ExactMatch(), measures) == 0.5


@given(SAMPLES)
def test_the_bulk_of_exact_match_equals_its_definition(samples: list[tuple[str, list[str]]]) -> None:
    normalise = NormaliserV1()
    expected = [
        float(normalise(answer) in {normalise(true) for true in own}) if own else None for answer, own in samples
    ]
    assert measure(ExactMatch(), samples).values == expected


def test_accuracy_counts_what_names_no_class() -> None:
    metric = Accuracy(labels=["Receipt", "Invoice"])
    measures = measure(metric, [("receipt", ["Receipt"]), ("a poem", ["Invoice"]), ("invoice", ["Receipt"])])
    assert measures.values == [1.0, 0.0, 0.0]
    assert measures.statistics["unparsed"] == [0.0, 1.0, 0.0]


def test_accuracy_without_labels_takes_any_answer_but_an_empty_one() -> None:
    measures = measure(Accuracy(), [("a", ["A"]), ("b", ["a"]), (" ", [""])])
    assert measures.values == [1.0, 0.0, 0.0]
    assert measures.statistics["unparsed"] == [0.0, 0.0, 1.0]
    assert combined(Accuracy(), measures) == pytest.approx(1 / 3)


@pytest.mark.parametrize("labels", ["receipt", [""], [1]])
def test_labels_that_are_no_list_of_texts_are_refused(labels: object, wording: Wording) -> None:
    with pytest.raises(InvalidInput) as refused:
        Accuracy(labels=labels)
    wording(refused.value)
