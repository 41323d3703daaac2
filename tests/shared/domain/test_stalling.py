"""The stall limit of a shard follows from the time that its own requests may take."""

from __future__ import annotations

import pytest

from tests.shared.domain.builders_of_jobs import judge_metric, run_spec
from vlmhyperbench.domain import stalling
from vlmhyperbench.domain.judging import METRIC
from vlmhyperbench.domain.scenarios import ArrivalSpec, ScenarioSpec
from vlmhyperbench.domain.specs import Limits, RunSpec
from vlmhyperbench.domain.stalling import stall_limit_s
from vlmhyperbench.domain.steps import StepKind
from vlmhyperbench_loadgen import request_queue


def spec_of(limits: Limits, scenario: ScenarioSpec | None = None) -> RunSpec:
    return run_spec(scenario=scenario, metrics=(judge_metric(),)).model_copy(update={"limits": limits})


def test_a_request_that_hangs_may_use_up_every_try_and_the_delays_between_them() -> None:
    limits = Limits(request_timeout_s=300, tries=5)
    assert stall_limit_s(spec_of(limits), StepKind.GENERATE, {}, requests=9) == pytest.approx(1.1 * (5 * 300 + 4 * 60))


def test_a_timed_request_has_one_try_however_long() -> None:
    timed = spec_of(Limits(request_timeout_s=3600, tries=5), ScenarioSpec(kind="single_stream", requests=9))
    assert stall_limit_s(timed, StepKind.GENERATE, {}, requests=9) == pytest.approx(1.1 * 3600)


def test_the_stall_limit_includes_the_pause_between_questions() -> None:
    talk = spec_of(Limits(request_timeout_s=10), ScenarioSpec(kind="interactive", turns=2, think_s=2000))
    assert stall_limit_s(talk, StepKind.GENERATE, {}, requests=9) == pytest.approx(1.1 * 2010)


def test_the_stall_limit_includes_the_gap_between_two_arrivals() -> None:
    rare = ArrivalSpec(process="constant", rate_per_s=0.001)
    spec = spec_of(Limits(request_timeout_s=10), ScenarioSpec(kind="server", requests=9, arrivals=rare))
    assert stall_limit_s(spec, StepKind.GENERATE, {}, requests=9) == pytest.approx(1.1 * (10 + 1000))


def test_the_stall_limit_includes_the_largest_gap_of_the_schedule() -> None:
    rare = ArrivalSpec(process="gamma", rate_per_s=0.01, cv=10)
    spec = spec_of(Limits(request_timeout_s=10), ScenarioSpec(kind="server", requests=50, arrivals=rare))
    few, many = (stall_limit_s(spec, StepKind.GENERATE, {}, requests=count) for count in (5, 50))
    assert 1.1 * 10 < few <= many
    assert many > 1.1 * (10 + 100)


def test_the_stall_limit_of_a_judge_does_not_depend_on_the_run_s_scenario() -> None:
    talk = spec_of(Limits(request_timeout_s=10, tries=3), ScenarioSpec(kind="interactive", turns=2, think_s=2000))
    judge = {METRIC: talk.metrics[0].label}
    assert stall_limit_s(talk, StepKind.JUDGE, judge, requests=9) == pytest.approx(1.1 * (3 * 10 + 2 * 60))
    with pytest.raises(LookupError):
        stall_limit_s(talk, StepKind.JUDGE, {METRIC: "nobody@v1"}, requests=9)


def test_the_maximum_delay_is_that_of_the_load_generator() -> None:
    assert max(request_queue.MAX_DELAY_S, request_queue.MAX_RETRY_AFTER_S) == stalling.MAX_DELAY_S
