"""What follows for a run from the states of its jobs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.support.wording import Wording
from vlmhyperbench.domain.advancing import CancelWaiting, CloseStep, End, Expand, JobNow, RunNow, StopWaiting, advance
from vlmhyperbench.domain.states import JobState, PhaseState, RunEvent, RunState
from vlmhyperbench.domain.steps import StepKind


def job(kind: StepKind, state: JobState, **other: object) -> JobNow:
    return JobNow(kind=kind, state=state, **{"step": list(StepKind).index(kind), **other})


INDEXED = [job(StepKind.INDEX, JobState.DONE)]
RUNNING = RunNow(state=RunState.RUNNING)


def test_a_run_expands_once_its_index_is_done() -> None:
    assert advance(RunNow(state=RunState.QUEUED), INDEXED) == [Expand()]
    assert advance(RunNow(state=RunState.QUEUED), [job(StepKind.INDEX, JobState.RUNNING)]) == []


def test_a_shared_index_expands_the_run_too() -> None:
    assert advance(RunNow(state=RunState.QUEUED), [job(StepKind.INDEX, JobState.DONE, is_shared=True)]) == [Expand()]


def test_the_inference_closes_when_every_shard_has_ended() -> None:
    shards = [job(StepKind.GENERATE, JobState.DONE), job(StepKind.GENERATE, JobState.RUNNING)]
    score = job(StepKind.SCORE, JobState.READY)
    assert advance(RUNNING, [*INDEXED, *shards, score]) == []
    done = [job(StepKind.GENERATE, JobState.DONE)] * 2
    assert advance(RUNNING, [*INDEXED, *done, score]) == [CloseStep(no=1, state=PhaseState.COMPLETE)]


def test_the_inference_is_stopped_if_a_shard_was() -> None:
    shards = [job(StepKind.GENERATE, JobState.DONE), job(StepKind.GENERATE, JobState.DONE, is_stopped=True)]
    steps = advance(RUNNING, [*INDEXED, *shards, job(StepKind.SCORE, JobState.READY)])
    assert steps == [CloseStep(no=1, state=PhaseState.STOPPED)]


def test_a_run_succeeds_when_its_last_job_is_done() -> None:
    jobs = [*INDEXED, job(StepKind.GENERATE, JobState.DONE), job(StepKind.REPORT, JobState.DONE)]
    assert advance(RUNNING, jobs)[-1] == End(event=RunEvent.SUCCEED)


def test_a_run_with_an_error_row_is_partial() -> None:
    jobs = [*INDEXED, job(StepKind.GENERATE, JobState.DONE, failed=1), job(StepKind.REPORT, JobState.DONE)]
    assert advance(RUNNING, jobs)[-1] == End(event=RunEvent.END_PARTIAL)


def test_a_run_that_reuses_an_error_row_is_partial() -> None:
    scored = [job(StepKind.SCORE, JobState.DONE)]
    assert advance(RunNow(state=RunState.RUNNING), scored)[-1] == End(event=RunEvent.SUCCEED)
    assert advance(RunNow(state=RunState.RUNNING, reuses_errors=True), scored)[-1] == End(event=RunEvent.END_PARTIAL)


def test_a_failed_job_fails_its_run_with_the_stage_and_the_reason() -> None:
    jobs = [*INDEXED, job(StepKind.GENERATE, JobState.FAILED, message="no memory"), job(StepKind.SCORE, JobState.READY)]
    reason = "inference: no memory"
    assert advance(RUNNING, jobs) == [CancelWaiting(reason=reason), End(event=RunEvent.FAIL, reason=reason)]


def test_a_failing_run_waits_for_the_jobs_that_still_run() -> None:
    jobs = [*INDEXED, job(StepKind.GENERATE, JobState.FAILED), job(StepKind.GENERATE, JobState.RUNNING)]
    assert advance(RUNNING, jobs) == [CancelWaiting(reason="inference: failed")]


def test_the_first_reason_of_a_failing_run_stays() -> None:
    run = RunNow(state=RunState.RUNNING, reason="first")
    jobs = [*INDEXED, job(StepKind.GENERATE, JobState.FAILED, message="second")]
    assert advance(run, jobs)[-1] == End(event=RunEvent.FAIL, reason="first")


def test_a_run_fails_with_the_shared_index(wording: Wording) -> None:
    run = RunNow(state=RunState.QUEUED)
    failed = advance(run, [job(StepKind.INDEX, JobState.FAILED, is_shared=True, message="no such folder")])
    assert failed[-1] == End(event=RunEvent.FAIL, reason="index: no such folder")
    lost = advance(run, [job(StepKind.INDEX, JobState.CANCELLED, is_shared=True)])
    assert isinstance(lost[-1], End)
    assert lost[-1].event is RunEvent.FAIL
    wording(lost[-1].reason)


def test_a_cancelled_run_ends_once_no_job_of_it_runs() -> None:
    run = RunNow(state=RunState.RUNNING, is_cancelled=True)
    assert advance(run, [job(StepKind.GENERATE, JobState.RUNNING)]) == [CancelWaiting()]
    assert advance(run, [job(StepKind.GENERATE, JobState.READY)]) == [CancelWaiting(), End(event=RunEvent.CANCEL)]


def test_a_cancelled_run_does_not_wait_for_the_index_that_others_share() -> None:
    run = RunNow(state=RunState.QUEUED, is_cancelled=True)
    steps = advance(run, [job(StepKind.INDEX, JobState.RUNNING, is_shared=True)])
    assert steps == [CancelWaiting(), End(event=RunEvent.CANCEL)]


@pytest.mark.parametrize("state", [state for state in RunState if state.is_terminal])
def test_a_run_that_has_ended_has_no_actions(state: RunState) -> None:
    assert advance(RunNow(state=state, is_cancelled=True), [job(StepKind.GENERATE, JobState.READY)]) == []


def test_a_stopping_run_ends_its_waiting_shards() -> None:
    run = RunNow(state=RunState.RUNNING, is_stopping=True)
    shards = [job(StepKind.GENERATE, state) for state in (JobState.READY, JobState.RUNNING)]
    assert advance(run, shards) == [StopWaiting()]
    assert advance(run, shards[1:]) == []


INFERRED = CloseStep(no=1, state=PhaseState.COMPLETE)


def test_a_step_closes_when_its_own_jobs_have_ended() -> None:
    asked, judge = job(StepKind.GENERATE, JobState.DONE), job(StepKind.JUDGE, JobState.RUNNING, failed=3)
    assert advance(RUNNING, [asked, judge]) == [INFERRED]
    actions = advance(RUNNING, [asked, replace(judge, state=JobState.DONE)])
    judged = CloseStep(no=judge.step, state=PhaseState.COMPLETE)
    assert actions == [INFERRED, judged, End(event=RunEvent.SUCCEED)]


def test_each_of_two_judges_closes_by_itself() -> None:
    asked = job(StepKind.GENERATE, JobState.DONE)
    judges = [job(StepKind.JUDGE, JobState.DONE, step=2), job(StepKind.JUDGE, JobState.READY, step=3)]
    assert advance(RUNNING, [asked, *judges]) == [INFERRED, CloseStep(no=2, state=PhaseState.COMPLETE)]


def test_a_failed_optional_step_makes_the_run_partial() -> None:
    judges = [job(StepKind.JUDGE, JobState.FAILED), job(StepKind.JUDGE, JobState.DONE)]
    jobs = [job(StepKind.GENERATE, JobState.DONE), *judges, job(StepKind.SCORE, JobState.DONE)]
    void = CloseStep(no=judges[0].step, state=PhaseState.VOID)
    assert advance(RUNNING, jobs) == [INFERRED, void, End(event=RunEvent.END_PARTIAL)]
