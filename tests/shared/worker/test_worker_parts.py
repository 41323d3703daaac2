"""The small parts of a worker: rates, orphan processes, the doorbell's forwarding."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path
from uuid import uuid4

import pytest

from tests.support.processes import PATIENCE_S
from vlmhyperbench.worker.doorbell import forward
from vlmhyperbench.worker.listening import open_ring_socket
from vlmhyperbench.worker.orphans import kill_orphans, label
from vlmhyperbench.worker.rates import Rate
from vlmhyperbench.worker.signals import open_stop


def test_ten_in_five_seconds_are_two_per_second_and_ten_more_take_five_seconds() -> None:
    rate = Rate()
    assert rate.update(0, 0, 20) == (None, None)
    assert rate.update(5, 10, 20) == (2, 5)
    assert rate.update(10, 20, None) == (2, None)


def test_a_rate_uses_only_recent_observations() -> None:
    rate = Rate()
    rate.update(0, 0, 100)
    rate.update(10, 50, 100)
    rate.update(40, 80, 100)
    assert rate.update(41, 81, 100) == (1, 19)


def test_only_processes_of_an_earlier_boot_are_killed(tmp_path: Path) -> None:
    older, own = (label(tmp_path, "inference", "w", uuid4()) for _ in range(2))
    other = label(tmp_path, "inference", "another", uuid4())
    program = "import signal; print(flush=True); signal.pause()"
    sleepers = [
        subprocess.Popen([sys.executable, "-c", program], env=marks, stdout=subprocess.PIPE)
        for marks in (older, own, other)
    ]
    try:
        for sleeper in sleepers:
            assert sleeper.stdout is not None
            assert sleeper.stdout.readline() == b"\n"
        assert kill_orphans(own) == [sleepers[0].pid]
        assert sleepers[0].wait(PATIENCE_S) == -signal.SIGKILL
        assert [sleeper.poll() for sleeper in sleepers[1:]] == [None, None]
    finally:
        for sleeper in sleepers:
            sleeper.kill()
            sleeper.communicate()


@pytest.mark.anyio
@pytest.mark.parametrize("length", [5, 120])
async def test_a_forwarded_ring_is_received(tmp_path: Path, length: int) -> None:
    heard = asyncio.Event()
    folder = tmp_path / ("d" * length)
    folder.mkdir(mode=0o700)
    (folder / "w.socket").touch()  # left by an earlier boot
    async with open_ring_socket(folder, "w", heard.set) as door:
        assert door.parent.stat().st_mode & 0o077 == 0
        assert (door.parent == folder) == (length == 5)
        forward(str(door), "id")
        async with asyncio.timeout(PATIENCE_S):
            await heard.wait()
    forward(str(door), "nobody listens any more")


@pytest.mark.anyio
async def test_sigterm_stops_a_service() -> None:
    async with open_stop() as stop:
        os.kill(os.getpid(), signal.SIGTERM)
        async with asyncio.timeout(PATIENCE_S):
            await stop.wait()
