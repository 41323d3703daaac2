"""The numbers of the whole platform: jobs that wait, and jobs for which a worker is of use."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.shared.domain.builders_of_jobs import run_spec
from tests.support.engine_room import LEASE_S, EngineRoom
from vlmhyperbench.db import drains, platform_numbers, scheduling
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


async def _numbers(room: EngineRoom, name: str, **labels: str) -> dict[tuple[str, ...], float]:
    async with room.database.transaction() as session:
        numbers = await platform_numbers.read(session, stale_s=30, lease_s=LEASE_S)
    found = find(numbers, name, **labels)
    return {tuple(value for _, value in sorted(number.labels.items())): number.value for number in found}


async def test_only_workers_that_get_jobs_are_live_and_only_their_slots_count(fresh_database: Database) -> None:
    room = EngineRoom(fresh_database)
    live, drained, ending, stale, broken, unused = [await room.add_worker(slots=2, devices=1) for _ in range(6)]
    _, [first] = await room.shards()
    _, [second] = await room.shards()
    await room.take(first.id, live)
    await room.take(second.id, drained)
    async with room.database.transaction() as session:
        await drains.add(session, scope="worker", name=f"q-{drained}", reason="update", by="me")
        await drains.add(session, scope="device", name="g-unused", reason="noise", by="me")
    await room.execute("UPDATE worker SET state = 'DRAINING' WHERE id = :id", id=ending)
    await room.execute("UPDATE worker SET last_seen_at = now() - interval '31 s' WHERE id = :id", id=stale)
    await room.execute("UPDATE device SET state = 'BROKEN' WHERE worker_id = :id", id=broken)
    await room.execute("UPDATE device SET uuid = 'g-unused' WHERE worker_id = :id", id=unused)
    assert await _numbers(room, "workers", kind="inference") == {
        ("inference", "live"): 1,
        ("inference", "draining"): 4,
        ("inference", "stale"): 1,
    }
    assert await _numbers(room, "worker_slots", kind="inference") == {("inference",): 2}
    assert await _numbers(room, "worker_slots_busy", kind="inference") == {("inference",): 1}
    assert await _numbers(room, "devices", kind="gpu") == {("gpu", "ok"): 5, ("gpu", "broken"): 1}
    async with room.database.transaction() as session:
        await drains.end(session, scope="worker", name=f"q-{drained}", by="me")
        await drains.add(session, scope="machine", name="here", reason="move", by="me")
    assert (await _numbers(room, "workers", kind="inference"))["inference", "live"] == 0


async def test_leases_waits_reservations_and_alerts_are_counted(fresh_database: Database) -> None:
    room = EngineRoom(fresh_database)
    worker = await room.add_worker(devices=1)
    run, [shard] = await room.shards()
    await room.execute("UPDATE job SET created_at = now() - interval '90 s' WHERE id = :id", id=shard.id)
    assert 90 <= (await _numbers(room, "queue_oldest_seconds"))[("inference",)] < 120
    attempt_id = await room.assign(shard.id, worker, device=0)
    assert attempt_id is not None
    assert await room.claim(shard.id, attempt_id, worker, lease_s=LEASE_S) is not None
    assert list((await _numbers(room, "device_memory_reserved_bytes")).values()) == [100]
    assert list((await _numbers(room, "device_jobs")).values()) == [1]
    assert list((await _numbers(room, "leases_expired")).values()) == [0]
    assert 0 <= (await _numbers(room, "lease_age_seconds"))[()] < 10
    await room.let_lease_expire(shard.id)
    assert list((await _numbers(room, "leases_expired")).values()) == [1]
    assert (await _numbers(room, "lease_age_seconds"))[()] >= LEASE_S
    for age_s in (30, 590, 610):
        added = (
            "INSERT INTO event (id, stream_id, seq, project_id, type, data, ts) "
            "SELECT gen_random_uuid(), :run, 1000 + :age, 'p', 'alert.raised', '{\"code\": \"storage_full\"}', "
            "now() - make_interval(secs => :age)"
        )
        await room.execute(added, run=run.id, age=age_s)
    assert await _numbers(room, "alerts_recent") == {("storage_full",): 2}
