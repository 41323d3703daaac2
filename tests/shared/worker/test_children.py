"""CPU work in children: results, errors, deaths, cancellation, and the environment of a child."""

from __future__ import annotations

import asyncio
import math
import multiprocessing
import os
import signal
import time
from collections.abc import Iterator

import psutil
import pytest

from tests.support.processes import PATIENCE_S, eventually
from vlmhyperbench.errors import Unavailable
from vlmhyperbench.worker.children import STALLED, CpuChildren, forget_credentials

pytestmark = pytest.mark.anyio


@pytest.fixture
def children() -> Iterator[CpuChildren]:
    children = CpuChildren()
    yield children
    children.close()


async def until_gone(pid: int) -> None:
    """Wait until a child has ended and its exit status was read."""

    async def is_gone() -> bool:
        return not psutil.pid_exists(pid)

    await eventually(is_gone, f"the child {pid} is gone")


async def test_a_childs_result_comes_back(children: CpuChildren) -> None:
    assert await children.run(math.comb, 5, 2) == 10


async def test_an_error_in_a_child_is_raised_here_and_the_child_is_reused(children: CpuChildren) -> None:
    pid = await children.run(os.getpid)
    with pytest.raises(ValueError, match="math domain"):
        await children.run(math.sqrt, -1)
    assert await children.run(os.getpid) == pid


async def test_two_calls_at_once_have_a_child_each(children: CpuChildren) -> None:
    first, second = await asyncio.gather(children.run(os.getpid), children.run(os.getpid))
    assert first != second


async def test_the_death_of_a_child_is_reported_and_the_child_is_replaced(children: CpuChildren) -> None:
    pid = await children.run(os.getpid)
    with pytest.raises(Unavailable, match="died"):
        await children.run(os.kill, pid, signal.SIGKILL)
    assert await children.run(os.getpid) != pid


async def test_cancelling_kills_the_child(children: CpuChildren) -> None:
    pid = await children.run(os.getpid)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.2):
            await children.run(time.sleep, 600)
    await until_gone(pid)


async def test_a_call_that_exceeds_its_limit_is_killed_and_frees_its_slot() -> None:
    children = CpuChildren(max_running=1, limit_s=0.05)
    others = set(multiprocessing.active_children())
    async with asyncio.timeout(PATIENCE_S):
        for _ in range(2):
            with pytest.raises(Unavailable) as error:
                await children.run(time.sleep, 600)
            assert error.value.code == STALLED
        for child in set(multiprocessing.active_children()) - others:
            assert child.pid is not None
            await until_gone(child.pid)
    children.close()


def run_out_of_time() -> None:
    raise TimeoutError("no answer")


async def test_a_timeout_error_of_the_function_is_raised_unchanged(children: CpuChildren) -> None:
    pid = await children.run(os.getpid)
    with pytest.raises(TimeoutError, match="no answer"):
        await children.run(run_out_of_time)
    assert await children.run(os.getpid) == pid


async def test_an_idle_child_is_ended() -> None:
    children = CpuChildren(idle_s=0.05)
    pid = await children.run(os.getpid)
    await until_gone(pid)
    children.close()


async def test_a_child_has_no_credentials(monkeypatch: pytest.MonkeyPatch, children: CpuChildren) -> None:
    monkeypatch.setenv("VLMHB_DATABASE_URL", "postgresql://user:hidden@host/db")
    forget_credentials()
    assert "VLMHB_DATABASE_URL" not in os.environ
    assert await children.run(os.getenv, "VLMHB_DATABASE_URL") is None
