"""ROUGE against rouge-score itself."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rouge_score.rouge_scorer import RougeScorer
from scoring_support import SAMPLES, TEXT, combined, measure, value_of

from tests.support.wording import Wording
from vlmhyperbench_sdk.errors import InvalidInput
from vlmhyperbench_text_metrics.rouge import Rouge

PROFILES = ["rouge1", "rouge2", "rougeL"]
SCORERS = {is_stemmed: RougeScorer(PROFILES, use_stemmer=is_stemmed) for is_stemmed in (False, True)}

FOX = "The quick brown dog jumps on the log.", "The quick brown fox jumps over the lazy dog"


# The first pair is the example of rouge-score's README; values of rouge-score 0.1.2.
@pytest.mark.parametrize(
    ("profile", "prediction", "reference", "expected"),
    [
        ("rouge1", *FOX, 0.7058823529411765),
        ("rouge2", *FOX, 0.26666666666666666),
        ("rougeL", *FOX, 0.5882352941176471),
        ("rougeL", "testing", "testing one two", 0.5),
        ("rougeL", "testing two one", "testing one two", 2 / 3),
        ("rouge1", "testing two one", "testing one two", 1.0),
        ("rougeL", "", "", 0.0),
        ("rougeL", "привет", "привет", 0.0),
    ],
)
def test_published_values(profile: str, prediction: str, reference: str, expected: float) -> None:
    assert value_of(Rouge(profile=profile), prediction, reference) == pytest.approx(expected)


def test_the_stemmer_takes_endings_off() -> None:
    assert value_of(Rouge(), "the cat was run", "the cats were running") == 0.25
    assert value_of(Rouge(stemmer=True), "the cat was run", "the cats were running") == 0.75
    assert "Porter" in Rouge(stemmer=True).description.normaliser


def test_a_word_that_is_no_word_is_not_stemmed() -> None:
    assert value_of(Rouge(stemmer=True), "y" * 100_000, "y" * 100_000) == 1.0


@pytest.mark.parametrize("is_stemmed", [False, True])
@pytest.mark.parametrize("profile", PROFILES)
@given(answer=TEXT, own=st.lists(TEXT, min_size=1, max_size=3))
def test_a_sample_has_rouge_scores_best_f_measure(profile: str, is_stemmed: bool, answer: str, own: list[str]) -> None:
    expected = SCORERS[is_stemmed].score_multi(own, answer)[profile].fmeasure
    assert value_of(Rouge(profile=profile, stemmer=is_stemmed), answer, *own) == pytest.approx(expected)


@given(samples=SAMPLES)
def test_the_bulk_equals_one_sample_at_a_time(samples: list[tuple[str, list[str]]]) -> None:
    assert measure(Rouge(), samples).values == [value_of(Rouge(), answer, *own) for answer, own in samples]


def test_a_group_is_the_mean() -> None:
    assert combined(Rouge(), measure(Rouge(), [("a", ["a"]), ("b", ["a"]), ("b", [])])) == 0.5


def test_a_stemmer_that_is_no_switch_is_refused(wording: Wording) -> None:
    with pytest.raises(InvalidInput) as refused:
        Rouge(stemmer="porter")
    wording(refused.value)
