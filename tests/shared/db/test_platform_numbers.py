"""The numbers of the whole platform: jobs that wait, and jobs for which a worker is of use."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.shared.domain.builders_of_jobs import run_spec
from tests.support.engine_room import EngineRoom
from vlmhyperbench.db import platform_numbers, scheduling
from vlmhyperbench.db.engine import Database
from vlmhyperbench.db.views import JobView
from vlmhyperbench.domain.outcomes import Complete, Failed
from vlmhyperbench.domain.specs import StopRule
from vlmhyperbench.domain.states import JobState
from vlmhyperbench.domain.steps import STEPS, StepKind
from vlmhyperbench.monitoring.numbers import find

pytestmark = pytest.mark.anyio


async def _depths(room: EngineRoom) -> dict[str, float]:
    async with room.database.transaction() as session:
        numbers = await platform_numbers.read(session, stale_s=30, lease_s=15)
    return {number.labels["kind"]: number.value for number in find(numbers, "queue_depth")}


async def _window(room: EngineRoom) -> dict[str, float]:
    """Count the jobs that the scheduler could start now, by queue."""
    async with room.database.transaction() as session:
        jobs = await scheduling.waiting(session, frozenset(step.worker for step in STEPS.values()), limit=100)
    counted = Counter(platform_numbers.queue_of(job.kind) for job in jobs)
    return {queue: counted[queue] for queue in platform_numbers.QUEUES}


async def _answer(room: EngineRoom, shard: JobView) -> None:
    held = await room.take(shard.id, await room.add_worker())
    await room.append(held, [0])
    await room.finish(held, Complete())


async def _of_inference(room: EngineRoom) -> dict[str, float]:
    async with room.database.transaction() as session:
        numbers = await platform_numbers.read(session, stale_s=30, lease_s=15)
    names = ("queue_depth", "queue_jobs")
    return {name: number.value for name in names for number in find(numbers, name, kind="inference")}


async def test_a_job_counts_as_work_until_it_has_ended_and_as_waiting_until_it_is_assigned(
    fresh_database: Database,
) -> None:
    room = EngineRoom(fresh_database)
    before = await _of_inference(room)
    assert before == {"queue_depth": 0, "queue_jobs": 0}
    _, [shard] = await room.shards()
    assert await _of_inference(room) == {"queue_depth": 1, "queue_jobs": 1}
    held = await room.take(shard.id, await room.add_worker())
    assert await _of_inference(room) == {"queue_depth": 0, "queue_jobs": 1}
    await room.finish(held, Failed(code="x", message="It cannot be done.", permanent=True))
    assert await _of_inference(room) == {"queue_depth": 0, "queue_jobs": 0}


async def test_the_depth_of_each_queue_is_the_number_of_jobs_that_the_scheduler_could_start(
    fresh_database: Database,
) -> None:
    room = EngineRoom(fresh_database)
    _, [shard] = await room.shards(samples=1)  # its answers are there, and its scores wait
    await _answer(room, shard)
    await room.advance()
    stop = StopRule(metric="exact_match@default", rule="better")
    _, [running] = await room.shards(run_spec().model_copy(update={"stop": stop}))
    await room.take(running.id, await room.add_worker())  # its scores start beside the inference
    await room.shards()  # its inference waits
    await room.add_run()  # its index waits
    _, [again] = await room.shards()
    await room.execute("UPDATE job SET not_before = now() + interval '1 hour' WHERE id = :id", id=again.id)
    paused, cancelled, failing = [(await room.shards())[0] for _ in range(3)]
    await room.execute("UPDATE run SET is_paused = true WHERE id = :id", id=paused.id)
    await room.cancel(cancelled.id)
    await room.execute("UPDATE run SET reason = 'x' WHERE id = :id", id=failing.id)
    await room.add_experiment(run_spec(), run_spec())  # its shared index waits
    stopped, _ = await room.add_experiment(run_spec(), run_spec())
    await room.execute("UPDATE run SET is_paused = true WHERE experiment_id = :id", id=stopped)
    dirty, [unclosed] = await room.shards(samples=1)  # its answers are there, but its phase is not closed
    await _answer(room, unclosed)
    assert [job.state for job in await room.jobs_of(dirty.id, StepKind.SCORE)] == [JobState.READY]
    assert await _depths(room) == await _window(room) == {"inference": 1, "evaluation": 2, "report": 0, "index": 2}
