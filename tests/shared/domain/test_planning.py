"""Plans: the jobs and phases of runs and experiments."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.shared.domain.builders_of_jobs import JUDGING, METRIC, judge_metric, run_spec
from tests.support.wording import Wording
from vlmhyperbench.domain.digests import digest_of
from vlmhyperbench.domain.graph import STOPPABLE, steps_of
from vlmhyperbench.domain.planning import (
    ACCURACY_PHASE,
    are_paired,
    dataset_digest,
    expand_run,
    plan_experiment,
    plan_rescoring,
    plan_run,
)
from vlmhyperbench.domain.scenarios import ArrivalSpec, ScenarioSpec
from vlmhyperbench.domain.specs import EndpointTarget, ImportTarget, StopRule
from vlmhyperbench.domain.steps import StepKind


def test_a_run_begins_with_one_index_job_with_its_dataset() -> None:
    [index] = plan_run(run_spec())
    assert (index.kind, index.scope, index.needs) == (StepKind.INDEX, "run", ())
    assert index.params["dataset"]["name"] == "invoices"
    assert index.params["limits"] == {"max_image_bytes": 1000, "max_image_pixels": 50_000_000}
    assert index.params["dataset_digest"] == dataset_digest(run_spec())


def test_a_run_may_ask_for_a_fresh_index() -> None:
    [index] = plan_run(run_spec(), is_fresh=True)
    assert index.params["is_fresh"] is True


def test_a_run_that_reuses_answers_is_only_scored_and_reported() -> None:
    score, report = plan_rescoring(run_spec(), total=4).jobs
    assert (score.kind, score.needs) == (StepKind.SCORE, ())
    assert (report.kind, report.needs) == (StepKind.REPORT, (0,))


def test_runs_of_an_experiment_share_the_index_job_of_one_dataset() -> None:
    plan = plan_experiment([run_spec(model="a"), run_spec(model="b"), run_spec(dataset="tickets")])
    assert [(job.kind, job.scope) for job in plan.jobs] == [(StepKind.INDEX, "experiment")]
    assert [[job.scope for job in jobs] for jobs in plan.runs] == [[], [], ["run"]]


def test_other_image_limits_are_another_index() -> None:
    assert dataset_digest(run_spec()) != dataset_digest(run_spec(max_image_bytes=2))


def test_equal_targets_have_equal_digests() -> None:
    assert run_spec(dataset="a").target_digest == run_spec(dataset="b").target_digest
    assert run_spec(model="a").target_digest != run_spec(model="b").target_digest


def test_five_samples_in_shards_of_two_are_three_shards_then_score_then_report() -> None:
    expansion = expand_run(run_spec(samples_per_shard=2), samples=5)
    assert expansion.total == 5
    assert [(phase.no, phase.kind, phase.count) for phase in expansion.phases] == [(ACCURACY_PHASE, "accuracy", 5)]
    assert [(job.range_start, job.range_end) for job in expansion.jobs[:3]] == [(0, 2), (2, 4), (4, 5)]
    score, report = expansion.jobs[3:]
    assert (score.kind, score.needs) == (StepKind.SCORE, (0, 1, 2))
    assert (report.kind, report.needs) == (StepKind.REPORT, (3,))


def test_imported_answers_are_one_job() -> None:
    target = ImportTarget(model_name="other", format="lm-eval", answers="a" * 64)
    spec = run_spec(samples_per_shard=2, answers=2).model_copy(update={"target": target})
    expansion = expand_run(spec, samples=5)
    assert [(job.kind, job.range_start, job.range_end) for job in expansion.jobs] == [
        (StepKind.IMPORT, 0, 10),
        (StepKind.SCORE, None, None),
        (StepKind.REPORT, None, None),
    ]


def test_three_answers_per_sample_are_three_times_the_requests() -> None:
    assert expand_run(run_spec(answers=3), samples=4).total == 12


def test_a_run_without_metrics_reports_what_was_generated() -> None:
    kinds = [job.kind for job in expand_run(run_spec(metrics=()), samples=1).jobs]
    assert kinds == [StepKind.GENERATE, StepKind.REPORT]


def test_a_run_without_reports_ends_with_its_scores() -> None:
    kinds = [job.kind for job in expand_run(run_spec(reports=()), samples=1).jobs]
    assert kinds == [StepKind.GENERATE, StepKind.SCORE]


def test_a_single_stream_is_one_job_whose_phase_its_claim_opens() -> None:
    scenario = ScenarioSpec(name="single-stream", kind="single_stream", requests=7)
    expansion = expand_run(run_spec(scenario=scenario, samples_per_shard=2), samples=5)
    assert (expansion.total, expansion.phases) == (7, ())
    generate = expansion.jobs[0]
    assert (generate.phase, generate.range_start, generate.range_end) == (None, 0, 7)


def test_every_timed_scenario_is_one_job_and_a_duration_bounds_it(wording: Wording) -> None:
    server = ScenarioSpec(name="x", kind="server", arrivals=ArrivalSpec(rate_per_s=2.5), duration_s=10)
    streams = ScenarioSpec(name="y", kind="multi_stream", in_flight=4, requests=40, baseline_requests=8)
    talks = ScenarioSpec(name="z", kind="interactive", in_flight=2, turns=3, think_s=0.5)
    expansions = [expand_run(run_spec(scenario=scenario), samples=5) for scenario in (server, streams, talks)]
    assert [(expansion.total, expansion.phases) for expansion in expansions] == [(25, ()), (40, ()), (5, ())]
    assert [[job.kind for job in expansion.jobs].count(StepKind.GENERATE) for expansion in expansions] == [1, 1, 1]
    for scenario in (server, streams, talks):
        wording(scenario.in_words)


def test_a_single_stream_without_a_bound_asks_every_sample_once() -> None:
    scenario = ScenarioSpec(name="single-stream", kind="single_stream")
    assert expand_run(run_spec(scenario=scenario), samples=5).total == 5


@given(st.integers(0, 400), st.integers(1, 50), st.integers(1, 4))
def test_shards_cover_every_ordinal_exactly_once(samples: int, size: int, answers: int) -> None:
    expansion = expand_run(run_spec(samples_per_shard=size, answers=answers), samples=samples)
    shards = [job for job in expansion.jobs if job.kind is StepKind.GENERATE]
    ordinals = [ordinal for job in shards for ordinal in range(job.range_start or 0, job.range_end or 0)]
    assert ordinals == list(range(samples * answers)) == list(range(expansion.total))


@given(st.integers(0, 100), st.integers(1, 50))
def test_a_job_needs_only_jobs_that_are_planned_before_it(samples: int, size: int) -> None:
    for position, job in enumerate(expand_run(run_spec(samples_per_shard=size), samples=samples).jobs):
        assert all(needed < position for needed in job.needs)


STOP = StopRule(metric="exact_match@default", rule="better")


def test_a_run_that_may_stop_is_one_shard_which_scoring_watches() -> None:
    spec = run_spec(samples_per_shard=10).model_copy(update={"stop": STOP})
    shard, score, report = expand_run(spec, samples=35).jobs
    assert (shard.range_start, shard.range_end, shard.params) == (0, 35, {STOPPABLE: True})
    assert (score.needs, score.needs_state, report.needs_state) == ((0,), "STARTED", "DONE")
    [again, _] = plan_rescoring(spec, total=35).jobs
    assert (again.needs, again.needs_state) == ((), "DONE")


def test_runs_with_the_same_task_samples_and_repeats_are_paired() -> None:
    assert are_paired(run_spec(), run_spec(model="other"))
    assert not are_paired(run_spec(), run_spec(dataset="receipts"))
    assert not are_paired(run_spec(), run_spec(answers=2))


@pytest.mark.parametrize("rule", ["not_worse", "equivalent"])
def test_a_rule_that_bounds_a_loss_needs_a_margin(rule: str) -> None:
    with pytest.raises(ValueError, match="margin above 0"):
        StopRule.model_validate({"metric": "m@v1", "rule": rule})
    assert StopRule.model_validate({"metric": "m@v1", "rule": rule, "margin": 0.02}).label == f"{rule} by 0.02 on m@v1"


def test_a_judge_is_asked_after_the_inference_and_before_scoring() -> None:
    spec = run_spec(samples_per_shard=10, metrics=(METRIC, judge_metric(repeats=2)))
    planned = expand_run(spec, samples=6)
    assert planned.total == 6
    _, judge = planned.phases
    assert (judge.no, judge.step, judge.kind, judge.counts, judge.count) == (2, 2, "judge", False, 6 * 2 * 2)
    shard, *judging, score, _ = planned.jobs
    assert [(job.kind, job.phase, job.range_start, job.range_end, job.needs) for job in judging] == [
        (StepKind.JUDGE, 2, 0, 10, (0,)),
        (StepKind.JUDGE, 2, 10, 20, (0,)),
        (StepKind.JUDGE, 2, 20, 24, (0,)),
    ]
    assert {job.params["metric"] for job in judging} == {"judged@v1"}
    assert {job.target_digest for job in judging} == {digest_of(JUDGING.target)}
    assert (shard.target_digest, score.needs, score.needs_state) == (None, (0, 1, 2, 3), "ENDED")


def test_judges_of_reused_answers_have_phases_of_their_own() -> None:
    planned = plan_rescoring(run_spec(metrics=(judge_metric(),)), total=3, reused=(1, 4))
    assert [(phase.no, phase.count) for phase in planned.phases] == [(5, 6)]
    judge, score, _ = planned.jobs
    assert (judge.phase, judge.needs, score.needs) == (5, (), (0,))


def test_a_run_is_a_graph_in_which_each_step_comes_after_what_it_needs() -> None:
    steps = steps_of(run_spec(metrics=(METRIC, judge_metric())))
    assert [(step.no, step.kind, step.needs) for step in steps] == [
        (0, StepKind.INDEX, ()),
        (1, StepKind.GENERATE, (0,)),
        (2, StepKind.JUDGE, (1,)),
        (3, StepKind.SCORE, (1, 2)),
        (4, StepKind.REPORT, (3,)),
    ]


@pytest.mark.parametrize(
    ("endpoint", "server"),
    [
        ("http://Key:word@Box.lan:8000/v1?a=b", "box.lan:8000"),
        ("https://box.lan/v1", "box.lan"),
        ("mine", "mine"),
    ],
)
def test_each_job_that_asks_an_endpoint_names_its_server(endpoint: str, server: str) -> None:
    asked = EndpointTarget(endpoint=endpoint, model_name="m")
    jobs = expand_run(
        run_spec(metrics=(judge_metric(target=asked),)).model_copy(update={"target": asked}), samples=2
    ).jobs
    asking = [StepKind.GENERATE, StepKind.JUDGE]
    assert [(job.kind, job.server) for job in jobs if job.server is not None] == [(kind, server) for kind in asking]
    assert {job.server for job in expand_run(run_spec(), samples=2).jobs} == {None}


def test_a_run_without_metrics_is_reported_once_it_is_answered() -> None:
    assert [(step.kind, step.needs) for step in steps_of(run_spec(metrics=()))][-1] == (StepKind.REPORT, (1,))
    shard, report = expand_run(run_spec(metrics=()), samples=3).jobs
    assert (shard.kind, report.kind, report.needs, report.needs_state) == (
        StepKind.GENERATE,
        StepKind.REPORT,
        (0,),
        "DONE",
    )
