"""A load generator waits before it is needed, and a dead one is never handed out."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from tests.support.processes import eventually
from vlmhyperbench_inference_worker.reserve import Reserve, end, folder_of

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def test_the_one_that_waits_is_handed_out_once(tmp_path: Path) -> None:
    (tmp_path / "work" / "left-by-a-boot-that-was-killed").mkdir(parents=True)
    reserve = Reserve(tmp_path / "work")
    assert not (tmp_path / "work").exists()
    reserve.refill()
    reserve.refill()
    first = await reserve.take()
    second = await reserve.take()
    assert first.pid != second.pid
    assert len(list((tmp_path / "work").iterdir())) == 2
    for process in (first, second):
        assert process.is_running
        await end(process, term_s=5)
        assert not folder_of(process).exists()
    await reserve.close()


async def test_one_that_died_while_it_waited_is_replaced(tmp_path: Path) -> None:
    reserve = Reserve(tmp_path / "work")
    reserve.refill()
    assert reserve._waiting is not None
    first = await reserve._waiting
    os.kill(first.pid, signal.SIGKILL)

    async def is_dead() -> bool:
        return not first.is_running

    await eventually(is_dead, "the load generator is dead")
    process = await reserve.take()
    assert process.is_running
    assert [folder_of(process)] == list((tmp_path / "work").iterdir())
    await end(process, term_s=0)


async def test_the_one_that_waits_is_ended_with_its_folder(tmp_path: Path) -> None:
    reserve = Reserve(tmp_path / "work")
    reserve.refill()
    await reserve.close()
    await reserve.close()
    assert list((tmp_path / "work").iterdir()) == []


async def test_what_cannot_be_made_is_told_to_who_takes_not_to_who_refills(tmp_path: Path) -> None:
    reserve = Reserve(tmp_path / "work")
    (tmp_path / "work").write_text("a file is in the way")
    reserve.refill()
    with pytest.raises(NotADirectoryError):
        await reserve.take()
    reserve.refill()
    await reserve.close()
