"""A GPU with a fault is quarantined by its real worker, and its job is done elsewhere without being charged."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from uuid import UUID

import pytest

from tests.shared.domain.builders_of_jobs import run_spec
from tests.support.engine_room import EngineRoom
from tests.support.machines import need_machines
from tests.support.nvml import FakeDriver, fake_driver
from tests.support.processes import EXPIRING, PATIENCE_S, Services, eventually
from vlmhyperbench.db import workers
from vlmhyperbench.db.engine import Database
from vlmhyperbench.domain.states import JobState, RunState
from vlmhyperbench.worker.device_locks import lock_folder
from vlmhyperbench.worker.device_watch import QUARANTINED
from vlmhyperbench.worker.devices import DeviceInfo

pytestmark = pytest.mark.anyio

SAMPLES = 5


@pytest.fixture
def room(fresh_database: Database) -> EngineRoom:
    return EngineRoom(fresh_database)


@pytest.fixture
def driver(tmp_path: Path) -> FakeDriver:
    return fake_driver(tmp_path, gpus=2)


@pytest.fixture
async def services(
    tmp_path: Path, driver: FakeDriver, fresh_database_url: str, redis_url: str
) -> AsyncIterator[Services]:
    library = {"LD_LIBRARY_PATH": str(driver.folder)}
    async with Services(tmp_path, database_url=fresh_database_url, redis_url=redis_url, environment=library) as found:
        yield found


async def until_running(room: EngineRoom, job_id: UUID, rows: int = 2) -> None:
    async def has_rows() -> bool:
        job = await room.job(job_id)
        return job.state is JobState.RUNNING and job.done >= rows

    await eventually(has_rows, "the job runs")


async def until_state(room: EngineRoom, run_id: UUID, state: RunState) -> None:
    async def has_state() -> bool:
        return (await room.run(run_id)).state is state

    await eventually(has_state, state)


async def until_ready(room: EngineRoom, job_id: UUID) -> None:
    async def is_ready() -> bool:
        return (await room.job(job_id)).state is JobState.READY

    await eventually(is_ready, "the job is given back")


async def broken(room: EngineRoom) -> list[object]:
    """Return the devices in quarantine, with their reasons."""
    found = await room.scalar("SELECT json_agg(DISTINCT uuid) FROM device WHERE state = 'BROKEN'")
    return list(found) if isinstance(found, list) else []


@pytest.mark.parametrize("fault", ["xid", "gone"])
async def test_the_job_of_a_broken_gpu_is_done_on_another_one_and_not_charged(
    room: EngineRoom, services: Services, driver: FakeDriver, fault: str
) -> None:
    run, [shard] = await room.shards(run_spec(metrics=(), reports=()), samples=SAMPLES)
    services.scheduler()
    services.worker("stubborn", name="first", devices=driver.gpus[0])
    await until_running(room, shard.id)
    if fault == "xid":
        driver.report_xid(0, 43)  # an application's own error ends nothing
        driver.report_xid(0, 79)
    else:
        driver.lose(0)
    await until_ready(room, shard.id)
    assert (await room.job(shard.id)).fails == 0
    assert await broken(room) == [driver.gpus[0]]
    services.worker("finish", name="second", devices=driver.gpus[1])
    await until_state(room, run.id, RunState.SUCCEEDED)
    rows = await room.scalar("SELECT array_agg(ordinal ORDER BY ordinal) FROM fact WHERE run_id = :run", run=run.id)
    assert rows == list(range(SAMPLES))
    [failure] = await room.scalar(
        "SELECT json_agg(failure) FROM claim WHERE run_id = :run AND failure IS NOT NULL", run=run.id
    )
    assert failure["code"] == QUARANTINED
    assert driver.gpus[0] in failure["message"]
    alerts = [event.data["code"] for event in await room.events(run.id) if event.type == "alert.raised"]
    assert alerts == [QUARANTINED]
    assert services.log().count('"worker.device_quarantined"') == 1
    assert f"vlmhyperbench workers release-device {driver.gpus[0]}" in services.log()


async def test_a_restarted_worker_of_a_broken_gpu_gets_no_jobs_until_a_person_releases_it(
    room: EngineRoom, services: Services, driver: FakeDriver
) -> None:
    run, [shard] = await room.shards(run_spec(metrics=(), reports=()), samples=SAMPLES)
    services.scheduler()
    first = services.worker("stubborn", name="first", devices=driver.gpus[0])
    await until_running(room, shard.id)
    driver.report_xid(0, 48)
    await until_ready(room, shard.id)
    first.kill()
    first.wait()
    services.worker("finish", name="first", devices=driver.gpus[0])

    async def has_registered() -> bool:
        return services.log().count('"worker.registered"') == 2

    await eventually(has_registered, "the worker is back")
    assert await broken(room) == [driver.gpus[0]]
    assert (await room.job(shard.id)).state is JobState.READY
    async with room.database.transaction() as session:
        assert await workers.release_device(session, driver.gpus[0], by="ann")
    await until_state(room, run.id, RunState.SUCCEEDED)


async def test_a_second_worker_or_stack_for_a_held_gpu_ends_with_the_name_of_the_holder(
    room: EngineRoom, services: Services, driver: FakeDriver, tmp_path: Path
) -> None:
    first = services.worker("finish", name="first", devices=driver.gpus[0])

    async def has_registered() -> bool:
        return '"worker.registered"' in services.log()

    await eventually(has_registered, "the first worker is there")
    second = services.worker("finish", name="second", devices=driver.gpus[0])
    assert second.wait(180) != 0
    assert f"is used by the worker 'first' (pid {first.pid}, since " in services.log()
    assert await room.scalar("SELECT count(*) FROM worker") == 1
    if lock_folder(tmp_path, device_of(driver)) != tmp_path / "locks":  # otherwise no two homes see each other
        other = {"VLMHB_HOME": str(tmp_path / "other"), "LD_LIBRARY_PATH": str(driver.folder), "VLMHB_API_PORT": "0"}
        argv = [sys.executable, "-m", "vlmhyperbench.cli.main", "up", "--services", "inference"]
        refused = await asyncio.to_thread(
            subprocess.run, argv, env={**os.environ, **other}, capture_output=True, text=True, check=False
        )
        assert refused.returncode != 0
        assert f"is used by the worker 'first' (pid {first.pid}, since " in refused.stderr
    assert first.poll() is None


ELSEWHERE = (
    "unshare",
    "--uts",
    "--mount",
    "sh",
    "-c",
    'hostname elsewhere && mount -t tmpfs none /run/lock && exec "$@"',
)
"""Begins a command whose process has another host name and sees no locks of this machine, as one in a container."""


async def test_a_worker_in_a_container_for_a_gpu_of_a_live_worker_ends_and_gets_it_when_that_one_is_dead(
    room: EngineRoom, driver: FakeDriver, tmp_path: Path, fresh_database_url: str, redis_url: str
) -> None:
    need_machines("unshare")
    home = tmp_path / "elsewhere"
    home.mkdir()
    given = {"timers": EXPIRING, "environment": {"LD_LIBRARY_PATH": str(driver.folder)}}
    urls = {"database_url": fresh_database_url, "redis_url": redis_url}
    names = "SELECT array_agg(name ORDER BY registered_at) FROM worker"
    async with Services(tmp_path, **urls, **given) as here, Services(home, **urls, **given) as there:
        first = here.worker("finish", name="first", devices=driver.gpus[0])

        async def has_registered(services: Services) -> bool:
            return '"worker.registered"' in services.log()

        await eventually(lambda: has_registered(here), "the first worker is there")
        second = there.worker("finish", name="second", devices=driver.gpus[0], within=(*ELSEWHERE, "sh"))
        assert await asyncio.to_thread(second.wait, PATIENCE_S) != 0
        assert f"({driver.gpus[0]}) are used by the worker 'first' on {socket.gethostname()}." in there.log()
        assert await room.scalar(names) == ["first"]
        first.kill()
        there.worker("finish", name="second", devices=driver.gpus[0], within=(*ELSEWHERE, "sh"))
        await eventually(lambda: has_registered(there), "the second worker has the device")
    assert await room.scalar(names) == ["first", "second"]


def device_of(driver: FakeDriver) -> DeviceInfo:
    return DeviceInfo(no=0, kind="gpu", uuid=driver.gpus[0], name="Stand-in", memory_bytes=1)
