"""Parity: which answers are the same text, and at which word the others first differ."""

from __future__ import annotations

import polars

from vlmhyperbench.analysis.parity import parity


def frame(*texts: str | None, value: float = 1.0) -> polars.DataFrame:
    return polars.DataFrame(
        {
            "key": [f"s{no}" for no in range(len(texts))],
            "repeat": [0] * len(texts),
            "turn": [0] * len(texts),
            "cluster": [f"page {no // 2}" for no in range(len(texts))],
            "text": texts,
            "value": [value] * len(texts),
        },
        schema_overrides={"text": polars.String},
    )


def test_equal_texts_have_no_divergence() -> None:
    result = parity(frame("a b", "c"), frame("a b", "c"))
    assert (result.pairs, result.same, result.rescored, result.median_word) == (2, 2, 0, None)


def test_a_divergence_starts_at_the_first_word_that_differs() -> None:
    baseline = frame("The total is 12.50 EUR", "yes", "one\ntwo", "a")
    other = frame("The total is 12.80 EUR", "yes indeed", "one\nthree", "b")
    result = parity(baseline, other)
    assert [(part.key, part.at_word, part.baseline, part.other) for part in result.divergences] == [
        ("s0", 4, "12.50 EUR", "12.80 EUR"),
        ("s1", 1, "yes", "yes indeed"),
        ("s2", 2, "two", "three"),
        ("s3", 1, "a", "b"),
    ]
    assert result.median_word == 1.5


def test_divergences_that_change_the_score_are_counted() -> None:
    result = parity(frame("a", "b"), frame("A", "b", value=0.0))
    assert [(part.key, part.changes_score) for part in result.divergences] == [("s0", True)]
    assert (result.same, result.rescored) == (1, 1)


def test_only_answers_that_both_have_are_compared_and_long_ones_are_cut() -> None:
    result = parity(frame("x" * 100, None, "c"), frame("y" * 100, "b"))
    assert result.pairs == 1
    assert [len(part.baseline) for part in result.divergences] == [60]


def test_the_share_of_equal_texts_has_an_interval_over_documents() -> None:
    result = parity(frame(*"abcdefgh"), frame(*"abcdefgX"))
    assert result.share == 0.875
    assert result.interval is not None
    assert result.interval.units == 4
    assert result.interval.low < 0.875 <= result.interval.high
    nothing = parity(frame(None), frame("a"))
    assert (nothing.share, nothing.interval) == (None, None)
