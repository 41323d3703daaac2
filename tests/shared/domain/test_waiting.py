"""One rule determines what a run waits for."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

import pytest

from tests.shared.domain.builders_of_jobs import device_now, worker_now
from tests.support.wording import Wording
from vlmhyperbench.domain.ground import Ground
from vlmhyperbench.domain.needs import MemoryNeed
from vlmhyperbench.domain.placement import Inferring, WorkerNow
from vlmhyperbench.domain.states import JobState
from vlmhyperbench.domain.steps import StepKind
from vlmhyperbench.domain.waiting import HeldJob, OpenJob, Wait, wait_of
from vlmhyperbench_sdk.gateway import OUTPUT_FOLLOWS

RUN, OTHER = UUID(int=1), UUID("1f0c3a9e-0000-4000-8000-000000000002")


def _job(kind: StepKind = StepKind.GENERATE, state: JobState = JobState.READY, **changes: object) -> OpenJob:
    return OpenJob(kind=kind, state=state, **changes)


def _wait(
    *jobs: OpenJob, workers: tuple[WorkerNow, ...] = (), busy: tuple[HeldJob, ...] = (), **changes: bool
) -> Wait | None:
    return wait_of(RUN, jobs, is_paused=changes.get("is_paused", False), workers=workers, busy=busy)


def _waited(*jobs: OpenJob, workers: tuple[WorkerNow, ...] = (), busy: tuple[HeldJob, ...] = ()) -> Wait:
    wait = _wait(*jobs, workers=workers, busy=busy)
    assert wait is not None
    return wait


def _holder(worker: WorkerNow, run: UUID | None = OTHER) -> HeldJob:
    return HeldJob(worker_id=worker.id, run_id=run)


@pytest.mark.parametrize("state", [JobState.ASSIGNED, JobState.RUNNING])
def test_a_run_with_an_assigned_or_running_job_waits_for_nothing(state: JobState) -> None:
    assert _wait(_job(state=state), _job(StepKind.SCORE, is_blocked=True)) is None
    assert _wait(_job(state=state), is_paused=True) is None


def test_a_paused_run_waits_until_it_is_resumed() -> None:
    assert _wait(_job(), workers=(worker_now(),), is_paused=True).code == "paused"


def test_without_a_worker_of_its_kind_a_job_does_not_start(wording: Wording) -> None:
    wait = _waited(_job(), workers=(worker_now("evaluation"),))
    assert (wait.code, wait.run_id) == ("no_worker", None)
    wording(wait.message)


def test_a_wait_for_a_busy_worker_names_its_run(wording: Wording) -> None:
    worker = worker_now(slots=1, busy=1)
    wait = _waited(_job(), workers=(worker,), busy=(_holder(worker, None), _holder(worker)))
    assert (wait.code, wait.run_id) == ("busy", OTHER)
    wording(wait.message)
    unnamed = _waited(_job(), workers=(worker,), busy=(_holder(worker, None),))
    assert (unnamed.code, unnamed.run_id) == ("busy", None)
    wording(unnamed.message)
    several = _waited(_job(), workers=(worker, worker_now(slots=1, busy=1)), busy=(_holder(worker),))
    assert (several.code, several.run_id) == ("busy", OTHER)
    wording(several.message)


def test_a_wait_for_a_device_names_the_run_that_has_it(wording: Wording) -> None:
    worker = worker_now(slots=2, busy=1, devices=(device_now(is_free=False),))
    wait = _waited(_job(), workers=(worker,), busy=(_holder(worker),))
    assert (wait.code, wait.run_id) == ("device", OTHER)
    wording(wait.message)
    unnamed = _waited(_job(), workers=(worker,))
    assert (unnamed.code, unnamed.run_id) == ("device", None)
    wording(unnamed.message)


def test_a_job_that_could_start_waits_for_the_scheduler() -> None:
    assert _wait(_job(), workers=(worker_now(),)).code == "scheduler"
    assert _wait().code == "scheduler"
    assert _wait(_job(StepKind.SCORE, is_blocked=True, needs_run=RUN)).code == "scheduler"


def test_the_first_stage_that_could_start_decides() -> None:
    workers = (worker_now("evaluation", slots=1, busy=1), worker_now("reporting"))
    wait = _waited(_job(StepKind.REPORT), _job(StepKind.SCORE), workers=workers)
    assert (wait.code, "evaluation worker" in wait.message) == ("busy", True)


def test_a_run_waits_for_a_running_shared_index_and_for_what_a_ready_one_needs(wording: Wording) -> None:
    shared = _job(StepKind.INDEX, JobState.RUNNING, is_shared=True)
    assert _waited(shared).code == "index"
    wording(_waited(shared).message)
    wait = _waited(_job(StepKind.INDEX, is_shared=True))
    assert wait.code == "no_worker"
    wording(wait.message)


def test_a_failed_job_tells_when_it_is_tried_again_and_why(wording: Wording) -> None:
    wait = _waited(_job(retry_in_s=12.4, fault="the engine died"), workers=(worker_now(),))
    assert wait.code == "retry"
    wording(wait.message)
    wording(_waited(_job(retry_in_s=3.0)).message)
    long = _waited(_job(retry_in_s=3.0, fault=f"The engine ended. {OUTPUT_FOLLOWS}\na line\nanother"))
    assert long.message.endswith("The engine ended.")  # one line; `show` has the rest
    assert _waited(_job(retry_in_s=-1.0), workers=(worker_now(),)).code == "scheduler"


def test_a_run_that_needs_a_job_of_another_names_that_run(wording: Wording) -> None:
    wait = _waited(_job(is_blocked=True, needs_run=OTHER))
    assert (wait.code, wait.run_id) == ("run", OTHER)
    wording(wait.message)


def test_a_free_worker_waits_for_another_inference_on_its_machine(wording: Wording) -> None:
    here = Ground(machine="a")
    free, taken = worker_now(ground=here), worker_now(busy=1, ground=here)
    inferring = [Inferring(worker_id=taken.id, ground=here)]

    def waited(*busy: HeldJob) -> Wait:
        wait = wait_of(RUN, [_job()], is_paused=False, workers=[free, taken], busy=busy, inferring=inferring)
        assert wait is not None
        return wait

    named, unnamed = waited(_holder(taken)), waited(_holder(taken, None))
    assert [(wait.code, wait.run_id) for wait in (named, unnamed)] == [("machine", OTHER), ("machine", None)]
    wording(named.message)
    wording(unnamed.message)


def test_a_free_worker_waits_for_a_run_that_asks_the_same_server(wording: Wording) -> None:
    free, taken = worker_now(ground=Ground(machine="a")), worker_now(busy=1, ground=Ground(machine="b"))
    inferring = [Inferring(worker_id=taken.id, ground=taken.ground, servers=frozenset({"s:1"}))]
    asked = _job(server="s:1", devices=0)
    for run in (OTHER, None):
        busy = [_holder(taken, run)]
        wait = wait_of(RUN, [asked], is_paused=False, workers=[free, taken], busy=busy, inferring=inferring)
        assert wait is not None
        assert (wait.code, wait.run_id) == ("server", run)
        wording(wait.message)


GIB = 1024**3


def _shared(gib: int) -> OpenJob:
    return _job(is_timed=False, target_digest="t", memory=MemoryNeed(device_bytes=gib * GIB))


def test_a_wait_for_memory_says_what_is_needed_and_free(wording: Wording) -> None:
    device = replace(device_now(memory_bytes=24 * GIB), reserved_bytes=20 * GIB, jobs=1)
    wait = _waited(_shared(8), workers=(worker_now(slots=4, busy=1, devices=(device,)),))
    assert wait.code == "memory"
    wording(wait.message)
    held = replace(device, is_exclusive=True)
    assert _waited(_shared(2), workers=(worker_now(slots=4, busy=1, devices=(held,)),)).code == "device"


def test_a_wait_for_the_memory_of_a_pinned_model_says_how_to_free_it(wording: Wording) -> None:
    device = replace(device_now(memory_bytes=24 * GIB), pinned=(("pinned", 20 * GIB),))
    wait = _waited(_shared(8), workers=(worker_now(slots=4, devices=(device,)),))
    assert (wait.code, "models unload" in wait.message) == ("memory", True)
    wording(wait.message)


def test_a_job_that_fits_no_known_device_says_so_before_it_fails(wording: Wording) -> None:
    wait = _waited(_shared(30), workers=(worker_now(devices=(device_now(memory_bytes=24 * GIB),)),))
    assert wait.code == "memory"
    wording(wait.message)


def test_a_wait_for_what_is_drained_names_it_with_person_and_reason(wording: Wording) -> None:
    worker = replace(worker_now(devices=(device_now(),)), name="gpu-box", host="here")
    drained = replace(worker, drained="by anna: new fans")
    device = replace(worker, devices=(replace(device_now(), drained="by anna: ECC errors"),))
    for held in (drained, device):
        wait = _waited(_job(), workers=(held,))
        assert wait.code == "drained"
        wording(wait.message)
