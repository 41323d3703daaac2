"""Two workers that claim one device: the second is refused at once; a restarted one waits for its predecessor."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.processes import PATIENCE_S
from vlmhyperbench.errors import Conflict
from vlmhyperbench.worker.device_locks import IN_USE, check_free, lock_devices, lock_folder
from vlmhyperbench.worker.devices import DeviceInfo

GPU = DeviceInfo(no=0, kind="gpu", uuid="GPU-1/2", name="H100", memory_bytes=1, is_declared=True)
HOLD = """
import asyncio, subprocess, sys
from pathlib import Path
from vlmhyperbench.worker.device_locks import lock_devices
from vlmhyperbench.worker.devices import DeviceInfo
gpu = DeviceInfo(no=0, kind="gpu", uuid="GPU-1/2", name="H100", memory_bytes=1, is_declared=True)
locks = asyncio.run(lock_devices(Path(sys.argv[1]), sys.argv[2], [gpu]))
engine = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, pass_fds=locks.descriptors)
print(engine.pid, flush=True)
for line in sys.stdin:
    locks.leave()
    print("leaves", flush=True)
"""


class Holding:
    """A process that holds the device as the worker `first`, and its engine, which has inherited the lock."""

    def __init__(self, home: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", HOLD, str(home), "first"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.engine = int(self._read())

    def leave(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        assert self._read() == "leaves"

    def kill(self) -> None:
        """Kill the worker only: its engine ends when the test's end closes its stdin, or by `kill_engine`."""
        self.process.kill()
        self.process.communicate()

    def kill_engine(self) -> None:
        os.kill(self.engine, 9)

    def _read(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()


@pytest.fixture
def holding(tmp_path: Path) -> Iterator[Holding]:
    held = Holding(tmp_path)
    yield held
    held.kill()


async def _lock(home: Path, worker: str) -> tuple[int, ...]:
    locks = await lock_devices(home, worker, [GPU])
    descriptors = locks.descriptors
    locks.close()
    return descriptors


@pytest.mark.anyio
async def test_a_cpu_slot_is_not_locked(tmp_path: Path) -> None:
    cpu = DeviceInfo(no=0, kind="cpu", uuid="cpu", name="cpu", memory_bytes=1)
    assert (await lock_devices(tmp_path, "w", [cpu])).descriptors == ()
    check_free(tmp_path, "w", [cpu])


@pytest.mark.anyio
@pytest.mark.parametrize("worker", ["second", "first"])
async def test_a_second_worker_is_refused_at_once_with_the_name_of_the_holder(
    tmp_path: Path, holding: Holding, worker: str
) -> None:
    for refused in (lambda: check_free(tmp_path, worker, [GPU]), None):
        with pytest.raises(Conflict) as conflict:
            refused() if refused is not None else await lock_devices(tmp_path, worker, [GPU])
        assert conflict.value.code == IN_USE
        for part in (GPU.uuid, "'first'", f"pid {holding.process.pid}", f"home {tmp_path}", "since 20"):
            assert part in conflict.value.message
        assert f"kill {holding.process.pid}" in conflict.value.cure


@pytest.mark.anyio
async def test_a_refused_worker_keeps_no_lock_of_its_other_devices(tmp_path: Path, holding: Holding) -> None:
    other = DeviceInfo(no=1, kind="gpu", uuid="GPU-2", name="H100", memory_bytes=1, is_declared=True)
    with pytest.raises(Conflict):
        await lock_devices(tmp_path, "second", [other, GPU])
    (await lock_devices(tmp_path, "third", [other])).close()
    assert holding.process.poll() is None


@pytest.mark.anyio
async def test_a_restarted_worker_waits_for_the_end_of_its_predecessor(tmp_path: Path, holding: Holding) -> None:
    holding.leave()
    check_free(tmp_path, "first", [GPU])
    with pytest.raises(Conflict):
        check_free(tmp_path, "second", [GPU])
    waiting = asyncio.create_task(_lock(tmp_path, "first"))
    holding.kill()
    holding.kill_engine()
    async with asyncio.timeout(PATIENCE_S):
        assert await waiting


@pytest.mark.anyio
async def test_the_engine_of_a_dead_worker_holds_the_device_until_it_has_ended(
    tmp_path: Path, holding: Holding, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine_ended = asyncio.Event()

    async def end_the_engine(_: float) -> None:
        """Take the place of the pause between two looks: the first look has found the lock held."""
        holding.kill_engine()
        engine_ended.set()
        await pause(0.01)

    os.kill(holding.process.pid, 9)
    holding.process.wait()
    pause = asyncio.sleep
    monkeypatch.setattr("vlmhyperbench.worker.device_locks.asyncio.sleep", end_the_engine)
    async with asyncio.timeout(PATIENCE_S):
        assert await _lock(tmp_path, "second")
    assert engine_ended.is_set()


@pytest.mark.anyio
async def test_a_predecessor_that_does_not_end_is_named_in_the_end(
    tmp_path: Path, holding: Holding, monkeypatch: pytest.MonkeyPatch
) -> None:
    holding.leave()
    monkeypatch.setattr("vlmhyperbench.worker.device_locks.PREDECESSOR_S", 0.0)
    with pytest.raises(Conflict) as conflict:
        await lock_devices(tmp_path, "first", [GPU])
    assert f"pid {holding.process.pid}" in conflict.value.message


def test_the_lock_of_a_gpu_is_that_of_the_machine_and_of_a_declared_device_that_of_the_home(tmp_path: Path) -> None:
    machine, home = tmp_path / "machine", tmp_path / "home"
    real = DeviceInfo(no=0, kind="gpu", uuid="GPU-1", name="H100", memory_bytes=1)
    assert lock_folder(home, real, machine=machine) == home / "locks"  # the machine has no such folder
    machine.mkdir()
    assert lock_folder(home, real, machine=machine).parent == machine
    assert lock_folder(home, real, machine=machine).stat().st_mode & 0o077 == 0
    assert lock_folder(home, GPU, machine=machine) == home / "locks"
