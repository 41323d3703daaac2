"""A running claim whose device is lost: it ends at once, and nothing of it is charged to its job."""

from __future__ import annotations

import asyncio
import time
from uuid import uuid4

import pytest

from tests.shared.domain.builders_of_jobs import run_spec
from tests.support.engine_room import EngineRoom
from vlmhyperbench.domain.outcomes import Failed, Outcome
from vlmhyperbench.domain.states import JobState
from vlmhyperbench.errors import Unavailable
from vlmhyperbench.runtime import Runtime
from vlmhyperbench.worker.children import CpuChildren
from vlmhyperbench.worker.claim_runner import ClaimRunner
from vlmhyperbench.worker.claims import ClaimedJob, WorkerContext

pytestmark = pytest.mark.anyio

DEVICE_LOST = Failed(code="device_quarantined", message="The device is gone.", is_charged=False)


async def claimed(room: EngineRoom, runtime: Runtime) -> ClaimedJob:
    _, [shard] = await room.shards(run_spec(metrics=(), reports=()), samples=2)
    worker_id = await room.add_worker()
    held = await room.take(shard.id, worker_id)
    context = WorkerContext(
        worker_id=worker_id, boot_id=uuid4(), name="w", runtime=runtime, settings=runtime.settings, label={}
    )
    return ClaimedJob(held.job, claim_id=held.claim_id, context=context, cpu=CpuChildren())


async def code_of(room: EngineRoom, job: ClaimedJob) -> object:
    return await room.scalar("SELECT failure->>'code' FROM claim WHERE id = :id", id=job.claim_id)


async def test_a_job_whose_device_is_lost_is_ended_and_not_charged(room: EngineRoom, runtime: Runtime) -> None:
    job, has_begun = await claimed(room, runtime), asyncio.Event()

    async def handler(_: ClaimedJob) -> Outcome:
        has_begun.set()
        await asyncio.Event().wait()
        raise AssertionError("unreachable")

    runner = ClaimRunner(job, handler, sent_at=time.monotonic())
    running = asyncio.create_task(runner.run())
    await has_begun.wait()
    runner.lose_device(DEVICE_LOST)
    finished = await running
    assert job.has_stalled
    assert finished is not None
    assert finished.state is JobState.READY
    assert (await room.job(job.job.id)).fails == 0
    assert await code_of(room, job) == DEVICE_LOST.code


@pytest.mark.parametrize("is_fault", [True, False])
async def test_a_failure_while_a_device_has_a_fault_is_that_of_the_device(
    room: EngineRoom, runtime: Runtime, is_fault: bool
) -> None:
    job, began = await claimed(room, runtime), time.monotonic()
    asked: list[float] = []

    async def handler(_: ClaimedJob) -> Outcome:
        raise Unavailable("The engine died.")

    async def fault_since(since: float) -> Failed | None:
        asked.append(since)
        return DEVICE_LOST if is_fault else None

    finished = await ClaimRunner(job, handler, sent_at=began, fault_since=fault_since).run()
    assert finished is not None
    assert finished.state is JobState.READY
    assert asked == [began]
    assert (await room.job(job.job.id)).fails == (0 if is_fault else 1)
    assert await code_of(room, job) == (DEVICE_LOST.code if is_fault else "unavailable")
