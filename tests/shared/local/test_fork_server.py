"""The fork server starts services that are processes of their own, and none of them outlives it."""

from __future__ import annotations

import asyncio
import os
import signal
import stat
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import psutil
import pytest

from tests.support.processes import PATIENCE_S, eventually, wait_until_ended
from vlmhyperbench.local.supervisor.forked import Forked, ForkServer

pytestmark = pytest.mark.anyio
PROBE = "tests.support.forked_probe"


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@asynccontextmanager
async def _server(folder: Path) -> AsyncIterator[ForkServer]:
    server = ForkServer(folder / "server.log")
    try:
        async with asyncio.timeout(PATIENCE_S):
            yield server
    finally:
        await server.stop()


async def _waiting(server: ForkServer, log_file: Path) -> Forked:
    service = await server.fork(PROBE, name="probe", env={"PROBE": "wait"}, log_file=log_file)
    await eventually(partial(_says, log_file, "waiting"), "the probe waits")
    return service


async def _says(log_file: Path, word: str) -> bool:
    return await asyncio.to_thread(lambda: log_file.exists() and word in log_file.read_text())


async def test_a_service_runs_as_a_module_and_its_exit_status_is_reported(tmp_path: Path) -> None:
    async with _server(tmp_path) as server:
        services = [
            await server.fork(PROBE, name="probe", env={"PROBE": str(status)}, log_file=tmp_path / f"{status}.log")
            for status in (0, 5)
        ]
        assert [await service.wait() for service in services] == [0, 5]
    status, *checks = (tmp_path / "5.log").read_text().split()
    assert (status, checks) == ("5", ["True"] * 3)
    assert stat.S_IMODE((tmp_path / "5.log").stat().st_mode) == 0o600


async def test_the_log_of_a_service_that_cannot_be_imported_names_the_module(tmp_path: Path) -> None:
    async with _server(tmp_path) as server:
        service = await server.fork("no_such_module", name="x", env={}, log_file=tmp_path / "x.log")
        assert await service.wait() == 1
    assert "no_such_module" in (tmp_path / "x.log").read_text()


async def test_a_service_is_stopped_and_killed(tmp_path: Path) -> None:
    async with _server(tmp_path) as server:
        service = await _waiting(server, tmp_path / "log")
        assert psutil.Process(service.pid).name() == "vlmhb-probe"
        assert await service.stop(term_s=PATIENCE_S) == 7
        assert await service.stop(term_s=0) == 7
        service = await _waiting(server, tmp_path / "log2")
        service.send_signal(signal.SIGKILL)
        assert await service.wait() == -signal.SIGKILL


async def test_a_service_that_is_stopped_as_soon_as_it_is_forked_ends_at_once(tmp_path: Path) -> None:
    async with _server(tmp_path) as server:
        for no in range(5):
            service = await server.fork(PROBE, name="probe", env={"PROBE": "wait"}, log_file=tmp_path / f"{no}.log")
            service.send_signal(signal.SIGTERM)
            assert await service.wait() in {-signal.SIGTERM, 7}


async def test_services_die_with_a_killed_server_and_the_next_fork_starts_another_server(tmp_path: Path) -> None:
    async with _server(tmp_path) as server:
        service = await _waiting(server, tmp_path / "log")
        parent = psutil.Process(service.pid).ppid()
        os.kill(parent, signal.SIGKILL)
        assert await service.wait() == -signal.SIGKILL
        await asyncio.to_thread(wait_until_ended, service.pid)
        again = await _waiting(server, tmp_path / "log2")
        assert psutil.Process(again.pid).ppid() != parent


async def test_services_end_with_the_server(tmp_path: Path) -> None:
    async with _server(tmp_path) as server:
        service = await _waiting(server, tmp_path / "log")
        os.kill(psutil.Process(service.pid).ppid(), signal.SIGTERM)  # it is for the services, which drain
        still = await server.fork(PROBE, name="probe", env={"PROBE": "3"}, log_file=tmp_path / "x")
        assert await still.wait() == 3
    assert service.returncode == -signal.SIGKILL
