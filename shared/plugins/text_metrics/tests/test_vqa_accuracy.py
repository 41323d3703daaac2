"""VQA accuracy against the evaluation script of VQA v2."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scoring_support import combined, measure, value_of

from vlmhyperbench_text_metrics.vqa_accuracy import VqaAccuracy
from vlmhyperbench_text_metrics.vqa_text import normalise_answer

WORDS = ["yes", "no", "Yes!", "two", "2", "a", "dont", "1,000", "1000", "x - y"]


# Values of vqaEval.py of GT-Vision-Lab/VQA (commit a013f00), run on these answers.
@pytest.mark.parametrize(
    ("prediction", "answers", "expected"),
    [
        ("two", ["two"] * 10, 1.0),
        ("2", ["two"] * 10, 0.0),
        (" two\n", ["two"] * 10, 1.0),
        ("Two.", ["two"] * 3 + ["2"] * 4 + ["yes"] * 3, 1.0),
        ("1,000", ["1000"] * 2 + ["1,000"] * 2 + ["no"] * 6, 1.0),
        ("yes", ["yes"] * 3 + ["no"] * 7, 0.9),
        ("yes", ["yes"] * 2 + ["no"] * 8, 0.6),
        ("a dont know", ["don't know"] + ["no"] * 9, 0.3),
        ("maybe", ["yes"] * 5 + ["no"] * 5, 0.0),
        ("yes", ["yes"] * 3, 2 / 3),
    ],
)
def test_values_of_the_script(prediction: str, answers: list[str], expected: float) -> None:
    assert value_of(VqaAccuracy(), prediction, *answers) == pytest.approx(expected)


def test_the_normalized_profile_forgives_form_where_all_annotators_agree() -> None:
    assert value_of(VqaAccuracy(profile="normalized"), "The Two.", *["2"] * 10) == 1.0
    assert value_of(VqaAccuracy(profile="official"), "The Two.", *["2"] * 10) == 0.0


# What processPunctuation followed by processDigitArticle of that script returns.
@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("It's 1,000!", "it's 1000"),
        ("red/blue", "red blue"),
        ("red / blue", "red blue"),
        ("no-one, really", "no 1 really"),
        ("3.50 U.S. dollars.", "3.50 us dollars"),
        ("None of the ten", "0 of 10"),
        ("couldnt've", "couldn't've"),
        ("somebody'd", "somebodyd"),
        ("twas", "'twas"),
        ("." * 40, "." * 8),
        ("", ""),
    ],
)
def test_answers_are_processed_rule_by_rule(answer: str, expected: str) -> None:
    assert normalise_answer(answer) == expected


@given(said=st.sampled_from(WORDS), answers=st.lists(st.sampled_from(WORDS), min_size=2, max_size=12))
def test_the_closed_form_equals_leaving_each_annotator_out(said: str, answers: list[str]) -> None:
    own, true = (
        (said, answers) if len(set(answers)) == 1 else (normalise_answer(said), [*map(normalise_answer, answers)])
    )
    left = [true[:out] + true[out + 1 :] for out in range(len(true))]
    expected = sum(min(others.count(own) / 3, 1) for others in left) / len(true)
    assert value_of(VqaAccuracy(), said, *answers) == pytest.approx(expected)


def test_one_annotator_leaves_nobody_to_agree_with() -> None:
    measures = measure(VqaAccuracy(), [("a", ["b", "b"]), ("yes", ["yes"]), ("yes", []), ("yes", ["yes"] * 10)])
    assert measures.values == [0.0, None, None, 1.0]
    assert measures.reasons == [None, "one_annotator", "no_reference", None]
    assert combined(VqaAccuracy(), measures) == 0.5
