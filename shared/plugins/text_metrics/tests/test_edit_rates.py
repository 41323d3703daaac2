"""CER and WER against jiwer itself, per sample and pooled."""

from __future__ import annotations

import jiwer
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scoring_support import SAMPLES, TEXT, combined, measure, value_of

from vlmhyperbench_sdk.protocols import Metric
from vlmhyperbench_text_metrics.cer import Cer
from vlmhyperbench_text_metrics.wer import Wer
from vlmhyperbench_text_metrics.words import divide_words


@pytest.mark.parametrize(
    ("metric", "prediction", "reference", "expected"),
    [
        (Cer(), "kitten", "sitting", 3 / 7),
        (Cer(), " abc ", "abc", 0.0),
        (Cer(), "abcdef", "a", 5.0),
        (Cer(), "", "", 0.0),
        (Cer(), "abc", "", 3.0),
        (Cer(), "", "abc", 1.0),
        (Wer(), "hello duck", "hello world", 0.5),
        (Wer(), "  hello   world ", "hello world", 0.0),
        (Wer(), "a b c", "", 3.0),
        (Wer(), "", "", 0.0),
        (Wer(), "a b c d", "x", 4.0),
    ],
)
def test_a_rate_is_edits_over_the_reference_unclipped(
    metric: Metric, prediction: str, reference: str, expected: float
) -> None:
    assert value_of(metric, prediction, reference) == pytest.approx(expected)


@pytest.mark.parametrize("metric", [Cer(), Wer()])
def test_the_reference_with_the_lowest_rate_counts(metric: Metric) -> None:
    assert value_of(metric, "a b", "x y z", "a b") == 0.0


def test_among_equal_rates_the_first_reference_gives_the_length() -> None:
    assert measure(Cer(), [("ab", ["ax", "axby"])]).statistics["length"] == [2.0]


@pytest.mark.parametrize("metric", [Cer(), Wer()])
@given(answer=TEXT, true=TEXT)
def test_a_sample_has_jiwers_rate(metric: Metric, answer: str, true: str) -> None:
    function = jiwer.cer if isinstance(metric, Cer) else jiwer.wer
    assert value_of(metric, answer, true) == pytest.approx(float(function(true, answer)))


@pytest.mark.parametrize("metric", [Cer(), Wer()])
@given(pairs=st.lists(st.tuples(TEXT, TEXT), min_size=1, max_size=8))
def test_a_group_has_jiwers_pooled_rate(metric: Metric, pairs: list[tuple[str, str]]) -> None:
    function = jiwer.cer if isinstance(metric, Cer) else jiwer.wer
    pooled = combined(metric, measure(metric, [(answer, [true]) for answer, true in pairs]))
    assert pooled == pytest.approx(float(function([true for _, true in pairs], [answer for answer, _ in pairs])))


@pytest.mark.parametrize("metric", [Cer(), Wer()])
@given(samples=SAMPLES)
def test_the_bulk_equals_one_sample_at_a_time(metric: Metric, samples: list[tuple[str, list[str]]]) -> None:
    assert measure(metric, samples).values == [value_of(metric, answer, *own) for answer, own in samples]


def test_pooled_differs_from_the_mean_of_samples() -> None:
    measures = measure(Cer(), [("x", ["a"]), ("abcdefghi", ["abcdefghi"])])
    assert combined(Cer(), measures) == 0.1
    assert measures.values == [1.0, 0.0]


def test_white_space_that_stands_alone_divides_words_only_if_it_is_a_space() -> None:
    assert divide_words(["a b", " a  b ", "a\tb c", "a \t b", "\u2003", ""]) == [
        *(["a", "b"], ["a", "b"], ["a\tb", "c"], ["a", "b"]),
        *([], []),
    ]
