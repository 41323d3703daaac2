"""The bounds in a report hold for every text that the answers without a value could have had."""

from __future__ import annotations

import io
from collections.abc import Sequence

import polars
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vlmhyperbench.analysis.quality import aggregates_of
from vlmhyperbench.analysis.results import Aggregate
from vlmhyperbench.domain.specs import MetricSpec
from vlmhyperbench.scoring.measured import FACT_COLUMNS, measure_metric
from vlmhyperbench.scoring.metrics import open_metric

TEXTS = ("a", "b", "a b c d e", "a b c d e f g h i j", "b a", "x" * 40)
DOCUMENTS = (
    '{"n": "x"}',
    '{"n": "x", "items": [{"p": "1"}, {"p": "2"}]}',
    '{"items": [{"p": "1"}]}',
    '{"n": "y", "m": "z", "items": [{"p": "2"}, {"p": "3"}, {"p": "4"}]}',
    "no JSON",
)
TEXT, DOCUMENT = "vlmhyperbench_text_metrics", "vlmhyperbench_document_metrics"
POOLED = {
    "cer@jiwer": (f"{TEXT}.cer:Cer", TEXTS),
    "wer@jiwer": (f"{TEXT}.wer:Wer", TEXTS),
    "ter@sacrebleu": (f"{TEXT}.ter:Ter", TEXTS),
    "bleu@sacrebleu": (f"{TEXT}.bleu:Bleu", TEXTS),
    "chrf@sacrebleu": (f"{TEXT}.chrf:Chrf", TEXTS),
    "field_accuracy@exact": (f"{DOCUMENT}.field_accuracy:FieldAccuracy", DOCUMENTS),
    "field_f1@exact": (f"{DOCUMENT}.field_f1:FieldF1", DOCUMENTS),
    "item_count_accuracy@count": (f"{DOCUMENT}.item_count:ItemCountAccuracy", DOCUMENTS),
    "item_count_accuracy@recognised": (f"{DOCUMENT}.item_count:ItemCountAccuracy", DOCUMENTS),
    "classification@macro_f1": (f"{TEXT}.classification:Classification", TEXTS[:4]),
    "classification@micro_f1": (f"{TEXT}.classification:Classification", TEXTS[:4]),
    "classification@weighted_f1": (f"{TEXT}.classification:Classification", TEXTS[:4]),
    "classification@macro_precision": (f"{TEXT}.classification:Classification", TEXTS[:4]),
    "classification@macro_recall": (f"{TEXT}.classification:Classification", TEXTS[:4]),
}


def _spec(label: str) -> MetricSpec:
    name, _, profile = label.partition("@")
    version = "1.1.0" if name == "bleu" else "1.0.0"
    return MetricSpec(name=name, profile=profile, version=version, class_path=POOLED[label][0])


def _aggregate(spec: MetricSpec, rows: Sequence[tuple[str | None, list[str]]]) -> Aggregate:
    """Aggregate answers with their references; None is an infrastructure failure."""
    facts = polars.DataFrame(
        {
            "phase": [1] * len(rows),
            "ordinal": list(range(len(rows))),
            "status": ["error" if answer is None else "ok" for answer, _ in rows],
            "failure": ["infrastructure" if answer is None else None for answer, _ in rows],
            "error_code": [None] * len(rows),
            "text": [answer for answer, _ in rows],
            "references": [references for _, references in rows],
            "metadata": ["{}"] * len(rows),
        },
        schema_overrides={"phase": polars.Int32, "text": polars.String, "failure": polars.String},
    ).select(FACT_COLUMNS)
    measured = measure_metric(facts, spec, on_invalid="zero")
    one_document = polars.read_parquet(io.BytesIO(measured.content)).with_columns(cluster=polars.lit("d"))
    return aggregates_of(one_document, open_metric(spec))[()]  # one document has no interval, so nothing is resampled


@settings(max_examples=60, deadline=None)
@given(st.data(), st.sampled_from(sorted(POOLED)))
def test_no_missing_answer_could_move_a_pooled_value_beyond_its_bounds(data: st.DataObject, label: str) -> None:
    spec, texts = _spec(label), st.sampled_from(POOLED[label][1])
    present = data.draw(st.lists(st.tuples(texts, st.lists(texts, min_size=1, max_size=1)), max_size=3))
    missing = data.draw(st.lists(st.lists(texts, min_size=1, max_size=2), min_size=1, max_size=2))
    answers = data.draw(st.lists(texts, min_size=len(missing), max_size=len(missing)))
    result = _aggregate(spec, [*present, *((None, references) for references in missing)])
    filled = _aggregate(spec, [*present, *zip(answers, missing, strict=True)])
    if filled.value is None or filled.n_unscored:
        return
    assert result.lower is None or result.lower <= filled.value + 1e-9
    assert result.upper is None or result.upper >= filled.value - 1e-9


def test_a_lost_answer_may_have_had_any_number_of_errors() -> None:
    right = ("a" * 100, ["a" * 100])
    result = _aggregate(_spec("cer@jiwer"), [right] * 9 + [(None, ["b" * 10])])
    assert (result.value, result.lower, result.upper) == (0.0, 0.0, None)
    lost = _aggregate(_spec("cer@jiwer"), [right] * 9 + [("z" * 4000, ["b" * 10])])
    assert lost.value is not None
    assert lost.value > 4


def test_a_long_wrong_answer_may_raise_bleu_further_than_a_right_one() -> None:
    short = ("a b c d", ["a b c d e f g h i j k l m n o p q r s t"])
    reference = ["v w x y"]
    assert _aggregate(_spec("bleu@sacrebleu"), [short, (None, reference)]).upper is None
    right, wrong = (
        _aggregate(_spec("bleu@sacrebleu"), [short, (answer, reference)]).value
        for answer in ("v w x y", "v w x y z z z z z z z z")
    )
    assert right == pytest.approx(13.53, abs=0.01)
    assert wrong == pytest.approx(20.97, abs=0.01)


@pytest.mark.parametrize(
    ("label", "value"), [("classification@macro_f1", 2 / 3), ("classification@macro_precision", 0.75)]
)
def test_a_lost_answer_may_have_been_of_another_class(label: str, value: float) -> None:
    answered = [("a", ["a"]), ("b", ["b"])]
    result = _aggregate(_spec(label), [*answered, (None, ["a"])])
    assert (result.value, result.lower, result.upper) == (1.0, None, 1.0)
    assert _aggregate(_spec(label), [*answered, ("b", ["a"])]).value == pytest.approx(value)


def test_lost_answers_of_several_classes_leave_the_bound_that_they_have() -> None:
    result = _aggregate(_spec("classification@macro_f1"), [("b", ["a"]), (None, ["a"]), (None, ["b"])])
    assert (result.value, result.lower) == (0.0, None)
    assert result.upper == pytest.approx(2 / 3)
