"""Outcomes, the policy for model failures, and metrics that break."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vlmhyperbench.domain.specs import ExtractorSpec
from vlmhyperbench.scoring.reported import KEY, Reported
from vlmhyperbench.scoring.scores import Outcome, Row, Score, outcome_of, score, wrong_answer
from vlmhyperbench_sdk.protocols import Metric, MetricDescription
from vlmhyperbench_sdk.types import JsonObject, Measures
from vlmhyperbench_text_metrics.anls import Anls
from vlmhyperbench_text_metrics.bleu import Bleu
from vlmhyperbench_text_metrics.cer import Cer
from vlmhyperbench_text_metrics.classification import Classification
from vlmhyperbench_text_metrics.exact_match import ExactMatch
from vlmhyperbench_text_metrics.token_f1 import TokenF1
from vlmhyperbench_text_metrics.vqa_accuracy import VqaAccuracy
from vlmhyperbench_text_metrics.wer import Wer

MODEL = Row(status="error", failure="model", error_code="timeout", references=("ab",))
INFRASTRUCTURE = Row(status="error", failure="infrastructure", error_code="unreadable_image", references=("ab",))


def _ok(text: str | None, *references: str) -> Row:
    return Row(status="ok", text=text, references=references)


def _one(metric: Metric, row: Row, **options: str) -> Score:
    return score(metric, [row], **options)[0]


class Fragile:
    """Gives whatever measures a test wants, and raises on the text `boom`."""

    description: MetricDescription = ExactMatch().description

    def __init__(self, measures: Measures | None = None) -> None:
        self._measures = measures
        self.batches: list[int] = []

    def measure(
        self,
        predictions: Sequence[str],
        references: Sequence[Sequence[str]],
        *,
        metadata: Sequence[JsonObject] | None = None,
    ) -> Measures:
        self.batches.append(len(predictions))
        if "boom" in predictions:
            raise RuntimeError("boom \ud800\x00" + "x" * 1000)
        return self._measures or ExactMatch().measure(predictions, references)

    def combine(self, sums: Mapping[str, float]) -> float | None:
        return ExactMatch().combine(sums)


@pytest.mark.parametrize(
    ("row", "outcome"),
    [
        (_ok("a", "a"), Outcome.SCORED),
        (MODEL, Outcome.MODEL_FAILURE),
        (INFRASTRUCTURE, Outcome.INFRASTRUCTURE_FAILURE),
        (Row(status="error"), Outcome.INFRASTRUCTURE_FAILURE),
        (Row(status="quarantined", failure="model"), Outcome.INFRASTRUCTURE_FAILURE),
    ],
)
def test_only_an_error_of_the_model_is_held_against_it(row: Row, outcome: Outcome) -> None:
    assert outcome_of(row) is outcome


def test_an_answer_is_scored_against_its_references() -> None:
    right, wrong = score(ExactMatch(), [_ok("B", "a", "b"), _ok("c", "a")])
    assert (right.outcome, right.measure.value) == (Outcome.SCORED, 1.0)
    assert (wrong.outcome, wrong.measure.value) == (Outcome.SCORED, 0.0)


def test_an_answer_without_text_is_an_empty_answer() -> None:
    assert _one(Cer(), _ok(None, "ab")).measure.value == 1.0


def test_a_model_failure_under_zero_is_scored_as_an_empty_answer() -> None:
    assert _one(Anls(), MODEL).measure.value == 0.0
    failed = _one(Cer(), MODEL)
    assert failed.outcome is Outcome.MODEL_FAILURE
    assert failed.measure.statistics == {"edits": 2.0, "length": 2.0, "count": 1.0}


def test_a_partial_answer_of_a_failed_request_is_not_scored() -> None:
    row = Row(status="error", failure="model", text="ab", references=("ab",))
    assert _one(ExactMatch(), row).measure.value == 0.0


def test_a_model_failure_is_never_right_even_where_the_empty_answer_would_be() -> None:
    row = Row(status="error", failure="model", references=("", "ab"))
    assert _one(ExactMatch(), row).measure.value == 0.0
    assert _one(Cer(), row).measure.value == 1.0
    assert wrong_answer(("ab",)) == ""


@pytest.mark.parametrize(
    ("metric", "references"),
    [
        (TokenF1(), ("A",)),
        (TokenF1(), ("-",)),
        (TokenF1(), ("$", "cash")),
        (ExactMatch(strip_punct=True), ("-",)),
        (VqaAccuracy(), ("a",) * 9 + ("an a",)),
        (VqaAccuracy(), ("?",) * 9 + ("what",)),
        (VqaAccuracy(), ("a",) * 3 + ("dog",) * 7),
        (VqaAccuracy(profile="normalized"), ("a",) * 10),
    ],
)
def test_a_model_failure_is_worth_nothing_also_where_a_normaliser_leaves_nothing_of_a_reference(
    metric: Metric, references: tuple[str, ...]
) -> None:
    row = Row(status="error", failure="model", references=references)
    assert _one(metric, row).measure.value == 0.0
    number = ExtractorSpec(name="number", version=2)
    unread = score(metric, [_ok("none", *references)], extractor=number, on_invalid="zero")[0]
    assert (unread.measure.value, unread.is_invalid) == (0.0, True)


@pytest.mark.parametrize(
    ("metric", "statistics"),
    [
        (Cer(), {"edits": 1.0, "length": 1.0}),
        (Wer(), {"edits": 1.0, "length": 1.0}),
        (Bleu(), {"sys_len": 0.0, "ref_len": 1.0}),
        (Classification(), {"cell:a|__unparsed__": 1.0}),
    ],
)
def test_where_a_failure_is_the_worst_already_it_stays_the_empty_answer(
    metric: Metric, statistics: dict[str, float]
) -> None:
    found = _one(metric, Row(status="error", failure="model", references=("a",))).measure.statistics
    assert {name: found[name] for name in statistics} == statistics


def test_a_failure_by_a_number_of_which_nobody_knows_whether_more_is_better_is_what_the_metric_says() -> None:
    reported = Reported(score="acc")
    row = Row(status="error", failure="model", metadata={KEY: {"acc": 0.5}})
    assert _one(reported, row).measure.value == 0.5


def test_a_model_failure_under_exclude_has_no_value() -> None:
    excluded = _one(Anls(), MODEL, on_model_failure="exclude")
    assert excluded.outcome is Outcome.MODEL_FAILURE
    assert (excluded.measure.value, excluded.measure.reason) == (None, "timeout")


@pytest.mark.parametrize("policy", ["zero", "exclude"])
def test_an_infrastructure_failure_is_never_scored(policy: str) -> None:
    failed = _one(Anls(), INFRASTRUCTURE, on_model_failure=policy)
    assert failed.outcome is Outcome.INFRASTRUCTURE_FAILURE
    assert (failed.measure.value, failed.measure.reason) == (None, "unreadable_image")


def test_a_failure_without_a_code_gives_its_status_as_reason() -> None:
    assert _one(Anls(), Row(status="quarantined")).measure.reason == "quarantined"


def test_an_answer_that_cannot_be_read_is_wrong_or_unscored_by_policy_and_invalid_either_way() -> None:
    number = ExtractorSpec(name="number", version=2)
    unread = score(ExactMatch(), [_ok("none", "5")], extractor=number)[0]
    assert (unread.outcome, unread.measure.reason) == (Outcome.UNSCORED, "invalid_output: no_number")
    assert unread.is_invalid
    wrong = score(Cer(), [_ok("none", "55")], extractor=number, on_invalid="zero")[0]
    assert (wrong.outcome, wrong.measure.value, wrong.is_invalid) == (Outcome.MODEL_FAILURE, 1.0, True)
    read = score(ExactMatch(), [_ok("It is 5", "5")], extractor=number)[0]
    assert (read.outcome, read.measure.value, read.is_invalid) == (Outcome.SCORED, 1.0, False)
    assert not score(ExactMatch(), [MODEL], extractor=number)[0].is_invalid


@pytest.mark.parametrize(
    "measures",
    [
        Measures(values=[None], reasons=["invalid_json"], statistics={"invalid": [0.0]}),
        Measures(values=[0.0], reasons=[None], statistics={"invalid": [1.0]}),
    ],
)
def test_a_metric_that_reads_answers_itself_says_which_are_invalid(measures: Measures) -> None:
    assert _one(Fragile(measures), _ok("a", "a")).is_invalid


def test_an_answer_that_the_metric_cannot_score_is_unscored() -> None:
    unscored = _one(ExactMatch(), _ok("a"))
    assert (unscored.outcome, unscored.measure.reason) == (Outcome.UNSCORED, "no_reference")


def test_pooled_metrics_say_what_a_right_answer_would_add_in_a_missing_row() -> None:
    missing = _one(Cer(), INFRASTRUCTURE)
    assert missing.right is not None
    assert missing.right.statistics == {"edits": 0.0, "length": 2.0, "count": 1.0}
    bleu = _one(Bleu(), Row(status="quarantined", references=("a b c d",)))
    assert bleu.right is not None
    assert bleu.right.value == pytest.approx(100.0)


def test_that_is_said_only_where_a_pooled_value_is_missing_and_one_answer_is_right() -> None:
    assert _one(Cer(), _ok("a", "a")).right is None
    assert _one(Cer(), _ok("a")).right is None
    assert _one(ExactMatch(), INFRASTRUCTURE).right is None
    assert _one(Cer(), Row(status="error", references=("ab", "abcd"))).right is None
    assert _one(Cer(), Row(status="error", references=("ab", "ab"))).right is not None


def test_a_metric_that_raises_loses_only_the_row_on_which_it_raises() -> None:
    rows = [_ok("a", "a"), _ok("boom", "a"), _ok("b", "a"), _ok("a", "a")]
    scores = score(Fragile(), rows)
    assert [scored.measure.value for scored in scores] == [1.0, None, 0.0, 1.0]
    assert scores[1].outcome is Outcome.UNSCORED


def test_a_plugins_message_is_fit_for_storage() -> None:
    reason = _one(Fragile(), _ok("boom", "a")).measure.reason or ""
    assert reason.startswith("metric_error: RuntimeError: boom ?\N{REPLACEMENT CHARACTER}xxx")
    assert len(reason) == 300


@pytest.mark.parametrize(
    "measures",
    [
        Measures(values=[1.0, 1.0], reasons=[None], statistics={}),
        Measures(values=[float("nan")], reasons=[None], statistics={}),
        Measures(values=["0.5"], reasons=[None], statistics={}),
        Measures(values=[0.5], reasons=[None], statistics={"count": ["1"]}),
        Measures(values=[True], reasons=[None], statistics={}),
        Measures(values=[1.0], reasons=[None], statistics={"correct": [float("inf")]}),
        Measures(values=[None], reasons=[None], statistics={}),
        Measures(values=[None], reasons=["why"], statistics={"correct": [1.0]}),
    ],
)
def test_measures_that_break_the_contract_are_not_stored(measures: Measures) -> None:
    broken = _one(Fragile(measures), _ok("a", "a"))
    assert broken.outcome is Outcome.UNSCORED
    assert (broken.measure.reason or "").startswith("metric_error: PluginFailure")


def test_a_batch_is_scored_in_one_call() -> None:
    metric = Fragile()
    score(metric, [_ok("a", "a")] * 50)
    assert metric.batches == [50]


def test_no_rows_need_no_metric() -> None:
    metric = Fragile()
    assert score(metric, []) == []
    assert metric.batches == []


ROWS = st.lists(
    st.builds(
        Row,
        status=st.sampled_from(["ok", "error", "quarantined"]),
        text=st.sampled_from([None, "", "a", "boom", "b"]),
        references=st.lists(st.sampled_from(["", "a", "b"]), max_size=2),
        failure=st.sampled_from([None, "model", "infrastructure"]),
    ),
    max_size=8,
)


@given(rows=ROWS, policy=st.sampled_from(["zero", "exclude"]))
def test_every_row_has_either_a_value_or_a_reason(rows: list[Row], policy: str) -> None:
    for row, scored in zip(rows, score(Fragile(), rows, on_model_failure=policy), strict=True):
        assert (scored.measure.value is None) == bool(scored.measure.reason)
        assert scored.outcome in {outcome_of(row), Outcome.UNSCORED}
        if scored.outcome is Outcome.INFRASTRUCTURE_FAILURE:
            assert scored.measure.value is None
