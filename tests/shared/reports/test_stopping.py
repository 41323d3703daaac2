"""The report of a run that has a stop rule."""

from __future__ import annotations

import pytest

from tests.shared.reports.builders import document_of, evidence, fact, run_spec
from tests.shared.reports.reading import limits_of, section_of, tables_of
from tests.support.wording import Wording
from vlmhyperbench.domain.specs import Decoding, StopRule
from vlmhyperbench.reports.sections.stopping import say_stop, stop_section
from vlmhyperbench.summaries.evidence import RunEvidence
from vlmhyperbench.summaries.summarising import summarise_run
from vlmhyperbench_text_metrics.exact_match import ExactMatch

RULE = StopRule(metric="exact_match@v1", rule="not_worse", margin=0.1)
OUTCOME = {
    "state": "refuted",
    "baseline_name": "the old one",
    "samples": 2,
    "of": 9,
    "unscored": 0,
    "low": -1.0,
    "high": -0.2,
}


def stopped(rule: StopRule = RULE, *, rows: int = 4, **outcome: object) -> RunEvidence:
    spec = run_spec(metrics=(ExactMatch(),), stop=rule, decoding=Decoding())
    rows_of = [fact(no, "yes", "yes") for no in range(rows)]
    return evidence(rows_of, spec=spec, total=9, stopping={**OUTCOME, **outcome})


def test_a_stopped_run_says_what_is_certain_and_that_it_asked_no_more(wording: Wording) -> None:
    document = document_of(stopped())
    wording(document.verdict[0])
    wording(section_of(document, "stopping").lead)
    assert tables_of(document)["stop-rule"].rows[0][-1] == "−1.000 to −0.200"
    wording(limits_of(document))


@pytest.mark.parametrize(
    ("rule", "state"),
    [
        *(("better", "shown"), ("better", "refuted")),
        *(("worse", "shown"), ("worse", "refuted")),
        *(("not_worse", "shown"), ("not_worse", "refuted")),
        *(("equivalent", "shown"), ("equivalent", "refuted")),
    ],
)
def test_each_rule_has_a_sentence_for_either_outcome(rule: str, state: str, wording: Wording) -> None:
    run = stopped(StopRule.model_validate({"metric": "exact_match@v1", "rule": rule, "margin": 0.1}), state=state)
    wording(say_stop(summarise_run(run)))


def test_a_rule_that_was_certain_only_at_the_end_did_not_stop_the_run(wording: Wording) -> None:
    run = stopped(rows=9)
    assert not run.is_stopped
    wording(say_stop(summarise_run(run)))


def test_a_small_error_is_not_rounded_to_0(wording: Wording) -> None:
    rule = {"metric": "exact_match@v1", "rule": "worse", "margin": 0.1, "alpha": 0.001}
    wording(say_stop(summarise_run(stopped(StopRule.model_validate(rule)))))


@pytest.mark.parametrize("state", ["undecided", "no_baseline"])
def test_a_rule_that_was_never_certain_says_so(state: str, wording: Wording) -> None:
    wording(say_stop(summarise_run(stopped(rows=9, state=state))))


def test_a_run_without_a_rule_has_no_sentence_and_no_section() -> None:
    assert (say_stop(summarise_run(evidence())), stop_section(summarise_run(evidence()))) == ("", None)
