"""The scheduler's loop: its leadership, when it reaps, and how it survives a missing database or Redis."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from uuid import UUID

import pytest
from sqlalchemy import make_url

from tests.support.engine_room import EngineRoom
from vlmhyperbench.addresses import with_account
from vlmhyperbench.db import migrations
from vlmhyperbench.db.leadership import Leadership
from vlmhyperbench.domain.states import JobState, RunState
from vlmhyperbench.errors import Unavailable
from vlmhyperbench.local.postgres import Postgres
from vlmhyperbench.queues.ringing import Bell
from vlmhyperbench.runtime import Runtime, open_runtime
from vlmhyperbench.settings import Settings
from vlmhyperbench_scheduler.loop import Loop

pytestmark = pytest.mark.anyio

NOBODY = "redis://127.0.0.1:1/0"


class Clock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


def settings_of(home: Path, database_url: str, redis_url: str = NOBODY) -> Settings:
    return Settings.model_validate({"home": home, "database_url": database_url, "redis_url": redis_url})


@pytest.fixture
async def runtime(tmp_path: Path, fresh_database_url: str, redis_url: str) -> AsyncIterator[Runtime]:
    async with open_runtime(settings_of(tmp_path, fresh_database_url, redis_url)) as runtime:
        yield runtime


@pytest.fixture
async def leadership(fresh_database_url: str) -> AsyncIterator[Leadership]:
    leadership = Leadership(fresh_database_url)
    yield leadership
    await leadership.close()


def loop_of(runtime: Runtime, leadership: Leadership, clock: Clock) -> Loop:
    return Loop(runtime, Bell(runtime.settings.redis_url.get_secret_value()), leadership, clock=clock)


async def lose_a_lease(room: EngineRoom) -> UUID:
    _, [shard] = await room.shards()
    await room.take(shard.id, await room.add_worker())
    await room.let_lease_expire(shard.id)
    return shard.id


async def test_one_process_leads_until_it_releases_the_lead(fresh_database_url: str) -> None:
    first, second = Leadership(fresh_database_url), Leadership(fresh_database_url)
    assert await first.hold()
    assert await first.hold()
    assert not await second.hold()
    await first.close()
    assert await second.hold()
    await second.close()


async def test_a_tick_assigns_waiting_jobs_and_rings_for_them(runtime: Runtime, leadership: Leadership) -> None:
    room = EngineRoom(runtime.database)
    run = await room.add_run()
    worker = await room.add_worker("evaluation")
    assert await loop_of(runtime, leadership, Clock()).step()
    [index] = await room.jobs_of(run.id)
    assert (index.state, index.worker_id) == (JobState.ASSIGNED, worker)


async def test_a_standby_does_nothing(runtime: Runtime, leadership: Leadership, fresh_database_url: str) -> None:
    room = EngineRoom(runtime.database)
    run = await room.add_run()
    await room.add_worker("evaluation")
    leader = Leadership(fresh_database_url)
    assert await leader.hold()
    assert not await loop_of(runtime, leadership, Clock()).step()
    assert (await room.jobs_of(run.id))[0].state is JobState.READY
    await leader.close()


async def test_a_new_leader_reaps_only_after_half_a_minute(runtime: Runtime, leadership: Leadership) -> None:
    room, clock = EngineRoom(runtime.database), Clock()
    job_id = await lose_a_lease(room)
    loop = loop_of(runtime, leadership, clock)
    await loop.step()
    clock.now_s += 29
    await loop.step()
    assert (await room.job(job_id)).state is JobState.RUNNING
    clock.now_s += 1
    await loop.step()
    assert (await room.job(job_id)).state in {JobState.READY, JobState.ASSIGNED}


async def test_after_the_database_was_away_nothing_is_reaped_for_half_a_minute(
    tmp_path: Path, make_postgres: Callable[[], Postgres]
) -> None:
    server, clock = make_postgres(), Clock()
    server.start()
    await asyncio.to_thread(migrations.upgrade, server.url)
    async with open_runtime(settings_of(tmp_path, server.url)) as runtime:
        leadership = Leadership(server.url)
        loop, room = loop_of(runtime, leadership, clock), EngineRoom(runtime.database)
        job_id = await lose_a_lease(room)
        assert await loop.step()
        clock.now_s += 60
        server.stop()
        assert not await loop.step()
        assert not await loop.step()
        server.start()
        assert await loop.step()
        clock.now_s += 29
        await loop.step()
        assert (await room.job(job_id)).state is JobState.RUNNING
        clock.now_s += 1
        await loop.step()
        assert (await room.job(job_id)).state in {JobState.READY, JobState.ASSIGNED}
        await leadership.close()


async def test_a_database_that_is_down_is_logged(tmp_path: Path, make_postgres: Callable[[], Postgres]) -> None:
    server = make_postgres()
    server.start()
    leadership = Leadership(server.url)
    assert await leadership.hold()
    server.stop()
    with pytest.raises(Unavailable):
        await leadership.hold()
    with pytest.raises(Unavailable):
        await leadership.hold()


async def test_without_redis_a_tick_still_assigns(tmp_path: Path, fresh_database_url: str) -> None:
    async with open_runtime(settings_of(tmp_path, fresh_database_url)) as runtime:
        room, leadership = EngineRoom(runtime.database), Leadership(fresh_database_url)
        run = await room.add_run()
        await room.add_worker("evaluation")
        assert await loop_of(runtime, leadership, Clock()).step()
        assert (await room.jobs_of(run.id))[0].state is JobState.ASSIGNED
        await leadership.close()


async def test_a_tick_ends_cancelled_runs(runtime: Runtime, leadership: Leadership) -> None:
    room = EngineRoom(runtime.database)
    run = await room.add_run()
    await room.cancel(run.id)
    await loop_of(runtime, leadership, Clock()).step()
    assert (await room.run(run.id)).state is RunState.CANCELLED


async def test_a_worker_that_was_not_seen_for_an_hour_is_gone_unless_it_has_a_job(
    runtime: Runtime, leadership: Leadership
) -> None:
    room, clock = EngineRoom(runtime.database), Clock()
    present, late, lost = [await room.add_worker() for _ in range(3)]
    _, [shard] = await room.shards()
    await room.take(shard.id, late, lease_s=7200)
    for worker, seen_s in ((present, 3500), (late, 3700), (lost, 3700)):
        seen = "UPDATE worker SET last_seen_at = now() - make_interval(secs => :seen) WHERE id = :id"
        await room.execute(seen, id=worker, seen=seen_s)
    loop = loop_of(runtime, leadership, clock)
    await loop.step()
    state = "SELECT state FROM worker WHERE id = :id"
    assert await room.scalar(state, id=lost) == "LIVE"  # nobody is judged before all could be seen again
    clock.now_s += 30
    await loop.step()
    assert [await room.scalar(state, id=worker) for worker in (present, late, lost)] == ["LIVE", "LIVE", "GONE"]


async def test_unclaimed_jobs_of_a_worker_that_is_gone_go_to_another(runtime: Runtime, leadership: Leadership) -> None:
    room = EngineRoom(runtime.database)
    run = await room.add_run()
    [index] = await room.jobs_of(run.id)
    gone = await room.add_worker("evaluation")
    await room.assign(index.id, gone)
    await room.execute("UPDATE worker SET state = 'GONE' WHERE id = :id", id=gone)
    other = await room.add_worker("evaluation")
    loop = loop_of(runtime, leadership, Clock())
    await loop.step()
    await loop.step()
    job = await room.job(index.id)
    assert (job.state, job.worker_id) == (JobState.ASSIGNED, other)


async def test_two_jobs_never_get_one_device(runtime: Runtime, leadership: Leadership) -> None:
    room = EngineRoom(runtime.database)
    worker = await room.add_worker(slots=2, devices=1)
    for _ in range(2):
        await room.shards()
    await loop_of(runtime, leadership, Clock()).step()
    held = "SELECT count(*) FROM job WHERE worker_id = :id AND state = 'ASSIGNED'"
    assert await room.scalar(held, id=worker) == 1


async def test_a_wrong_account_ends_a_scheduler_that_starts(
    tmp_path: Path, make_postgres: Callable[[], Postgres]
) -> None:
    server = make_postgres()
    server.start()
    wrong = with_account(server.url, str(make_url(server.url).username), "wrong-password")
    async with open_runtime(settings_of(tmp_path, wrong)) as runtime:
        with pytest.raises(Unavailable) as refused:
            await loop_of(runtime, Leadership(wrong), Clock()).step()
    assert (refused.value.code, "wrong-password" in str(refused.value)) == ("database_refused", False)
