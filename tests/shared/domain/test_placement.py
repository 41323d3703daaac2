"""Placement: the worker and the devices of a job."""

from __future__ import annotations

from uuid import UUID

import pytest

from tests.shared.domain.builders_of_jobs import device_now, worker_now
from vlmhyperbench.domain.ground import Ground
from vlmhyperbench.domain.placement import Inferring, Reservation, place
from vlmhyperbench.domain.steps import STEPS, StepKind


@pytest.mark.parametrize("kind", list(StepKind))
def test_a_job_goes_to_the_kind_of_worker_that_does_it(kind: StepKind) -> None:
    workers = [worker_now(name, queue=name) for name in ("inference", "evaluation", "reporting")]
    placement = place(kind, None, workers)
    assert placement is not None
    assert placement.queue == STEPS[kind].worker


def test_a_worker_whose_slots_are_full_gets_nothing() -> None:
    assert place(StepKind.SCORE, None, [worker_now("evaluation", slots=2, busy=2)]) is None


def test_a_worker_whose_devices_are_taken_gets_nothing() -> None:
    worker = worker_now(slots=2, devices=(device_now(is_free=False),))
    assert place(StepKind.GENERATE, None, [worker]) is None


def test_a_job_reserves_every_device_of_its_worker() -> None:
    worker = worker_now(devices=(device_now(0, memory_bytes=40), device_now(1, memory_bytes=80)))
    placement = place(StepKind.GENERATE, None, [worker])
    assert placement is not None
    assert placement.reservations == (
        Reservation(device=0, bytes=40, is_exclusive=True),
        Reservation(device=1, bytes=80, is_exclusive=True),
    )


def test_a_worker_that_lacks_one_of_its_devices_gets_nothing() -> None:
    worker = worker_now(slots=2, devices=(device_now(0, is_free=False), device_now(1)))
    assert place(StepKind.GENERATE, None, [worker]) is None


def test_a_worker_that_holds_the_target_is_preferred_to_an_idle_one() -> None:
    idle, loaded = worker_now(slots=4, queue="a"), worker_now(slots=4, busy=2, resident=("t",), queue="b")
    placement = place(StepKind.GENERATE, "t", [idle, loaded])
    assert placement is not None
    assert placement.worker_id == loaded.id


def test_the_least_busy_of_equals_is_chosen() -> None:
    workers = [worker_now("evaluation", slots=4, busy=3), worker_now("evaluation", slots=4, busy=1)]
    placement = place(StepKind.INDEX, None, workers)
    assert placement is not None
    assert placement.worker_id == workers[1].id


def test_ties_are_broken_by_queue_so_that_a_decision_can_be_repeated() -> None:
    first, second = worker_now(queue="a", worker_id=UUID(int=2)), worker_now(queue="b", worker_id=UUID(int=1))
    assert place(StepKind.GENERATE, None, [first, second]) == place(StepKind.GENERATE, None, [second, first])


def _inferring(ground: Ground) -> Inferring:
    return Inferring(worker_id=UUID(int=9), ground=ground)


def test_a_job_that_sends_requests_is_not_placed_on_a_machine_with_another_inference() -> None:
    here, elsewhere = Ground(machine="a"), Ground(machine="b")
    busy = [_inferring(here)]
    assert place(StepKind.GENERATE, None, [worker_now(ground=here)], busy) is None
    placement = place(StepKind.GENERATE, None, [worker_now(ground=here), worker_now(ground=elsewhere, queue="z")], busy)
    assert placement is not None
    assert placement.queue == "z"


def test_workers_whose_cores_are_apart_may_infer_at_once() -> None:
    low, high = (Ground(machine="a", cores=frozenset(cores)) for cores in ({0, 1}, {2, 3}))
    assert place(StepKind.GENERATE, None, [worker_now(ground=high)], [_inferring(low)]) is not None
    assert place(StepKind.GENERATE, None, [worker_now(ground=low)], [_inferring(low)]) is None


def test_a_worker_s_own_inference_does_not_exclude_it() -> None:
    worker = worker_now(slots=2, busy=1, ground=Ground(machine="a"))
    assert place(StepKind.GENERATE, None, [worker], [Inferring(worker_id=worker.id, ground=worker.ground)]) is not None


@pytest.mark.parametrize("kind", [kind for kind in StepKind if STEPS[kind].asks is None])
def test_a_job_without_requests_is_placed_on_a_machine_with_an_inference(kind: StepKind) -> None:
    here = Ground(machine="a")
    assert place(kind, None, [worker_now(STEPS[kind].worker, ground=here)], [_inferring(here)]) is not None
