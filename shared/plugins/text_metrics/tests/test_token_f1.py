"""Token F1 against SQuAD's evaluation script."""

from __future__ import annotations

import pytest
from hypothesis import given
from scoring_support import SAMPLES, combined, measure, value_of

from vlmhyperbench_text_metrics.token_f1 import TokenF1


# Values of f1_score in SQuAD's evaluation script v2.0, which alone says what a text without words is worth.
@pytest.mark.parametrize(
    ("prediction", "reference", "expected"),
    [
        ("The Denver Broncos!", "Denver Broncos", 1.0),
        ("a cat, a dog", "the cat and the dog", 0.8),
        ("cat cat cat", "cat", 0.5),
        ("U.S.A.", "usa", 1.0),
        ("theatre", "the atre", 0.0),
        ("Straße", "STRASSE", 0.0),
        ("«да»", "да", 0.0),
        ("the", "an", 1.0),
        ("", "", 1.0),
        ("", "x", 0.0),
        ("?!", "x", 0.0),
    ],
)
def test_words_are_those_of_the_script(prediction: str, reference: str, expected: float) -> None:
    assert value_of(TokenF1(), prediction, reference) == pytest.approx(expected)


def test_the_house_normaliser_keeps_articles_and_folds_case() -> None:
    assert value_of(TokenF1(profile="v1"), "Straße", "STRASSE") == 1.0
    assert value_of(TokenF1(profile="v1"), "the cat", "cat") == pytest.approx(2 / 3)
    assert value_of(TokenF1(profile="v1"), "cat.", "cat") == 0.0


def test_the_best_reference_counts_and_a_group_is_the_mean() -> None:
    measures = measure(TokenF1(), [("red cat", ["dog", "red"]), ("x", ["y"]), ("x", [])])
    assert measures.values == [pytest.approx(2 / 3), 0.0, None]
    assert combined(TokenF1(), measures) == pytest.approx(1 / 3)


@pytest.mark.parametrize("profile", ["squad", "v1"])
@given(samples=SAMPLES)
def test_the_bulk_equals_one_sample_at_a_time(profile: str, samples: list[tuple[str, list[str]]]) -> None:
    metric = TokenF1(profile=profile)
    assert measure(metric, samples).values == [value_of(metric, answer, *own) for answer, own in samples]
