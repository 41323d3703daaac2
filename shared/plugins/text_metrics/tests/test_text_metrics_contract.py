"""Every metric of the package keeps the SDK's contract, in every profile, and is found by its name."""

from __future__ import annotations

import pytest

from tests.support.wording import Wording
from vlmhyperbench_sdk import discovery
from vlmhyperbench_sdk.errors import InvalidInput
from vlmhyperbench_sdk.protocols import ComparesTexts, Metric
from vlmhyperbench_sdk.testing.metrics import MetricCase, check_metric, in_every_profile, names_of
from vlmhyperbench_sdk.types import Measures
from vlmhyperbench_text_metrics.accuracy import Accuracy
from vlmhyperbench_text_metrics.exact_match import ExactMatch
from vlmhyperbench_text_metrics.relaxed_accuracy import RelaxedAccuracy
from vlmhyperbench_text_metrics.rouge import Rouge

NAMES = names_of("vlmhyperbench-text-metrics")
OF_ANY_TEXT = [name for name in NAMES if name not in {"hallusionbench", "ifeval", "yes_no"}]
"""Metrics that score any text against any; others have no value where a reference is not of their kind."""
CASES = (
    MetricCase(prediction="Yes, there is.", references=("yes",)),
    MetricCase(prediction="no", references=("yes",)),
    MetricCase(prediction="", references=("no",)),
    MetricCase(prediction="yes or no", references=("no", "No")),
    MetricCase(prediction="(B)", references=("B",), metadata={"choices": ["a cat", "a dog"]}),
    MetricCase(prediction="it is 1.5", references=("1.5",), metadata={"question_type": "open"}),
    MetricCase(prediction="3.1416", references=("3.14",), metadata={"answer_type": "float", "precision": 2.0}),
    MetricCase(prediction="x", references=("x",), metadata={"choices": 7, "question_type": ["multi_choice"]}),
    *(
        MetricCase(
            prediction=said,
            references=("No",),
            metadata={"category": "VS", "subcategory": "a|b:", "set_id": 1, "figure_id": "0", "question_id": "\ud800"},
        )
        for said in ("no", "Yes", "")
    ),
    MetricCase(
        prediction="a, b",
        references=(),
        metadata={
            "instruction_id_list": ["punctuation:no_comma", "detectable_format:title"],
            "kwargs": [{}, None],
        },
    ),
)
METRICS: list[Metric] = [
    *in_every_profile(NAMES),
    ExactMatch(strip_punct=True, yo_fold=True, words_to_digits=True),
    Accuracy(labels=["the cat", "something"]),
    Rouge(profile="rouge2", stemmer=True),
]
READ = ("contains_match", "hallusionbench", "ifeval", "mathvista", "mmmu", "multiple_choice", "number_match", "yes_no")
"""Metrics that read a letter, a number or a yes out of an answer, by its sample's metadata: no text is compared."""
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


def _name_of(metric: Metric) -> str:
    return f"{metric.description.name}@{metric.description.profile}"


@pytest.mark.parametrize("metric", METRICS, ids=_name_of)
def test_a_metric_keeps_the_contract(metric: Metric) -> None:
    check_metric(metric, cases=CASES)


@pytest.mark.parametrize("name", NAMES)
def test_an_unknown_profile_is_refused(name: str, wording: Wording) -> None:
    with pytest.raises(InvalidInput) as refused:
        discovery.load("metrics", name)(profile="nonsense")
    wording(refused.value)


@pytest.mark.parametrize("name", OF_ANY_TEXT)
def test_a_megabyte_of_anything_has_a_value(name: str) -> None:
    texts = list(LONG.values())
    measures: Measures = discovery.load("metrics", name)().measure(texts, [["word 12", "x"]] * len(texts))
    assert all(value is not None for value in measures.values)


@pytest.mark.parametrize("metric", in_every_profile(OF_ANY_TEXT), ids=_name_of)
def test_text_that_says_nan_and_text_without_letters_have_values(metric: Metric) -> None:
    texts = ["NaN", "nan", "inf", "-1e999", "?!", "…", "%", "", " ", "\ud83d"]
    measures = metric.measure(texts, [[text, "0"] for text in texts[::-1]])
    assert all(value is not None for value in measures.values)


@pytest.mark.parametrize("metric", [each for each in METRICS if each.description.name not in READ], ids=_name_of)
def test_texts_that_compare_equal_are_worth_what_equal_texts_are(metric: Metric) -> None:
    """A reader sees by what an answer differs; where nothing is shown, nothing may have cost a point."""
    assert isinstance(metric, ComparesTexts)
    answer, *references = metric.compared(["  The  CAT ", "the cat", "the cat"])
    same, other = (metric.measure([text], [["the cat"] * 2]).values[0] for text in ("the cat", "  The  CAT "))
    assert (answer == references[0] == references[1]) <= (same == other)
    assert metric.compared([]) == []


@pytest.mark.parametrize(
    ("name", "texts", "shown"),
    [
        ("bleu", ["Two, please.", "2"], ["Two , please .", "2"]),
        ("chrf", ["a  b", "ab"], ["ab", "ab"]),
        ("ter", [" A  b", "a B"], ["a b", "a b"]),
        ("rouge", ["Tea-time!", "tea"], ["tea time", "tea"]),
        ("relaxed_accuracy", ["50%", "0.5", "0", "0.0", "Tea"], ["0.5", "0.5", "0", "0.0", "tea"]),
        ("vqa_accuracy", ["The two", "two", "two"], ["The two", "two", "two"]),
        ("vqa_accuracy", ["The two", "two", "2"], ["2", "2", "2"]),
        ("classification", [" Cat", "cat"], ["cat", "cat"]),
    ],
)
def test_texts_are_shown_as_they_are_compared(name: str, texts: list[str], shown: list[str]) -> None:
    metric = discovery.load("metrics", name)()
    assert isinstance(metric, ComparesTexts)
    assert metric.compared(texts) == shown


def test_a_year_is_shown_as_the_text_that_it_is_compared_as() -> None:
    assert RelaxedAccuracy(profile="strict").compared([" 1999 ", "1999.5"]) == ["1999", "1999.5"]
    assert RelaxedAccuracy().compared(["1999"]) == ["1999.0"]
