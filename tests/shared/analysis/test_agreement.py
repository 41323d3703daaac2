"""Agreement: golden values are the worked examples of Krippendorff 2011, sections A to C."""

from __future__ import annotations

import pytest

from vlmhyperbench.analysis.agreement import nominal_alpha


def rows(*texts: str) -> list[list[str | None]]:
    return [[None if rating == "." else rating for rating in text.split()] for text in texts]


@pytest.mark.parametrize(
    ("answers", "alpha"),
    [
        (rows("0 1 0 0 0 0 0 0 1 0", "1 1 1 0 0 1 0 0 0 0"), 0.095),
        (rows("a a b b d c c c e d d a", "b a b b b c c c e d d d"), 0.692),
        (
            rows(
                "1 2 3 3 2 1 4 1 2 . . .",
                "1 2 3 3 2 2 4 1 2 5 . 3",
                ". 3 3 3 2 3 4 2 2 5 1 .",
                "1 2 3 3 2 4 4 1 2 5 1 .",
            ),
            0.743,
        ),
    ],
)
def test_alpha_has_the_values_of_the_worked_examples(answers: list[list[str | None]], alpha: float) -> None:
    assert nominal_alpha(answers).value == pytest.approx(alpha, abs=5e-4)


def test_only_samples_with_two_answers_can_be_paired() -> None:
    result = nominal_alpha(rows("a b c .", "a c . ."))
    assert (result.samples, result.answers, result.unanimous) == (2, 4, 1)


def test_answers_that_never_vary_have_no_alpha() -> None:
    assert nominal_alpha(rows("a a", "a a")).value is None
    assert nominal_alpha(rows("a b", ". .")).value is None
