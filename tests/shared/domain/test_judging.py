"""A judge's requests: the verdict that each asks for, and the spec by which it is asked."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from tests.shared.domain.builders_of_jobs import JUDGING, METRIC, judge_metric, run_spec
from vlmhyperbench.domain.judging import (
    Judging,
    VerdictRequest,
    is_judge,
    judge_of,
    judging_of,
    judging_spec,
    verdict_request,
    verdicts,
)
from vlmhyperbench.domain.specs import Decoding


@given(st.integers(1, 9), st.integers(1, 4), st.booleans())
def test_every_ordinal_asks_for_a_different_verdict(answers: int, repeats: int, swap: bool) -> None:
    judging = JUDGING.model_copy(update={"swap": swap, "decoding": Decoding(n=repeats)})
    count = verdicts(judging, answers)
    positions = {verdict_request(judging, ordinal, answers) for ordinal in range(count)}
    assert len(positions) == count == answers * repeats * (2 if swap else 1)


def test_an_ordinal_counts_answers_then_orders_then_repeats() -> None:
    judging = JUDGING.model_copy(update={"decoding": Decoding(n=2)})
    assert verdict_request(judging, 0, 3) == VerdictRequest(answer=0, order="reference_first", repeat=0)
    assert verdict_request(judging, 4, 3) == VerdictRequest(answer=1, order="answer_first", repeat=0)
    assert verdict_request(judging, 11, 3) == VerdictRequest(answer=2, order="answer_first", repeat=1)


def test_a_judge_is_found_by_its_label() -> None:
    spec = run_spec(metrics=(METRIC, judge_metric()))
    result = judge_of(spec, "judged@v1")
    assert (is_judge(result), result.label, is_judge(METRIC)) == (True, "judged@v1", False)
    assert judging_of(result) == JUDGING.model_copy(update={"decoding": Decoding()})
    with pytest.raises(LookupError, match="exact_match@default"):
        judge_of(spec, "exact_match@default")


def test_a_judge_is_asked_by_its_own_target_prompt_and_decoding() -> None:
    spec = judging_spec(run_spec(answers=5), JUDGING)
    assert (spec.target, spec.prompt, spec.decoding) == (JUDGING.target, JUDGING.prompt, JUDGING.decoding)
    assert (spec.scenario.kind, spec.scenario.warmup_requests, spec.reuse) == ("offline", 0, "cache")
    afresh = run_spec().model_copy(update={"reuse": "nothing"})
    assert judging_spec(afresh, JUDGING).reuse == "nothing"


@pytest.mark.parametrize("labels", [{"Yes": 1, "yes.": 0}, {"": 1}, {"...": 1, "no": 0}])
def test_labels_that_are_compared_as_equal_are_refused(labels: dict[str, int]) -> None:
    with pytest.raises(ValidationError) as refused:
        Judging.model_validate({**JUDGING.model_dump(), "labels": labels})
    (error,) = refused.value.errors()
    assert (error["loc"], error["type"]) == (("labels",), "value_error")
