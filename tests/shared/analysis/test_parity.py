"""Parity: which answers are the same text, and at which word the others part."""

from __future__ import annotations

import polars

from vlmhyperbench.analysis.parity import parity


def frame(*texts: str | None, value: float = 1.0) -> polars.DataFrame:
    return polars.DataFrame(
        {
            "key": [f"s{no}" for no in range(len(texts))],
            "repeat": [0] * len(texts),
            "turn": [0] * len(texts),
            "text": texts,
            "value": [value] * len(texts),
        },
        schema_overrides={"text": polars.String},
    )


def test_equal_texts_do_not_part() -> None:
    found = parity(frame("a b", "c"), frame("a b", "c"))
    assert (found.pairs, found.same, found.rescored, found.median_word) == (2, 2, 0, None)


def test_answers_part_at_the_first_word_that_differs() -> None:
    baseline = frame("The total is 12.50 EUR", "yes", "one\ntwo", "a")
    other = frame("The total is 12.80 EUR", "yes indeed", "one\nthree", "b")
    found = parity(baseline, other)
    assert [(one.key, one.at_word, one.baseline, one.other) for one in found.divergences] == [
        ("s0", 4, "12.50 EUR", "12.80 EUR"),
        ("s1", 1, "yes", "yes indeed"),
        ("s2", 2, "two", "three"),
        ("s3", 1, "a", "b"),
    ]
    assert found.median_word == 1.5


def test_what_changes_the_score_is_counted() -> None:
    found = parity(frame("a", "b"), frame("A", "b", value=0.0))
    assert [(one.key, one.changes_score) for one in found.divergences] == [("s0", True)]
    assert (found.same, found.rescored) == (1, 1)


def test_only_answers_that_both_have_are_compared_and_long_ones_are_cut() -> None:
    found = parity(frame("x" * 100, None, "c"), frame("y" * 100, "b"))
    assert found.pairs == 1
    assert [len(one.baseline) for one in found.divergences] == [60]
