"""chrF and TER against sacrebleu itself, per sentence and per corpus."""

from __future__ import annotations

import pytest
import sacrebleu
from hypothesis import given
from hypothesis import strategies as st
from sacrebleu.metrics import CHRF, TER
from scoring_support import SAMPLES, TEXT, combined, measure, value_of

from vlmhyperbench_sdk.protocols import Metric
from vlmhyperbench_text_metrics.chrf import Chrf
from vlmhyperbench_text_metrics.ter import SHIFTED_WORDS, Ter

METRICS = [(Chrf(), CHRF()), (Chrf(profile="chrfpp"), CHRF(word_order=2)), (Ter(), TER())]

# The example of sacrebleu's README; values of sacrebleu 2.6.0.
HYPOTHESES = ["The dog bit the man.", "It wasn't surprising.", "The man had just bitten him."]
REFERENCES = [
    ["The dog bit the man.", "It was not unexpected.", "The man bit him first."],
    ["The dog had bit the man.", "No one was surprised.", "The man had bitten the dog."],
]


@pytest.mark.parametrize(("metric", "expected"), [(METRICS[0][0], 59.73), (METRICS[1][0], 59.15), (Ter(), 40.0)])
def test_the_readme_of_sacrebleu_is_reproduced(metric: Metric, expected: float) -> None:
    samples = list(zip(HYPOTHESES, zip(*REFERENCES, strict=True), strict=True))
    assert combined(metric, measure(metric, samples)) == pytest.approx(expected, abs=0.005)


@pytest.mark.parametrize(("metric", "reference"), METRICS)
@given(rows=st.lists(st.tuples(TEXT, TEXT, TEXT), min_size=1, max_size=6))
def test_a_group_has_sacrebleus_corpus_score(
    metric: Metric, reference: CHRF | TER, rows: list[tuple[str, str, str]]
) -> None:
    hypotheses, first, second = (list(column) for column in zip(*rows, strict=True))
    expected = reference.corpus_score(hypotheses, [first, second]).score
    measures = measure(metric, [(answer, own) for answer, *own in rows])
    assert combined(metric, measures) == pytest.approx(expected)


@pytest.mark.parametrize(("metric", "reference"), METRICS)
@given(answer=TEXT, own=st.lists(TEXT, min_size=1, max_size=3))
def test_a_sample_has_sacrebleus_sentence_score(
    metric: Metric, reference: CHRF | TER, answer: str, own: list[str]
) -> None:
    assert value_of(metric, answer, *own) == pytest.approx(reference.sentence_score(answer, own).score)


@pytest.mark.parametrize("metric", [metric for metric, _ in METRICS])
@given(samples=SAMPLES)
def test_the_bulk_equals_one_sample_at_a_time(metric: Metric, samples: list[tuple[str, list[str]]]) -> None:
    assert measure(metric, samples).values == [value_of(metric, answer, *own) for answer, own in samples]


@pytest.mark.parametrize(("metric", "reference"), METRICS)
def test_the_signature_is_part_of_the_description(metric: Metric, reference: CHRF | TER) -> None:
    reference.corpus_score(["a", "b"], [["a", "b"], ["c", None]])
    signature = str(reference.get_signature())
    assert signature.endswith(sacrebleu.__version__)
    assert metric.description.formula.startswith(signature)


def test_a_perfect_answer_is_100_points_of_chrf_and_none_of_ter() -> None:
    assert value_of(Chrf(), "the cat", "the cat") == 100.0
    assert value_of(Ter(), "the cat", "The Cat") == 0.0


def test_moving_a_word_is_one_edit() -> None:
    assert value_of(Ter(), "b c d a", "a b c d") == 25.0


def test_ter_is_unclipped_and_an_empty_reference_costs_100() -> None:
    assert value_of(Ter(), "a b c", "x") == 300.0
    assert value_of(Ter(), "a b c", "") == 100.0
    assert value_of(Ter(), "", "") == 0.0


def test_beyond_its_bound_ter_counts_edits_without_moves_and_says_so() -> None:
    words = [f"w{no}" for no in range(SHIFTED_WORDS + 1)]
    moved = " ".join([words[-1], *words[:-1]])
    measures = measure(Ter(), [(moved, [" ".join(words)]), ("b a", ["a b"])])
    assert measures.values == [pytest.approx(100 * 2 / len(words)), 50.0]
    assert measures.statistics["unshifted"] == [1.0, 0.0]
