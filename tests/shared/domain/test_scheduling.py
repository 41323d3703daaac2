"""Decisions: assignments, and jobs that are taken back, rung for again or held for."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from uuid import uuid4

from hypothesis import given
from hypothesis import strategies as st

from tests.shared.domain.builders_of_jobs import NOW, device_now, worker_now
from vlmhyperbench.domain.ground import Ground
from vlmhyperbench.domain.placement import Inferring, WorkerNow
from vlmhyperbench.domain.scheduling import (
    Assign,
    AssignedJob,
    Requeue,
    Ring,
    WaitingJob,
    Window,
    decide,
)
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
