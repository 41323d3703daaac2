"""A load generator is on standby before it is needed, and a dead one is never lent."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from pathlib import Path

import pytest

from tests.support.processes import eventually
from vlmhyperbench.load.process import END_SECONDS
from vlmhyperbench_inference_worker.standby import Standby

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def fenced() -> asyncio.Event:
    return asyncio.Event()


async def test_the_one_on_standby_is_lent_once_and_ended_with_its_folder(tmp_path: Path, fenced: asyncio.Event) -> None:
    (tmp_path / "work" / "left-by-a-boot-that-was-killed").mkdir(parents=True)
    standby = Standby(tmp_path / "work")
    assert not (tmp_path / "work").exists()
    standby.refill()
    standby.refill()
    async with standby.lend(fenced) as first, standby.lend(fenced) as second:
        assert first.pid != second.pid
        assert first.is_running
        assert second.is_running
        folders = {process.record_folder.parent for process in (first, second)}
        assert folders == set((tmp_path / "work").iterdir())
        assert {process.plan_folder.parent for process in (first, second)} == folders
    assert not first.is_running
    assert list((tmp_path / "work").iterdir()) == []
    await standby.close()


async def test_one_of_a_claim_that_is_lost_is_killed_at_once(tmp_path: Path, fenced: asyncio.Event) -> None:
    standby = Standby(tmp_path / "work")
    async with standby.lend(fenced) as process:
        os.kill(process.pid, signal.SIGSTOP)  # it obeys no request to end
        fenced.set()
        began = time.monotonic()
    assert not process.is_running
    assert time.monotonic() - began < END_SECONDS


async def test_one_that_died_on_standby_is_replaced(tmp_path: Path, fenced: asyncio.Event) -> None:
    standby = Standby(tmp_path / "work")
    standby.refill()
    assert standby._starting is not None
    first = await standby._starting
    os.kill(first.pid, signal.SIGKILL)

    async def is_dead() -> bool:
        return not first.is_running

    await eventually(is_dead, "the load generator is dead")
    async with standby.lend(fenced) as process:
        assert process.is_running
        assert [process.record_folder.parent] == list((tmp_path / "work").iterdir())


async def test_the_one_on_standby_is_ended_with_its_folder(tmp_path: Path) -> None:
    standby = Standby(tmp_path / "work")
    standby.refill()
    await standby.close()
    await standby.close()
    assert list((tmp_path / "work").iterdir()) == []


async def test_what_cannot_be_made_is_said_to_who_borrows_not_to_who_refills(
    tmp_path: Path, fenced: asyncio.Event
) -> None:
    standby = Standby(tmp_path / "work")
    (tmp_path / "work").write_text("a file is in the way")
    standby.refill()
    with pytest.raises(NotADirectoryError):
        async with standby.lend(fenced):
            pass
    standby.refill()
    await standby.close()
