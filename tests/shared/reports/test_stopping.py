"""What a report says of a run that has a stop rule."""

from __future__ import annotations

import pytest

from tests.shared.reports.builders import document_of, evidence, fact, run_spec
from vlmhyperbench.domain.specs import Decoding, StopRule
from vlmhyperbench.reports.document import Points, Table
from vlmhyperbench.reports.sections.stopping import say_stop, stop_section
from vlmhyperbench.summaries.evidence import RunEvidence
from vlmhyperbench.summaries.summarising import summarise_run
from vlmhyperbench_text_metrics import ExactMatch

RULE = StopRule(metric="exact_match@v1", rule="not_worse", margin=0.1)
TOLD = {
    "state": "refuted",
    "baseline_name": "the old one",
    "samples": 2,
    "of": 9,
    "unscored": 0,
    "low": -1.0,
    "high": -0.2,
}


def stopped(rule: StopRule = RULE, *, rows: int = 4, **told: object) -> RunEvidence:
    spec = run_spec(metrics=(ExactMatch(),), stop=rule, decoding=Decoding())
    rows_of = [fact(no, "yes", "yes") for no in range(rows)]
    return evidence(rows_of, spec=spec, total=9, stopping={**TOLD, **told})


def test_a_stopped_run_says_what_is_certain_and_that_it_asked_no_more() -> None:
    document = document_of(stopped())
    assert document.verdict[0].startswith(
        "After 2 of 9 samples it was certain that the run is worse by more than 0.1 on exact_match@v1 against the old "
        "one (error at most 5\u00a0%), and the run stopped at 4 samples."
    )
    [section] = [one for one in document.sections if one.name == "stopping"]
    [table] = section.blocks
    assert isinstance(table, Table)
    assert table.rows[0][-1] == "−1.000 to −0.200"
    [points] = [one for part in document.sections if part.name == "limitations" for one in part.blocks]
    assert isinstance(points, Points)
    assert any(item.startswith("The run stopped early by its rule") for item in points.items)
    assert "Incomplete" not in document.verdict[0]


@pytest.mark.parametrize(
    ("rule", "state", "claim"),
    [
        ("better", "shown", "better by more than 0.1"),
        ("better", "refuted", "not better by more than 0.1"),
        ("worse", "shown", "worse by more than 0.1"),
        ("worse", "refuted", "not worse by more than 0.1"),
        ("not_worse", "shown", "not worse by more than 0.1"),
        ("equivalent", "shown", "within 0.1 of it"),
        ("equivalent", "refuted", "apart from it by more than 0.1"),
    ],
)
def test_each_rule_says_what_it_found(rule: str, state: str, claim: str) -> None:
    run = stopped(StopRule.model_validate({"metric": "exact_match@v1", "rule": rule, "margin": 0.1}), state=state)
    assert f"certain that the run is {claim} on exact_match@v1" in say_stop(summarise_run(run))


def test_a_rule_that_was_certain_at_the_end_stopped_nothing() -> None:
    run = stopped(rows=9)
    assert not run.is_stopped
    assert say_stop(summarise_run(run)).endswith("(error at most 5\u00a0%), when all had been asked. ")


def test_a_small_error_is_never_written_as_none() -> None:
    rule = {"metric": "exact_match@v1", "rule": "worse", "margin": 0.1, "alpha": 0.001}
    assert "(error at most 0.1\u00a0%)" in say_stop(summarise_run(stopped(StopRule.model_validate(rule))))


def test_a_rule_that_was_never_certain_says_so() -> None:
    assert "was never certain" in say_stop(summarise_run(stopped(rows=9, state="undecided")))
    assert "had nothing to compare with" in say_stop(summarise_run(stopped(rows=9, state="no_baseline")))


def test_a_run_without_a_rule_says_nothing() -> None:
    assert (say_stop(summarise_run(evidence())), stop_section(summarise_run(evidence()))) == ("", None)
