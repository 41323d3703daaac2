"""Relaxed accuracy against relaxed_correctness of google-research/pix2struct."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scoring_support import combined, measure, value_of

from vlmhyperbench_text_metrics.relaxed_accuracy import RelaxedAccuracy

NUMBERS = st.sampled_from(["2010", "2011", "0", "0.0", "-5", "5%", "0.05", "1,000", "1000", "nan", "inf", "%", "yes"])


# Values of relaxed_correctness in pix2struct/metrics.py (commit 5b086ef), run on these answers.
@pytest.mark.parametrize(
    ("prediction", "reference", "expected"),
    [
        ("105", "100", 1.0),
        ("105.1", "100", 0.0),
        ("95", "100", 1.0),
        ("-100", "100", 0.0),
        ("-104", "-100", 1.0),
        ("52%", "0.5", 1.0),
        ("52", "50%", 0.0),
        ("5 %", "0.05", 1.0),
        ("0", "0", 1.0),
        ("0.0", "0", 0.0),
        ("0.0001", "0", 0.0),
        ("0", "0.0001", 0.0),
        ("2010", "2009", 1.0),
        ("Yes", "yES", 1.0),
        (" yes", "yes", 0.0),
        ("1,000", "1000", 0.0),
        ("1,000", "1,000", 1.0),
        ("%", "%", 1.0),
        ("nan", "NaN", 0.0),
        ("inf", "inf", 0.0),
        ("", "", 1.0),
        ("", "5", 0.0),
    ],
)
def test_values_of_the_script(prediction: str, reference: str, expected: float) -> None:
    assert value_of(RelaxedAccuracy(), prediction, reference) == expected


@pytest.mark.parametrize(
    ("prediction", "reference", "expected"),
    [
        ("2010", "2009", 0.0),
        ("2009", "2009", 1.0),
        (" 2009 ", "2009", 1.0),
        ("2009.0", "2009", 0.0),
        ("2010", "2009.0", 1.0),
        ("3010", "3009", 1.0),
        ("1000", "999", 1.0),
        ("0.0", "0", 0.0),
        ("105", "100", 1.0),
    ],
)
def test_strict_wants_years_and_zero_exact(prediction: str, reference: str, expected: float) -> None:
    assert value_of(RelaxedAccuracy(profile="strict"), prediction, reference) == expected


@given(answer=NUMBERS, true=NUMBERS)
def test_what_strict_accepts_the_script_accepts_too(answer: str, true: str) -> None:
    strict, relaxed = (value_of(RelaxedAccuracy(profile=profile), answer, true) for profile in ("strict", "pix2struct"))
    assert strict is not None
    assert relaxed is not None
    assert strict <= relaxed


def test_any_reference_may_match_and_a_group_is_the_mean() -> None:
    measures = measure(RelaxedAccuracy(), [("5", ["yes", "5.1"]), ("5", ["6"]), ("5", [])])
    assert measures.values == [1.0, 0.0, None]
    assert combined(RelaxedAccuracy(), measures) == 0.5
