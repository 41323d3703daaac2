"""What a tick writes: all assignments together, though a run is locked by another transaction or a device was taken."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from uuid import UUID

import pytest

from tests.shared.domain.builders_of_jobs import run_spec
from tests.support.engine_room import EngineRoom
from tests.support.processes import eventually
from vlmhyperbench.db.owners import lock_run
from vlmhyperbench.db.views import JobView
from vlmhyperbench.domain.placement import Placement, Reservation
from vlmhyperbench.domain.scheduling import Assign
from vlmhyperbench.domain.states import JobState
from vlmhyperbench.queues.ringing import Bell
from vlmhyperbench.runtime import Runtime, open_runtime
from vlmhyperbench.settings import Settings
from vlmhyperbench_scheduler.effects import Effects

pytestmark = pytest.mark.anyio


@pytest.fixture
async def runtime(tmp_path: Path, fresh_database_url: str, redis_url: str) -> AsyncIterator[Runtime]:
    settings = {"home": tmp_path, "database_url": fresh_database_url, "redis_url": redis_url}
    async with open_runtime(Settings.model_validate(settings)) as runtime:
        yield runtime


def effects_of(runtime: Runtime) -> Effects:
    return Effects(runtime, Bell(runtime.settings.redis_url.get_secret_value()))


def assign(job: JobView, worker: UUID, *, size: int) -> Assign:
    held = Reservation(device=0, bytes=size, is_exclusive=False)
    return Assign(job_id=job.id, placement=Placement(worker_id=worker, queue="q", reservations=(held,)))


async def reserved(room: EngineRoom) -> object:
    return await room.scalar("SELECT COALESCE(sum(bytes), 0) FROM reservation")


async def test_a_locked_run_holds_up_no_other(runtime: Runtime) -> None:
    room = EngineRoom(runtime.database)
    _, [first, second] = await room.shards(run_spec(samples_per_shard=1), samples=2)
    locked, [third] = await room.shards()
    worker = await room.add_worker(slots=4, devices=1)
    async with runtime.database.transaction() as session:
        assert await lock_run(session, locked.id) is not None
        decisions = [assign(third, worker, size=30), assign(first, worker, size=30), assign(second, worker, size=40)]
        writing = asyncio.create_task(effects_of(runtime).apply(decisions))

        async def others_are_assigned() -> bool:
            return all([(await room.job(job.id)).state is JobState.ASSIGNED for job in (first, second)])

        await eventually(others_are_assigned, "the jobs of the run that is not locked are assigned")
        assert (await room.job(third.id)).state is JobState.READY
    await writing
    assert (await room.job(third.id)).state is JobState.ASSIGNED
    assert await reserved(room) == 100


async def test_a_device_that_was_taken_costs_only_the_job_that_it_was_meant_for(runtime: Runtime) -> None:
    room = EngineRoom(runtime.database)
    run, jobs = await room.shards(run_spec(samples_per_shard=1), samples=3)
    worker = await room.add_worker(slots=4, devices=1)
    effects = effects_of(runtime)
    await effects.apply([assign(job, worker, size=size) for job, size in zip(jobs, (50, 60, 50), strict=True)])
    assert [(await room.job(job.id)).state for job in jobs] == [JobState.ASSIGNED, JobState.READY, JobState.ASSIGNED]
    assert await reserved(room) == 100
    events = [event for event in await room.events(run.id) if event.data.get("kind") == "GENERATE"]
    assert sorted(event.job_id for event in events) == sorted([jobs[0].id, jobs[2].id])
