"""What open runs wait for, read from the database."""

from __future__ import annotations

from uuid import UUID

import pytest

from tests.shared.domain.builders_of_jobs import run_spec
from tests.support.engine_room import EngineRoom
from vlmhyperbench.db import experiments, waits
from vlmhyperbench.db.engine import Database
from vlmhyperbench.domain.ground import Ground
from vlmhyperbench.domain.outcomes import Failed
from vlmhyperbench.domain.steps import StepKind
from vlmhyperbench.domain.waiting import Wait

pytestmark = pytest.mark.anyio


@pytest.fixture
def room(fresh_database: Database) -> EngineRoom:
    return EngineRoom(fresh_database)


async def _wait(room: EngineRoom, run_id: UUID) -> Wait | None:
    run = await room.run(run_id)
    async with room.database.transaction() as session:
        return (await waits.of_runs(session, [run], stale_s=30)).get(run_id)


async def test_a_run_without_a_worker_says_so_until_one_takes_its_job(room: EngineRoom) -> None:
    run, [shard] = await room.shards()
    assert await _wait(room, run.id) == Wait(code="no_worker", message="no inference worker is running")
    worker = await room.add_worker()
    await room.execute("UPDATE worker SET last_seen_at = now() - interval '1 hour' WHERE id = :id", id=worker)
    assert (await _wait(room, run.id)).code == "no_worker"  # type: ignore[union-attr]
    await room.execute("UPDATE worker SET last_seen_at = now() WHERE id = :id", id=worker)
    assert (await _wait(room, run.id)).code == "scheduler"  # type: ignore[union-attr]
    await room.take(shard.id, worker)
    assert await _wait(room, run.id) is None


async def test_a_busy_worker_is_named_by_the_run_that_has_it(room: EngineRoom) -> None:
    first, [shard] = await room.shards()
    second, _ = await room.shards()
    await room.take(shard.id, await room.add_worker())
    found = await _wait(room, second.id)
    assert found is not None
    assert (found.code, found.run_id) == ("busy", first.id)
    assert found.message.startswith("no inference worker is free")
    await room.execute("UPDATE job SET project_id = 'other' WHERE id = :id", id=shard.id)
    assert (await _wait(room, second.id)).run_id is None  # type: ignore[union-attr]


async def test_a_free_worker_waits_for_the_other_inference_of_its_machine(room: EngineRoom) -> None:
    first, [shard] = await room.shards()
    second, _ = await room.shards()
    machine = Ground(machine="one")
    await room.take(shard.id, await room.add_worker(ground=machine))
    await room.add_worker(ground=machine)
    found = await _wait(room, second.id)
    assert found is not None
    assert (found.code, found.run_id) == ("machine", first.id)


async def test_a_taken_device_is_waited_for(room: EngineRoom) -> None:
    first, [shard] = await room.shards()
    second, _ = await room.shards()
    await room.assign(shard.id, await room.add_worker(slots=2, devices=1), device=0)
    found = await _wait(room, second.id)
    assert found is not None
    assert (found.code, found.run_id) == ("device", first.id)


async def test_the_runs_of_an_experiment_wait_for_their_index(room: EngineRoom) -> None:
    experiment_id, [first, second] = await room.add_experiment(run_spec(), run_spec())
    assert (await _wait(room, first.id)).message == "no evaluation worker is running"  # type: ignore[union-attr]
    [index] = await room.jobs_of(experiment_id)
    await room.take(index.id, await room.add_worker("evaluation"))
    assert (await _wait(room, second.id)).code == "index"  # type: ignore[union-attr]
    async with room.database.transaction() as session:
        await experiments.set_paused(session, experiment_id, is_paused=True)
    assert (await _wait(room, first.id)).code == "paused"  # type: ignore[union-attr]


async def test_a_job_that_failed_says_why_it_waits(room: EngineRoom) -> None:
    run = await room.add_run()
    [index] = await room.jobs_of(run.id, StepKind.INDEX)
    held = await room.take(index.id, await room.add_worker("evaluation"))
    await room.finish(held, Failed(code="x", message="the disk is full"))
    await room.execute("UPDATE job SET not_before = now() + interval '1 hour' WHERE id = :id", id=index.id)
    found = await _wait(room, run.id)
    assert found is not None
    assert (found.code, found.message.endswith("the disk is full")) == ("retry", True)


async def test_what_has_ended_or_is_cancelled_waits_for_nothing(room: EngineRoom) -> None:
    run = await room.add_run()
    await room.cancel(run.id)
    assert await _wait(room, run.id) is None
