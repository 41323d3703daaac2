"""The members of a pipeline in its report: their scores, the vote without each of them, and the section on both."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import polars
import pytest

from tests.shared.reports.builders import comparison_of, document_of, evidence, fact, metric_spec, run_spec
from tests.shared.reports.ensembles import ANSWERS, SAMPLES, VOTE, found, pipeline, rows_of, run_of
from tests.shared.reports.reading import tables_of
from tests.support.wording import Wording
from vlmhyperbench.domain.pipelines import (
    AggregationSpec,
    InnerMember,
    MemberSpec,
)
from vlmhyperbench.domain.specs import EndpointTarget
from vlmhyperbench.facts.replies import samples_of
from vlmhyperbench.reports.document import Cases, Facts
from vlmhyperbench.reports.ensembles import ensemble_evidence
from vlmhyperbench.reports.sections.ensemble import ensemble_section
from vlmhyperbench.reports.writers.json import from_json, to_json
from vlmhyperbench.summaries.codec import from_json as read_summary
from vlmhyperbench.summaries.codec import to_json as write_summary
from vlmhyperbench.summaries.summarising import summarise_run
from vlmhyperbench_sdk.protocols import MetricDescription
from vlmhyperbench_text_metrics.cer import Cer
from vlmhyperbench_text_metrics.exact_match import ExactMatch


class Undirected(ExactMatch):
    """A metric that does not say whether more of it is better."""

    @property
    def description(self) -> MetricDescription:
        return replace(super().description, direction=None)


def test_a_vote_is_compared_with_its_best_member() -> None:
    """The vote is right on the first four samples by a majority, and on the fifth and sixth by the first of a tie."""
    ensemble = found(run_of(VOTE, ANSWERS))
    assert ensemble.uplift is not None
    assert (ensemble.uplift.best, ensemble.uplift.value, ensemble.uplift.uplift) == ("good", 0.75, 0.0)
    assert [(member.name, member.value) for member in ensemble.uplift.members] == [
        ("good", 0.75),
        ("fair", 0.5),
        ("poor", 0.5),
    ]
    assert [oracle.value for oracle in ensemble.oracles][-1] == 1.0
    assert ensemble.agreement is not None
    assert (ensemble.agreement.samples, ensemble.agreement.unanimous) == (8, 2)


def test_a_pipeline_in_the_last_stage_is_scored_and_left_out_like_a_member() -> None:
    """The inner vote of fair and poor is right as fair is; good stays the best member of both."""
    within = pipeline(AggregationSpec(class_path="vote"), "fair", "poor").stages[0]
    within = within.model_copy(update={"id": "read/pair/vote", "within": "read/pair"})
    outer = pipeline(AggregationSpec(class_path="vote"), "good").stages[0]
    answers = InnerMember(name="pair", stage="read/pair/vote", position=1, weight=2)
    target = VOTE.model_copy(update={"stages": (within, outer.model_copy(update={"inner": (answers,)}))})
    run = run_of(target, ANSWERS)
    ensemble = found(run)
    assert ensemble.uplift is not None
    assert [(member.name, member.value) for member in ensemble.uplift.members] == [("good", 0.75), ("pair", 0.5)]
    assert (ensemble.uplift.best, ensemble.uplift.value) == ("good", 0.5)
    assert {value.name: (value.value, value.changed) for value in ensemble.values} == {
        "good": (0.0, 0),
        "pair": (-0.25, 2),
    }
    assert [step.model for step in ensemble.asked] == ["fair", "poor", "good"]
    assert ensemble.costs is not None
    assert (ensemble.costs.seconds, ensemble.costs.best_seconds) == (6, 3)
    (cases,) = (block for section in document_of(run).sections for block in section.blocks if isinstance(block, Cases))
    assert [answer.run for answer in cases.items[0].answers] == [
        "read/pair/vote: fair",
        "read/pair/vote: poor",
        "read: good",
        "read: pair",
        "result",
    ]


def test_members_are_left_out_by_voting_again() -> None:
    """Without good, fair and poor tie from the third sample on, where the first of them wins."""
    values = {value.name: value for value in found(run_of(VOTE, ANSWERS)).values}
    assert {name: (value.value, value.changed) for name, value in values.items()} == {
        "good": (0.25, 2),
        "fair": (0.0, 0),
        "poor": (0.0, 0),
    }


def test_the_confidence_of_a_vote_is_calibrated() -> None:
    ensemble = found(run_of(VOTE, ANSWERS))
    assert ensemble.calibration is not None
    bins = [(round(part.confidence, 3), part.n, part.right) for part in ensemble.calibration.bins]
    assert bins == [(0.333, 2, 1.0), (0.667, 4, 0.5), (1.0, 2, 1.0)]


def test_a_vote_without_an_answer_has_no_place_in_the_calibration() -> None:
    strict = pipeline(AggregationSpec(class_path="vote", params={"rule": "majority"}), *ANSWERS)
    confidences = ensemble_evidence(rows_of(strict, ANSWERS), run_spec(target=strict)).confidences
    assert confidences["ordinal"].to_list() == [0, 1, 2, 3, 6, 7]


def test_a_member_that_was_not_asked_is_scored_by_whoever_failed_before_it() -> None:
    writing = pipeline(AggregationSpec(class_path="vote"), "w", "v").stages[0]
    stages = (VOTE.stages[0], writing.model_copy(update={"id": "write", "inputs": ("read",)}))
    target = VOTE.model_copy(update={"stages": stages})
    rows = rows_of(target, {**ANSWERS, "fair": ["no"], "poor": ["maybe"], "good": ["yes"], "w": ["yes"], "v": ["yes"]})
    facts = rows.facts.with_columns(
        status=polars.when(polars.col("phase") > 2).then(polars.lit("error")).otherwise("status"),
        text=polars.when(polars.col("phase") == 2).then("text"),
        failure=polars.when(polars.col("phase") > 4).then(polars.lit("infrastructure")).otherwise(polars.lit("model")),
    )
    rows = replace(rows, facts=facts, samples=samples_of(facts, target, rows.keys))
    unasked = ensemble_evidence(rows, run_spec(metrics=(ExactMatch(),), target=target)).answering
    assert [member.name for member in unasked] == ["w", "v"]
    assert [member.scores["value"].to_list() for member in unasked if member.scores is not None] == [[0.0], [0.0]]


def test_time_and_memory_are_those_of_all_models_against_the_best_one() -> None:
    ensemble = found(run_of(VOTE, ANSWERS))
    assert ensemble.costs is not None
    assert (ensemble.costs.seconds, ensemble.costs.best_seconds) == (6, 1)
    assert (ensemble.costs.bytes, ensemble.costs.best_bytes) == (9 * 10**9, 2 * 10**9)
    assert (ensemble.latency_p50_s, ensemble.latency_p90_s) == (3, 3)
    assert [(bar.model, bar.start_s, bar.end_s) for bar in ensemble.bars] == [
        ("good", 0, 1),
        ("fair", 0, 2),
        ("poor", 0, 3),
    ]


def test_two_loads_of_one_model_need_the_memory_of_both() -> None:
    def named(no: int) -> MemberSpec:
        return MemberSpec(name=f"m{no}", target=EndpointTarget(endpoint=f"http://{no}.example/v1", model_name="m"))

    same = named(0).model_copy(update={"name": "again"})
    (vote,) = VOTE.stages
    stage = vote.model_copy(update={"members": (named(0), named(1), same)})
    answers = dict(zip(("m0", "m1", "again"), ANSWERS.values(), strict=True))
    ensemble = found(run_of(VOTE.model_copy(update={"stages": (stage,)}), answers))
    assert ensemble.costs is not None
    assert (ensemble.costs.bytes, ensemble.costs.best_bytes) == ((3 + 4) * 10**9, 2 * 10**9)


def test_a_sample_with_an_unknown_time_is_left_out_of_all_times(wording: Wording) -> None:
    """Fair hangs on the last two samples, and gives no time."""
    rows, spec = rows_of(VOTE, ANSWERS), run_spec(metrics=(ExactMatch(),), target=VOTE)
    hangs = (polars.col("phase") == 3) & (polars.col("ordinal") >= 6)
    taken = polars.when(polars.col("phase") == 4, polars.col("ordinal") >= 6).then(10**11)
    slow = rows.facts.with_columns(latency_ns=polars.when(~hangs).then(polars.coalesce(taken, "latency_ns")))
    run = run_of(VOTE, ANSWERS)
    summary = summarise_run(replace(run, ensemble=ensemble_evidence(replace(rows, facts=slow), spec)))
    ensemble = summary.ensemble
    assert ensemble is not None
    assert (ensemble.untimed, ensemble.latency_p50_s, ensemble.latency_p90_s) == (2, 3, 3)
    assert [bar.seconds for bar in ensemble.bars] == [1, 2, 3]
    assert ensemble.costs is not None
    assert (ensemble.costs.seconds, ensemble.costs.best_seconds) == (6, 1)
    section = ensemble_section(summary)
    assert section is not None
    (facts,) = (block for block in section.blocks if isinstance(block, Facts))
    wording(dict(facts.items)["Left out of all times"])


def test_a_metric_of_which_no_direction_is_better_makes_no_verdict() -> None:
    ensemble = found(run_of(VOTE, ANSWERS, metric=Undirected()))
    assert (ensemble.uplift, ensemble.oracles, ensemble.values, ensemble.verdict) == (None, (), (), None)
    assert ensemble.agreement is not None


def test_a_pooled_metric_is_pooled() -> None:
    """One of four letters and five of five are wrong: 6 of 9 letters, where the mean of both shares is 0.625."""
    answers: dict[str, list[Any]] = {"good": ["abcx", "-----"], "fair": ["abcx", "-----"], "poor": ["abcd", "abcde"]}
    ensemble = found(run_of(VOTE, answers, metric=Cer(), references=["abcd", "abcde"]))
    assert ensemble.uplift is not None
    assert ensemble.uplift.value == pytest.approx(6 / 9)
    assert (ensemble.uplift.best, ensemble.uplift.uplift) == ("poor", pytest.approx(-6 / 9))
    assert [oracle.value for oracle in ensemble.oracles] == [pytest.approx(4 / 9), pytest.approx(2 / 9), 0]
    assert [value.value for value in ensemble.values] == [pytest.approx(value) for value in (-6 / 9 + 6 / 9, 0, 0)]


def test_a_merged_answer_has_no_values_without_a_member_and_merging_comes_after_the_members() -> None:
    merger = MemberSpec(name="merger", target=EndpointTarget(endpoint="http://merger.example/v1", model_name="merger"))
    target = pipeline(AggregationSpec(class_path="synthesis", merger=merger), "good", "fair")
    texts: dict[str, list[Any]] = {**ANSWERS, "merger": ["yes"] * SAMPLES}
    ensemble = found(run_of(target, texts))
    assert ensemble.values == ()
    assert ensemble.uplift is not None
    assert [(bar.model, bar.start_s) for bar in ensemble.bars[:3]] == [("good", 0), ("fair", 0), ("merger", 2)]


def test_a_pipeline_of_one_model_is_not_compared() -> None:
    ensemble = found(run_of(pipeline(None, "good"), ANSWERS))
    assert (ensemble.uplift, ensemble.agreement, ensemble.verdict) == (None, None, None)
    assert [step.model for step in ensemble.asked] == ["good"]


def test_a_member_that_failed_is_scored_as_a_run_scores_it() -> None:
    answers: dict[str, list[Any]] = {**ANSWERS, "poor": [None] * SAMPLES}
    ensemble = found(run_of(VOTE, answers))
    assert ensemble.uplift is None
    assert [step.failed for step in ensemble.asked] == [0, 0, SAMPLES]


def test_without_a_metric_members_are_not_scored(wording: Wording) -> None:
    ensemble = ensemble_evidence(rows_of(VOTE, ANSWERS), run_spec(target=VOTE))
    assert [member.name for member in ensemble.answering] == [*ANSWERS]
    assert all(member.scores is None for member in ensemble.answering)
    wording(ensemble.unscored)


def test_a_pipeline_without_scores_still_shows_agreement_steps_and_why() -> None:
    rows, spec = rows_of(VOTE, ANSWERS), run_spec(target=VOTE)
    run = evidence([fact(0, "yes", "yes")], metrics=(), spec=spec, ensemble=ensemble_evidence(rows, spec))
    ensemble = found(run)
    assert (ensemble.uplift, ensemble.verdict) == (None, None)
    assert ensemble.agreement is not None
    section = ensemble_section(summarise_run(run))
    assert section is not None
    assert section.lead.endswith(ensemble.unscored)
    assert list(tables_of(section)) == ["ensemble-steps"]


def test_judges_are_not_asked_about_members(wording: Wording) -> None:
    judged = metric_spec(ExactMatch()).model_copy(update={"class_path": "vlmhyperbench.scoring.judge:Judge"})
    ensemble = ensemble_evidence(
        rows_of(VOTE, ANSWERS), run_spec(target=VOTE).model_copy(update={"metrics": (judged,)})
    )
    wording(ensemble.unscored)


def test_the_section_shows_members_oracles_calibration_steps_and_the_verdict(wording: Wording) -> None:
    run = run_of(VOTE, ANSWERS)
    section = ensemble_section(summarise_run(run))
    assert section is not None
    tables = tables_of(section)
    assert list(tables) == ["ensemble-members", "ensemble-oracles", "ensemble-calibration", "ensemble-steps"]
    assert [row[0] for row in tables["ensemble-members"].rows] == ["good", "fair", "poor"]
    (facts,) = (block for block in section.blocks if isinstance(block, Facts))
    wording(section.lead)
    wording("\n".join(f"{name}: {value}" for name, value in facts.items))


def test_a_comparison_says_of_each_pipeline_whether_it_was_worth_it() -> None:
    run = run_of(VOTE, ANSWERS)
    verdict = found(run).verdict
    assert verdict is not None
    document = comparison_of("e", "both", "DONE", [evidence(name="alone"), run])
    (section,) = (section for section in document.sections if section.name == "ensembles")
    (facts,) = (block for block in section.blocks if isinstance(block, Facts))
    assert [value for _, value in facts.items] == [verdict.text]
    assert all(section.name != "ensembles" for section in comparison_of("e", "one", "DONE", [evidence()]).sections)


def test_members_answers_stand_beside_the_result_in_every_case() -> None:
    document = document_of(run_of(VOTE, ANSWERS))
    (cases,) = (block for section in document.sections for block in section.blocks if isinstance(block, Cases))
    assert len(cases.items) == 2
    assert [[answer.run for answer in case.answers] for case in cases.items] == [
        ["read: good", "read: fair", "read: poor", "result"]
    ] * 2
    assert [answer.tone for answer in cases.items[0].answers] == ["bad", "bad", "good", "bad"]
    assert cases.items[0].tone == "bad"


def test_summary_and_report_are_read_as_they_were_written() -> None:
    run = run_of(VOTE, ANSWERS)
    summary = summarise_run(run)
    assert read_summary(write_summary(summary)).ensemble == summary.ensemble
    content = to_json(document_of(run))
    assert to_json(from_json(content)) == content


def test_another_target_has_no_ensemble() -> None:
    summary = summarise_run(evidence())
    assert summary.ensemble is None
    assert ensemble_section(summary) is None
