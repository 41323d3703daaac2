"""BLEU against sacrebleu itself, per sentence and per corpus."""

from __future__ import annotations

import pytest
import sacrebleu
from hypothesis import given
from hypothesis import strategies as st
from scoring_support import SAMPLES, TEXT, combined, measure, value_of

from vlmhyperbench_text_metrics.bleu import Bleu

# The example of sacrebleu's README.
HYPOTHESES = ["The dog bit the man.", "It wasn't surprising.", "The man had just bitten him."]
REFERENCES = [
    ["The dog bit the man.", "It was not unexpected.", "The man bit him first."],
    ["The dog had bit the man.", "No one was surprised.", "The man had bitten the dog."],
]


def test_the_readme_of_sacrebleu_is_reproduced() -> None:
    samples = list(zip(HYPOTHESES, zip(*REFERENCES, strict=True), strict=True))
    assert combined(Bleu(), measure(Bleu(), samples)) == pytest.approx(48.53, abs=0.005)


@given(st.lists(st.tuples(TEXT, TEXT, TEXT), min_size=1, max_size=6))
def test_a_group_has_sacrebleus_corpus_score(rows: list[tuple[str, str, str]]) -> None:
    hypotheses, first, second = (list(column) for column in zip(*rows, strict=True))
    expected = sacrebleu.corpus_bleu(hypotheses, [first, second])
    measures = measure(Bleu(), [(answer, own) for answer, *own in rows])
    is_too_short = expected.totals[3] == 0 and expected.ref_len < 4 * len(rows)
    assert combined(Bleu(), measures) == (None if is_too_short else pytest.approx(expected.score))


def test_one_word_answers_have_no_corpus_score_and_empty_answers_to_long_references_have_0() -> None:
    assert combined(Bleu(), measure(Bleu(), [("invoice", ["invoice"]), ("ticket", ["ticket"])])) is None
    assert combined(Bleu(), measure(Bleu(), [("", ["the cat sat on the mat"])])) == 0.0


@given(TEXT, st.lists(TEXT, min_size=1, max_size=3))
def test_a_sample_has_sacrebleus_sentence_score(answer: str, own: list[str]) -> None:
    assert value_of(Bleu(), answer, *own) == pytest.approx(sacrebleu.sentence_bleu(answer, own).score)


@given(SAMPLES)
def test_the_bulk_equals_one_sample_at_a_time(samples: list[tuple[str, list[str]]]) -> None:
    assert measure(Bleu(), samples).values == [value_of(Bleu(), answer, *own) for answer, own in samples]


def test_a_perfect_answer_is_no_more_than_100_points() -> None:
    assert value_of(Bleu(), "the cat", "the cat") == 100.0


def test_the_signature_is_part_of_the_description() -> None:
    assert Bleu().description.formula.endswith(f"tok:13a|smooth:exp|version:{sacrebleu.__version__}")
