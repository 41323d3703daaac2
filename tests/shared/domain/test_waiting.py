"""What a run waits for is said by one rule."""

from __future__ import annotations

from uuid import UUID

import pytest

from tests.shared.domain.builders_of_jobs import device_now, worker_now
from vlmhyperbench.domain.ground import Ground
from vlmhyperbench.domain.placement import Inferring, WorkerNow
from vlmhyperbench.domain.states import JobState
from vlmhyperbench.domain.steps import StepKind
from vlmhyperbench.domain.waiting import HeldJob, OpenJob, Wait, wait_of

RUN, OTHER = UUID(int=1), UUID("1f0c3a9e-0000-4000-8000-000000000002")


def _job(kind: StepKind = StepKind.GENERATE, state: JobState = JobState.READY, **changes: object) -> OpenJob:
    return OpenJob(kind=kind, state=state, **changes)  # type: ignore[arg-type]


def _wait(
    *jobs: OpenJob, workers: tuple[WorkerNow, ...] = (), busy: tuple[HeldJob, ...] = (), **changes: bool
) -> Wait | None:
    return wait_of(RUN, jobs, is_paused=changes.get("is_paused", False), workers=workers, busy=busy)


def _holder(worker: WorkerNow, run: UUID | None = OTHER) -> HeldJob:
    return HeldJob(worker_id=worker.id, run_id=run)


@pytest.mark.parametrize("state", [JobState.ASSIGNED, JobState.RUNNING])
def test_a_run_that_is_worked_on_waits_for_nothing(state: JobState) -> None:
    assert _wait(_job(state=state), _job(StepKind.SCORE, is_blocked=True)) is None
    assert _wait(_job(state=state), is_paused=True) is None


def test_a_paused_run_waits_for_somebody() -> None:
    assert _wait(_job(), workers=(worker_now(),), is_paused=True).code == "paused"  # type: ignore[union-attr]


def test_without_a_worker_of_its_kind_nothing_starts() -> None:
    assert _wait(_job(), workers=(worker_now("evaluation"),)) == Wait(
        code="no_worker", message="no inference worker is running"
    )


def test_a_worker_that_is_busy_is_named_by_its_run() -> None:
    worker = worker_now(slots=1, busy=1)
    found = _wait(_job(), workers=(worker,), busy=(_holder(worker, None), _holder(worker)))
    assert found == Wait(code="busy", message="no inference worker is free: it works on run 1f0c3a9e", run_id=OTHER)
    assert _wait(_job(), workers=(worker,), busy=(_holder(worker, None),)) == Wait(
        code="busy", message="no inference worker is free"
    )
    several = _wait(_job(), workers=(worker, worker_now(slots=1, busy=1)), busy=(_holder(worker),))
    assert several is not None
    assert several.message.endswith("they work on run 1f0c3a9e")


def test_a_free_slot_without_a_free_device_waits_for_who_has_it() -> None:
    worker = worker_now(slots=2, busy=1, devices=(device_now(is_free=False),))
    found = _wait(_job(), workers=(worker,), busy=(_holder(worker),))
    assert found == Wait(code="device", message="it waits for the device of run 1f0c3a9e", run_id=OTHER)
    assert _wait(_job(), workers=(worker,)) == Wait(code="device", message="it waits for a device that is free")


def test_what_could_start_waits_for_the_scheduler() -> None:
    assert _wait(_job(), workers=(worker_now(),)).code == "scheduler"  # type: ignore[union-attr]
    assert _wait().code == "scheduler"  # type: ignore[union-attr]
    assert _wait(_job(StepKind.SCORE, is_blocked=True, needs_run=RUN)).code == "scheduler"  # type: ignore[union-attr]


def test_the_first_stage_that_could_start_decides() -> None:
    workers = (worker_now("evaluation", slots=1, busy=1), worker_now("reporting"))
    found = _wait(_job(StepKind.REPORT), _job(StepKind.SCORE), workers=workers)
    assert found is not None
    assert found.message == "no evaluation worker is free"


def test_a_shared_index_that_is_made_is_waited_for_and_one_that_waits_says_why() -> None:
    shared = _job(StepKind.INDEX, JobState.RUNNING, is_shared=True)
    assert _wait(shared).code == "index"  # type: ignore[union-attr]
    found = _wait(_job(StepKind.INDEX, is_shared=True))
    assert found == Wait(code="no_worker", message="no evaluation worker is running")


def test_a_job_that_failed_says_when_it_is_tried_again_and_why() -> None:
    found = _wait(_job(retry_in_s=12.4, fault="the engine died"), workers=(worker_now(),))
    assert found == Wait(code="retry", message="it is tried again in 12 s after a failure: the engine died")
    assert _wait(_job(retry_in_s=3.0)).message.endswith("after a failure")  # type: ignore[union-attr]
    assert _wait(_job(retry_in_s=-1.0), workers=(worker_now(),)).code == "scheduler"  # type: ignore[union-attr]


def test_a_run_that_needs_another_says_which() -> None:
    assert _wait(_job(is_blocked=True, needs_run=OTHER)) == Wait(
        code="run", message="the run 1f0c3a9e has to come further first", run_id=OTHER
    )


def test_a_free_worker_beside_one_that_infers_waits_for_the_machine() -> None:
    here = Ground(machine="a")
    free, taken = worker_now(ground=here), worker_now(busy=1, ground=here)
    inferring = [Inferring(worker_id=taken.id, ground=here)]

    def found(*busy: HeldJob) -> Wait | None:
        return wait_of(RUN, [_job()], is_paused=False, workers=[free, taken], busy=busy, inferring=inferring)

    message = "run 1f0c3a9e is timed on the machine of the worker that is free"
    assert found(_holder(taken)) == Wait(code="machine", message=message, run_id=OTHER)
    unnamed = found(_holder(taken, None))
    assert unnamed is not None
    assert (unnamed.code, unnamed.run_id) == ("machine", None)
