"""ANLS against its published definition (Biten et al. 2019, eq. 1)."""

from __future__ import annotations

import pytest
from hypothesis import given
from rapidfuzz.distance import Levenshtein
from scoring_support import SAMPLES, combined, measure, value_of

from vlmhyperbench_text_metrics.anls import Anls


@pytest.mark.parametrize(
    ("prediction", "references", "expected"),
    [
        ("Ronaldo", ["ronaldo"], 1.0),
        ("  Rolando ", ["ronaldo"], 1 - 2 / 7),
        ("abcd", ["abcx"], 0.75),
        ("abc", ["xyz"], 0.0),
        ("hello", ["hallo", "hello"], 1.0),
        ("", [""], 1.0),
        ("", ["a"], 0.0),
        ("a", [" "], 0.0),
    ],
)
def test_similarity_is_one_minus_the_normalised_distance(
    prediction: str, references: list[str], expected: float
) -> None:
    assert value_of(Anls(), prediction, *references) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("prediction", "references", "expected"),
    [
        ("12.50 EUR", ["12,50 EUR"], 0.8888888888888888),
        ("university of california, san diego", ["UC San Diego", "University of California San Diego"], 0.9714285714),
        ("Berlin", ["berlin "], 1.0),
        ("0.28", ["0.26"], 0.75),
        ("March 3", ["3 March"], 0.0),
        ("itc limited", ["ITC", "ITC Ltd"], 0.6363636363636364),
        ("abcd", ["abxy"], 0.0),
        ("Ronaldo", ["Rolando"], 0.7142857142857143),
    ],
)
def test_values_of_the_package_anls(prediction: str, references: list[str], expected: float) -> None:
    """Source: `anls.metrics.anls_score` of the package anls 0.0.2, threshold 0.5."""
    assert value_of(Anls(), prediction, *references) == pytest.approx(expected)


def test_a_similarity_of_exactly_one_half_counts_in_the_inclusive_profile_only() -> None:
    assert value_of(Anls(profile="paper"), "ab", "ax") == 0.0
    assert value_of(Anls(profile="inclusive"), "ab", "ax") == 0.5


def test_lengths_are_those_of_the_stripped_text() -> None:
    assert value_of(Anls(profile="paper"), "      ab      ", "ax") == 0.0


def test_below_the_threshold_both_profiles_give_zero() -> None:
    assert value_of(Anls(profile="inclusive"), "abc", "axy") == 0.0


def test_the_value_of_a_group_is_the_mean_over_scored_samples() -> None:
    measures = measure(Anls(), [("a", ["a"]), ("b", ["a"]), ("c", [])])
    assert combined(Anls(), measures) == 0.5


@pytest.mark.parametrize(
    ("prediction", "references", "expected"),
    [
        ("a  b", ["a b"], 1.0),
        ("Straße", ["strasse"], 1 - 2 / 7),
        ("ab", ["ax"], 0.5),
        ("abc", ["axy"], 0.0),
        ("      ab      ", ["ax"], 1 - 1 / 14),
        ("MARCH\n3", ["march 3", "x"], 1.0),
        ("", [""], 1.0),
        ("", ["a"], 0.0),
        ("İ", ["i"], 0.0),
    ],
)
def test_values_of_the_competition_s_script(prediction: str, references: list[str], expected: float) -> None:
    """By hand: lower case, runs of white space one space, divided by the longer length as it came, 0.5 counts."""
    assert value_of(Anls(profile="docvqa"), prediction, *references) == pytest.approx(expected)


def _similarity_of_docvqa(answer: str, true: str) -> float:
    distance = Levenshtein.distance(" ".join(answer.strip().lower().split()), " ".join(true.strip().lower().split()))
    longest = max(len(answer.upper()), len(true.upper()))
    similarity = 1 - (distance / longest if longest else 0.0)
    return 0.0 if similarity < 0.5 else similarity


@given(samples=SAMPLES)
def test_the_bulk_of_docvqa_equals_its_definition(samples: list[tuple[str, list[str]]]) -> None:
    expected = [max(_similarity_of_docvqa(answer, true) for true in own) if own else None for answer, own in samples]
    assert measure(Anls(profile="docvqa"), samples).values == expected


def _similarity(answer: str, true: str, *, inclusive: bool) -> float:
    answer, true = answer.strip().casefold(), true.strip().casefold()
    if not answer and not true:
        return 1.0
    distance, longest = Levenshtein.distance(answer, true), max(len(answer), len(true))
    counts = distance * 2 <= longest if inclusive else distance * 2 < longest
    return 1 - distance / longest if counts else 0.0


@pytest.mark.parametrize("profile", ["paper", "inclusive"])
@given(samples=SAMPLES)
def test_the_bulk_of_anls_equals_its_definition(profile: str, samples: list[tuple[str, list[str]]]) -> None:
    expected = [
        max(_similarity(answer, true, inclusive=profile == "inclusive") for true in own) if own else None
        for answer, own in samples
    ]
    assert measure(Anls(profile=profile), samples).values == expected
