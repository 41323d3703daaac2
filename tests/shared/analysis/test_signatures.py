"""Near misses are named by their difference, so that they can be counted together."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vlmhyperbench.analysis.signatures import edit_signature


@pytest.mark.parametrize(
    ("answer", "reference", "name"),
    [
        ("yes", "Yes", "letter case"),
        ("12.50EUR", "12.50 EUR", "white space"),
        ("Muller", "Müller", "accents"),
        ("12,50", "12.50", "punctuation or signs"),
        ("-12.50", "12.50", "punctuation or signs"),
        ("12.58 EUR", "12.50 EUR", "another digit"),
        ("12.98 EUR", "12.50 EUR", "other digits"),
        ("112.50 EUR", "12.50 EUR", "digit too much"),
        ("12.50 EUR", "1299.50 EUR", "digits missing"),
        ("12.5O EUR", "12.50 EUR", "“0” as “o”"),
        ("ACME Gmb", "ACME GmbH", "“h” missing"),
        ("b.randt", "a randt", "“a ” as “b.”"),
        ("Karin Mil1er", "Karin Miller x", "“ x” missing, “l” as “1”"),
        ("abcdef12345", "abc def 1x3y5 z", "several edits"),
        ("The answer is 12.50 EUR", "12.50 EUR", "more text before it"),
        ("12.50 EUR is it", "12.50 EUR", "more text after it"),
        ("so 12.50 EUR is it", "12.50 EUR", "more text around it"),
        ("ACME", "ACME GmbH & Co", "text missing at the end"),
        ("GmbH & Co", "ACME GmbH & Co", "text missing at the start"),
        ("GmbH", "ACME GmbH & Co", "text missing around it"),
        ("totally", "different", ""),
        ("a longer thing", "different", ""),
        ("yes", "yes", ""),
        ("yes", " ", ""),
        (" ", "yes", ""),
    ],
)
def test_a_near_miss_is_named(answer: str, reference: str, name: str) -> None:
    assert edit_signature(answer, [reference]) == name


def test_a_missing_space_is_named_together_with_another_edit() -> None:
    assert edit_signature("AcmeGnbh Berlin", ["Acme Gmbh Berlin"]) == "space missing, “m” as “n”"


def test_the_nearest_reference_counts() -> None:
    assert edit_signature("12.58", ["twelve", "12.50"]) == "another digit"


@given(st.text(max_size=12), st.lists(st.text(max_size=12), max_size=2))
def test_any_text_has_a_short_name(answer: str, references: list[str]) -> None:
    assert len(edit_signature(answer, references)) < 60
