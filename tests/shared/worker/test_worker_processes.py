"""Real worker and scheduler processes: killed, paused, drained, cancelled, and without Redis."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from uuid import UUID

import pytest

from tests.shared.domain.builders_of_jobs import run_spec
from tests.support.engine_room import EngineRoom
from tests.support.processes import EXPIRING, PATIENCE_S, Services, eventually
from vlmhyperbench.db.engine import Database
from vlmhyperbench.domain.specs import RunSpec
from vlmhyperbench.domain.states import JobState, RunState

pytestmark = pytest.mark.anyio

SAMPLES = 5
SPEC: RunSpec = run_spec(metrics=(), reports=())


@pytest.fixture
def room(fresh_database: Database) -> EngineRoom:
    return EngineRoom(fresh_database)


@pytest.fixture
async def services(tmp_path: Path, fresh_database_url: str, redis_url: str) -> AsyncIterator[Services]:
    async with Services(tmp_path, database_url=fresh_database_url, redis_url=redis_url) as services:
        yield services


@pytest.fixture
async def hasty(tmp_path: Path, fresh_database_url: str, redis_url: str) -> AsyncIterator[Services]:
    """Services whose leases expire within seconds."""
    async with Services(tmp_path, database_url=fresh_database_url, redis_url=redis_url, timers=EXPIRING) as services:
        yield services


async def until_done(room: EngineRoom, job_id: UUID, rows: int) -> None:
    async def has_rows() -> bool:
        return (await room.job(job_id)).done >= rows

    await eventually(has_rows, f"{rows} rows")


async def until_state(room: EngineRoom, run_id: UUID, state: RunState) -> None:
    async def has_state() -> bool:
        return (await room.run(run_id)).state is state

    await eventually(has_state, state)


async def until_registered(services: Services, workers: int) -> None:
    """Wait until this number of workers has registered and has ended the claims of dead boots."""

    async def have_registered() -> bool:
        return services.log().count('"worker.registered"') >= workers

    await eventually(have_registered, f"{workers} workers register")


async def rows(room: EngineRoom, run_id: UUID) -> object:
    return await room.scalar("SELECT array_agg(ordinal ORDER BY ordinal) FROM fact WHERE run_id = :run", run=run_id)


async def test_the_job_of_a_killed_worker_goes_to_another_and_every_row_exists_once(
    room: EngineRoom, hasty: Services
) -> None:
    run, [shard] = await room.shards(SPEC, samples=SAMPLES)
    hasty.scheduler()
    first = hasty.worker("stubborn", name="first")
    await until_done(room, shard.id, 2)
    first.kill()
    hasty.worker("finish", name="second")
    await until_state(room, run.id, RunState.SUCCEEDED)
    assert await rows(room, run.id) == list(range(SAMPLES))
    names = "SELECT array_agg(DISTINCT name ORDER BY name) FROM claim JOIN worker ON worker.id = worker_id"
    assert await room.scalar(f"{names} WHERE job_id = :job", job=shard.id) == ["first", "second"]
    assert await room.scalar("SELECT count(*) FROM reservation") == 0


async def test_a_worker_that_was_stopped_past_its_lease_writes_nothing(room: EngineRoom, hasty: Services) -> None:
    run, [shard] = await room.shards(SPEC, samples=SAMPLES)
    hasty.scheduler()
    sleeper = hasty.worker("hang", name="sleeper")
    await until_done(room, shard.id, 2)
    lost = (await room.job(shard.id)).claim_id
    sleeper.send_signal(signal.SIGSTOP)
    hasty.worker("finish", name="second")
    await until_state(room, run.id, RunState.SUCCEEDED)
    sleeper.send_signal(signal.SIGCONT)

    async def is_fenced() -> bool:
        return "job.fenced" in hasty.log()

    await eventually(is_fenced, "the sleeper fences itself")
    assert (await room.run(run.id)).state is RunState.SUCCEEDED
    assert await room.scalar("SELECT count(*) FROM fact WHERE claim_id = :claim", claim=lost) == 2
    assert await rows(room, run.id) == list(range(SAMPLES))


async def test_a_restarted_worker_ends_the_claims_of_its_dead_predecessor_before_their_leases_expire(
    room: EngineRoom, tmp_path: Path, fresh_database_url: str, redis_url: str
) -> None:
    run, [shard] = await room.shards(SPEC, samples=SAMPLES)
    async with Services(tmp_path, database_url=fresh_database_url, redis_url=redis_url) as services:
        services.scheduler()
        first = services.worker("stubborn", name="same")
        await until_done(room, shard.id, 2)
        lost = (await room.job(shard.id)).claim_id
        first.kill()
        await asyncio.to_thread(first.wait)
        services.worker("finish", name="same")
        await until_state(room, run.id, RunState.SUCCEEDED)
    assert await rows(room, run.id) == list(range(SAMPLES))
    ended = [event.data for event in await room.events(run.id) if event.type == "job.requeued"]
    assert [(claim["claim_id"], claim["code"]) for claim in ended] == [(str(lost), "worker_died")]
    assert await room.scalar("SELECT ended_at IS NOT NULL FROM claim WHERE id = :id", id=lost)
    living = await room.scalar("SELECT id FROM worker WHERE state = 'LIVE' AND name = 'same'")
    assert [path.stem for path in (tmp_path / "locks" / "workers").iterdir()] == [str(living)]


async def test_a_live_worker_keeps_its_claim_when_another_takes_its_name(
    room: EngineRoom, tmp_path: Path, fresh_database_url: str, redis_url: str
) -> None:
    run, [shard] = await room.shards(SPEC, samples=SAMPLES)
    async with Services(tmp_path, database_url=fresh_database_url, redis_url=redis_url) as services:
        services.scheduler()
        asleep = services.worker("hang", name="same")
        await until_done(room, shard.id, 2)
        held = await room.job(shard.id)
        asleep.send_signal(signal.SIGSTOP)
        services.worker("finish", name="same")

        await until_registered(services, 2)
        assert await room.scalar("SELECT state FROM worker WHERE id = :id", id=held.worker_id) == "GONE"
        now = await room.job(shard.id)
        assert (now.state, now.claim_id, now.fails) == (JobState.RUNNING, held.claim_id, 0)
        asleep.send_signal(signal.SIGCONT)
        await until_state(room, run.id, RunState.SUCCEEDED)
    assert await room.scalar("SELECT count(*) FROM fact WHERE claim_id = :claim", claim=held.claim_id) == 2


async def test_a_worker_of_another_home_does_not_end_claims_of_a_worker_with_its_name(
    room: EngineRoom, tmp_path: Path, fresh_database_url: str, redis_url: str
) -> None:
    _, [shard] = await room.shards(SPEC, samples=SAMPLES)
    here, elsewhere = tmp_path / "here", tmp_path / "elsewhere"
    for home in (here, elsewhere):
        home.mkdir()
    urls = {"database_url": fresh_database_url, "redis_url": redis_url}
    async with Services(here, **urls) as ours, Services(elsewhere, **urls) as others:
        ours.scheduler()
        first = ours.worker("stubborn", name="same")
        await until_done(room, shard.id, 2)
        held = await room.job(shard.id)
        first.kill()
        await asyncio.to_thread(first.wait)
        others.worker("finish", name="same")
        await until_registered(others, 1)
        now = await room.job(shard.id)
        assert (now.state, now.claim_id) == (JobState.RUNNING, held.claim_id)


async def test_a_worker_that_is_terminated_finishes_its_chunk_without_counting_a_failure(
    room: EngineRoom, services: Services
) -> None:
    run, [shard] = await room.shards(SPEC, samples=SAMPLES)
    services.scheduler()
    first = services.worker("hang", name="first")
    await until_done(room, shard.id, 2)
    first.terminate()
    assert await asyncio.to_thread(first.wait, PATIENCE_S) == 0
    job = await room.job(shard.id)
    assert (job.state, job.done, job.fails) == (JobState.READY, 2, 0)
    assert await room.scalar("SELECT state FROM worker WHERE name = 'first'") == "GONE"
    services.worker("finish", name="second")
    await until_state(room, run.id, RunState.SUCCEEDED)


@pytest.mark.parametrize("mode", ["hang", "stubborn"])
async def test_a_cancelled_run_ends_even_if_the_handler_ignores_the_cancellation(
    room: EngineRoom, services: Services, mode: str
) -> None:
    run, [shard] = await room.shards(SPEC, samples=SAMPLES)
    services.scheduler()
    services.worker(mode, name="first")
    await until_done(room, shard.id, 2)
    await room.cancel(run.id)
    await until_state(room, run.id, RunState.CANCELLED)
    assert (await room.job(shard.id)).state is JobState.CANCELLED
    assert await rows(room, run.id) == [0, 1]


async def test_a_handler_that_crashes_three_times_fails_the_run_with_its_message(
    room: EngineRoom, services: Services
) -> None:
    run, [shard] = await room.shards(SPEC, samples=SAMPLES)
    services.scheduler()
    services.worker("crash", name="first")

    async def has_failed() -> bool:
        await room.execute("UPDATE job SET not_before = NULL WHERE id = :id", id=shard.id)
        return (await room.run(run.id)).state is RunState.FAILED

    await eventually(has_failed, "the run fails")
    assert (await room.run(run.id)).reason == "inference: RuntimeError: GENERATE"
    assert (await room.job(shard.id)).attempts == 3


async def test_without_redis_a_run_only_takes_longer(room: EngineRoom, tmp_path: Path, fresh_database_url: str) -> None:
    run, _ = await room.shards(SPEC, samples=SAMPLES)
    nobody = "redis://127.0.0.1:1/0"
    async with Services(tmp_path, database_url=fresh_database_url, redis_url=nobody) as services:
        services.scheduler()
        services.worker("finish", name="first")
        await until_state(room, run.id, RunState.SUCCEEDED)
    assert await rows(room, run.id) == list(range(SAMPLES))


async def test_a_ring_is_enough_to_start_a_job(
    room: EngineRoom, tmp_path: Path, fresh_database_url: str, redis_url: str
) -> None:
    slow = {"POLL_S": 300.0}
    run, _ = await room.shards(SPEC, samples=SAMPLES)
    async with Services(tmp_path, database_url=fresh_database_url, redis_url=redis_url, timers=slow) as services:
        services.worker("finish", name="first")

        async def is_registered() -> bool:
            return await room.scalar("SELECT count(*) FROM worker WHERE name = 'first'") == 1

        await eventually(is_registered, "the worker registers")
        services.scheduler()
        await until_state(room, run.id, RunState.SUCCEEDED)


async def test_a_second_scheduler_takes_over_when_the_first_is_killed(room: EngineRoom, services: Services) -> None:
    run, _ = await room.shards(SPEC, samples=SAMPLES)
    later, _ = await room.shards(SPEC, samples=SAMPLES)
    await room.execute("UPDATE run SET is_paused = true WHERE id = :id", id=later.id)
    first = services.scheduler()
    services.worker("finish", name="first")
    await until_state(room, run.id, RunState.SUCCEEDED)
    services.scheduler()
    first.kill()
    await room.execute("UPDATE run SET is_paused = false WHERE id = :id", id=later.id)
    await until_state(room, later.id, RunState.SUCCEEDED)
