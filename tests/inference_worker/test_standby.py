"""A load generator is on standby before a job needs it, and a dead one is never lent."""

from __future__ import annotations

import asyncio
import builtins
import os
import signal
from pathlib import Path

import pytest

from tests.support.processes import PATIENCE_S, eventually
from vlmhyperbench.errors import Fenced, Unavailable
from vlmhyperbench_inference_worker import standby as standby_module
from vlmhyperbench_inference_worker.standby import Standby

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def test_a_load_generator_on_standby_is_lent_once_and_ended_with_its_folder(tmp_path: Path) -> None:
    (tmp_path / "work" / "left-by-a-boot-that-was-killed").mkdir(parents=True)
    standby = Standby(tmp_path / "work")
    assert not (tmp_path / "work").exists()
    standby.refill()
    standby.refill()
    async with standby.lend() as first, standby.lend() as second:
        assert first.pid != second.pid
        assert first.is_running
        assert second.is_running
        folders = {process.record_folder.parent for process in (first, second)}
        assert folders == set((tmp_path / "work").iterdir())
        assert {process.plan_folder.parent for process in (first, second)} == folders
    assert not first.is_running
    assert list((tmp_path / "work").iterdir()) == []
    await standby.close()


@pytest.mark.parametrize(
    "end",
    [asyncio.CancelledError(), Fenced("lost"), Unavailable("away"), builtins.ExceptionGroup("g", [Fenced("lost")])],
    ids=["cancelled", "fenced", "unavailable", "fenced in a group"],
)
async def test_a_borrower_that_ends_with_an_error_kills_its_load_generator_at_once(
    tmp_path: Path, end: BaseException, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(standby_module, "END_SECONDS", 10 * PATIENCE_S)  # who asks it to end waits for so long
    standby = Standby(tmp_path / "work")

    async def borrow() -> None:
        async with standby.lend() as process:
            os.kill(process.pid, signal.SIGSTOP)  # a stopped process obeys no request to end
            raise end

    async with asyncio.timeout(PATIENCE_S):
        with pytest.raises(type(end)):
            await borrow()
    assert list((tmp_path / "work").iterdir()) == []


async def test_a_load_generator_that_died_on_standby_is_replaced(tmp_path: Path) -> None:
    standby = Standby(tmp_path / "work")
    standby.refill()
    assert standby._starting is not None
    first = await standby._starting
    os.kill(first.pid, signal.SIGKILL)

    async def is_dead() -> bool:
        return not first.is_running

    await eventually(is_dead, "the load generator is dead")
    async with standby.lend() as process:
        assert process.is_running
        assert [process.record_folder.parent] == list((tmp_path / "work").iterdir())


async def test_closing_ends_the_load_generator_on_standby_and_removes_its_folder(tmp_path: Path) -> None:
    standby = Standby(tmp_path / "work")
    standby.refill()
    await standby.close()
    await standby.close()
    assert list((tmp_path / "work").iterdir()) == []


async def test_an_error_at_the_start_is_raised_to_the_borrower_and_not_by_refill(tmp_path: Path) -> None:
    standby = Standby(tmp_path / "work")
    (tmp_path / "work").write_text("a file is in the way")
    standby.refill()
    with pytest.raises(NotADirectoryError):
        async with standby.lend():
            pass
    standby.refill()
    await standby.close()
