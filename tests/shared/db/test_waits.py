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
from vlmhyperbench.settings import Settings

pytestmark = pytest.mark.anyio


@pytest.fixture
def room(fresh_database: Database) -> EngineRoom:
    return EngineRoom(fresh_database)


async def _wait(room: EngineRoom, run_id: UUID) -> Wait | None:
    run = await room.run(run_id)
    async with room.database.transaction() as session:
        return (await waits.of_runs(session, [run], Settings())).get(run_id)


async def test_a_run_waits_for_a_worker_until_one_claims_its_job(room: EngineRoom) -> None:
    run, [shard] = await room.shards()
    assert (await _wait(room, run.id)).code == "no_worker"
    worker = await room.add_worker()
    await room.execute("UPDATE worker SET last_seen_at = now() - interval '1 hour' WHERE id = :id", id=worker)
    assert (await _wait(room, run.id)).code == "no_worker"
    await room.execute("UPDATE worker SET last_seen_at = now() WHERE id = :id", id=worker)
    assert (await _wait(room, run.id)).code == "scheduler"
    await room.take(shard.id, worker)
    assert await _wait(room, run.id) is None


async def test_a_wait_for_a_busy_worker_names_its_run(room: EngineRoom) -> None:
    first, [shard] = await room.shards()
    second, _ = await room.shards()
    await room.take(shard.id, await room.add_worker())
    wait = await _wait(room, second.id)
    assert wait is not None
    assert (wait.code, wait.run_id) == ("busy", first.id)
    await room.execute("UPDATE job SET project_id = 'other' WHERE id = :id", id=shard.id)
    assert (await _wait(room, second.id)).run_id is None


async def test_a_free_worker_waits_for_another_inference_on_its_machine(room: EngineRoom) -> None:
    first, [shard] = await room.shards()
    second, _ = await room.shards()
    machine = Ground(machine="one")
    await room.take(shard.id, await room.add_worker(ground=machine))
    await room.add_worker(ground=machine)
    wait = await _wait(room, second.id)
    assert wait is not None
    assert (wait.code, wait.run_id) == ("machine", first.id)


async def test_a_run_waits_for_a_reserved_device(room: EngineRoom) -> None:
    first, [shard] = await room.shards()
    second, _ = await room.shards()
    await room.assign(shard.id, await room.add_worker(slots=2, devices=1), device=0)
    wait = await _wait(room, second.id)
    assert wait is not None
    assert (wait.code, wait.run_id) == ("device", first.id)


async def test_the_runs_of_an_experiment_wait_for_their_index(room: EngineRoom) -> None:
    experiment_id, [first, second] = await room.add_experiment(run_spec(), run_spec())
    wait = await _wait(room, first.id)
    assert wait is not None
    assert (wait.code, "evaluation worker" in wait.message) == ("no_worker", True)
    [index] = await room.jobs_of(experiment_id)
    await room.take(index.id, await room.add_worker("evaluation"))
    assert (await _wait(room, second.id)).code == "index"
    async with room.database.transaction() as session:
        await experiments.set_paused(session, experiment_id, is_paused=True)
    assert (await _wait(room, first.id)).code == "paused"


async def test_a_wait_for_the_next_try_names_the_failure(room: EngineRoom) -> None:
    run = await room.add_run()
    [index] = await room.jobs_of(run.id, StepKind.INDEX)
    held = await room.take(index.id, await room.add_worker("evaluation"))
    await room.finish(held, Failed(code="x", message="reason"))
    await room.execute("UPDATE job SET not_before = now() + interval '1 hour' WHERE id = :id", id=index.id)
    wait = await _wait(room, run.id)
    assert wait is not None
    assert (wait.code, wait.message.endswith("reason")) == ("retry", True)


async def test_a_cancelled_run_waits_for_nothing(room: EngineRoom) -> None:
    run = await room.add_run()
    await room.cancel(run.id)
    assert await _wait(room, run.id) is None
