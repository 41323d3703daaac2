"""Cells, numbers and comparisons of texts, as every writer shows them."""

from __future__ import annotations

import pytest

from vlmhyperbench.errors import InvalidInput
from vlmhyperbench.reports.document import (
    MAX_TEXT,
    Cell,
    Column,
    Estimate,
    Span,
    Table,
    compare_text,
    cut,
    write_cell,
    write_interval,
    write_number,
)


@pytest.mark.parametrize(
    ("cell", "text"),
    [
        (None, "–"),
        ("a", "a"),
        (1234, "1\u202f234"),
        (0.12345, "0.123"),
        (Estimate(value=None), "–"),
        (Estimate(value=0.5), "0.500"),
        (Estimate(value=0.5, low=0.4, high=0.6, digits=1), "0.5 (0.4 to 0.6)"),
        (Estimate(value=0.02, is_signed=True, digits=2), "+0.02"),
        (Estimate(value=-0.02, is_signed=True, digits=2, suffix=" s"), "\u22120.02 s"),
    ],
)
def test_every_kind_of_cell_has_its_text(cell: Cell, text: str) -> None:
    assert write_cell(cell) == text


def test_an_unknown_interval_is_not_written() -> None:
    assert write_interval(Estimate(value=0.5, low=0.4)) == ""


@pytest.mark.parametrize(
    ("value", "text"), [(None, "–"), (float("inf"), "–"), (-0.0001, "0.000"), (-1.0, "\u22121.000")]
)
def test_numbers_have_a_real_minus_and_no_negative_zero(value: float | None, text: str) -> None:
    assert write_number(value) == text


def test_a_comparison_marks_what_is_missing_and_what_does_not_belong() -> None:
    assert compare_text("20.11", ["20.12"]) == (
        Span(text="20.1", kind="same"),
        Span(text="2", kind="missing"),
        Span(text="1", kind="extra"),
    )


def test_the_nearest_reference_is_compared() -> None:
    assert compare_text("abc", ["xyz", "abc"]) == (Span(text="abc", kind="same"),)


def test_a_text_that_is_merely_too_short_has_only_missing_characters() -> None:
    assert compare_text("abc", ["abcd"])[1] == Span(text="d", kind="missing")
    assert compare_text("abcd", ["abc"])[1] == Span(text="d", kind="extra")


def test_an_answer_unlike_every_reference_is_marked_as_a_whole() -> None:
    assert compare_text("zzz", ["abc"]) == (Span(text="zzz", kind="extra"),)
    assert compare_text("", ["abc"]) == ()


def test_without_references_there_is_nothing_to_mark() -> None:
    assert compare_text("abc", []) == (Span(text="abc", kind="same"),)
    assert compare_text("", []) == ()


def test_a_long_text_says_how_much_of_it_is_left_out() -> None:
    assert cut("x" * (MAX_TEXT + 5)).endswith("… (5 more characters)")


@pytest.mark.parametrize("fields", [{"digits": -1}, {"digits": 13}, {"scale": (1.0, 1.0)}, {"scale": (1.0, 0.0)}])
def test_a_value_that_cannot_be_written_is_refused(fields: dict[str, object]) -> None:
    with pytest.raises(InvalidInput):
        Estimate(value=0.5, **fields)


def test_a_table_whose_row_does_not_fit_its_columns_is_refused() -> None:
    with pytest.raises(InvalidInput, match="'t'"):
        Table(name="t", title="", columns=(Column(title="a"),), rows=(("x", "y"),))
