"""Decisions: assignments, requeued jobs, actions that follow from a run's jobs, and when a job is given up."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from uuid import uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.shared.domain.builders_of_jobs import NOW, device_now, worker_now
from tests.support.wording import Wording
from vlmhyperbench.domain.ground import Ground
from vlmhyperbench.domain.placement import Inferring, WorkerNow
from vlmhyperbench.domain.scheduling import (
    Assign,
    AssignedJob,
    CancelWaiting,
    CloseStep,
    End,
    Expand,
    JobNow,
    Requeue,
    Ring,
    RunNow,
    StopWaiting,
    WaitingJob,
    Window,
    advance,
    backoff_s,
    decide,
    is_given_up,
)
from vlmhyperbench.domain.states import JobState, PhaseState, RunEvent, RunState
from vlmhyperbench.domain.steps import StepKind


def waiting(kind: StepKind = StepKind.SCORE) -> WaitingJob:
    return WaitingJob(id=uuid4(), kind=kind)


def assigned(worker: WorkerNow, *, age_s: float) -> AssignedJob:
    return AssignedJob(
        id=uuid4(),
        attempt_id=uuid4(),
        worker_id=worker.id,
        queue=worker.queue,
        assigned_at=NOW - timedelta(seconds=age_s),
    )


def test_jobs_are_placed_in_the_windows_order_until_the_slots_are_full() -> None:
    worker, jobs = worker_now("evaluation", slots=2), tuple(waiting() for _ in range(3))
    decisions = decide(Window(now=NOW, waiting=jobs, workers=(worker,)), unclaimed_s=15)
    assert [decision.job_id for decision in decisions] == [jobs[0].id, jobs[1].id]


def test_a_full_kind_does_not_hold_up_another() -> None:
    score, report = waiting(StepKind.SCORE), waiting(StepKind.REPORT)
    window = Window(now=NOW, waiting=(score, report, waiting(StepKind.SCORE)), workers=(worker_now("reporting"),))
    assert [decision.job_id for decision in decide(window, unclaimed_s=15)] == [report.id]


def test_devices_are_given_once_in_one_decision() -> None:
    worker = worker_now(slots=4, devices=(device_now(0), device_now(1)))
    jobs = tuple(replace(waiting(StepKind.GENERATE), is_timed=False) for _ in range(3))
    decisions = decide(Window(now=NOW, waiting=jobs, workers=(worker,)), unclaimed_s=15)
    taken = [[held.device for held in item.placement.reservations] for item in decisions if isinstance(item, Assign)]
    assert taken == [[0], [1]]


def test_an_assignment_that_is_not_claimed_in_time_is_taken_back() -> None:
    worker = worker_now()
    old = assigned(worker, age_s=15)
    decisions = decide(Window(now=NOW, assigned=(old,), workers=(worker,)), unclaimed_s=15)
    assert decisions == [Requeue(job_id=old.id, attempt_id=old.attempt_id)]


def test_an_assignment_of_a_worker_that_is_gone_is_taken_back_at_once() -> None:
    young = assigned(worker_now(), age_s=0)
    decisions = decide(Window(now=NOW, assigned=(young,)), unclaimed_s=15)
    assert decisions == [Requeue(job_id=young.id, attempt_id=young.attempt_id)]


def test_an_unclaimed_assignment_is_rung_for_again() -> None:
    worker = worker_now(queue="bell")
    fresh, late = assigned(worker, age_s=0.5), assigned(worker, age_s=3)
    decisions = decide(Window(now=NOW, assigned=(fresh, late), workers=(worker,)), unclaimed_s=15)
    assert decisions == [Ring(job_id=late.id, queue="bell")]


@given(st.lists(st.sampled_from(StepKind), max_size=12), st.integers(0, 3), st.integers(0, 3), st.integers(0, 3))
def test_no_worker_gets_more_than_its_slots(
    kinds: list[StepKind], inference: int, evaluation: int, report: int
) -> None:
    slots = {"inference": inference, "evaluation": evaluation, "reporting": report}
    workers = tuple(worker_now(kind, slots=count) for kind, count in slots.items())
    window = Window(now=NOW, waiting=tuple(waiting(kind) for kind in kinds), workers=workers)
    decisions = [item for item in decide(window, unclaimed_s=15) if isinstance(item, Assign)]
    assert len({item.job_id for item in decisions}) == len(decisions)
    for worker in workers:
        assert sum(item.placement.worker_id == worker.id for item in decisions) <= worker.slots


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


def test_a_job_that_cannot_start_is_given_up_at_the_third_failure() -> None:
    assert [is_given_up(fails=fails, done=0) for fails in (1, 2, 3)] == [False, False, True]


def test_a_job_that_has_rows_gets_more_tries() -> None:
    assert not is_given_up(fails=3, done=1)
    assert is_given_up(fails=6, done=1)


def test_a_permanent_failure_is_given_up_at_once() -> None:
    assert is_given_up(fails=1, done=9, is_permanent=True)


def test_the_first_failure_is_tried_again_at_once() -> None:
    assert backoff_s(1, 0.99) == 0


@given(st.integers(2, 60), st.floats(0, 1, exclude_max=True))
def test_later_tries_wait_up_to_five_minutes(fails: int, draw: float) -> None:
    assert 0 <= backoff_s(fails, draw) <= min(300, 5 * 2**fails)


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


def test_only_one_of_two_idle_workers_on_a_machine_gets_an_inference() -> None:
    here = Ground(machine="a")
    workers = (worker_now(queue="a", ground=here), worker_now(queue="b", ground=here))
    window = Window(now=NOW, waiting=tuple(waiting(StepKind.GENERATE) for _ in range(2)), workers=workers)
    assert [type(decision) for decision in decide(window, unclaimed_s=15)] == [Assign]


def test_a_dead_worker_blocks_its_machine_until_its_claim_has_ended() -> None:
    here = Ground(machine="a")
    window = Window(now=NOW, waiting=(waiting(StepKind.GENERATE),), workers=(worker_now(ground=here),))
    gone = Inferring(worker_id=uuid4(), ground=here)
    assert decide(replace(window, inferring=(gone,)), unclaimed_s=15) == []
    assert [type(decision) for decision in decide(window, unclaimed_s=15)] == [Assign]
