"""Measurements on one machine see each other, whatever stack or command they are of, and whoever ends first."""

import asyncio
import os
import socket
from collections.abc import Callable
from uuid import uuid4

import pytest

from vlmhyperbench.domain.ground import Ground
from vlmhyperbench.load.neighbours import GROUP, Neighbour, Neighbours, among_neighbours

pytestmark = [pytest.mark.anyio, pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="only Linux has them")]

EVERYWHERE = Ground(machine="here")
LOW, HIGH = (Ground(machine="here", cores=frozenset(cores)) for cores in ({0, 1}, {2, 3}))


@pytest.fixture(autouse=True)
def group(monkeypatch: pytest.MonkeyPatch) -> str:
    name = uuid4().hex
    monkeypatch.setenv(GROUP, name)
    return name


async def until(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(5):
        while not is_so():  # noqa: ASYNC110 - a socket of the kernel sets no event
            await asyncio.sleep(0)


def marks(neighbours: Neighbours) -> list[str]:
    return [one.mark for one in neighbours.disturbers]


async def test_two_that_measure_at_once_name_each_other() -> None:
    with among_neighbours("first", EVERYWHERE) as first, among_neighbours("second", LOW) as second:
        await until(lambda: bool(first.disturbers) and second.disturbers[0].pid is not None)
        assert first.disturbers == [Neighbour(mark="second", pid=os.getpid(), ground=LOW)]
        assert second.disturbers == [Neighbour(mark="first", pid=os.getpid(), ground=EVERYWHERE)]


async def test_who_came_first_and_looks_last_still_learns_of_who_has_ended() -> None:
    with among_neighbours("first", EVERYWHERE) as first:
        with among_neighbours("second", EVERYWHERE):
            pass
        first.leave()
        assert marks(first) == ["second"]


async def test_who_comes_after_the_end_sees_nobody() -> None:
    with among_neighbours("first", EVERYWHERE):
        pass
    with among_neighbours("second", EVERYWHERE) as second:
        assert second.disturbers == []


async def test_two_on_cores_of_their_own_disturb_nobody_and_two_on_one_gpu_do() -> None:
    gpu = Ground(machine="here", cores=HIGH.cores, gpus=frozenset({"GPU-1"}))
    with among_neighbours("low", LOW) as low, among_neighbours("high", gpu) as high:
        await until(lambda: not high.disturbers)
        same = Ground(machine="here", cores=frozenset({4}), gpus=frozenset({"GPU-1"}))
        with among_neighbours("same", same) as other:
            await until(lambda: "low" not in marks(other))
            assert (marks(low), marks(high), marks(other)) == ([], ["same"], ["high"])


async def test_one_that_does_not_answer_is_held_to_use_every_core(group: str) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as silent:
        silent.bind(f"\0vlmhyperbench-measures-{group}-silent")
        with among_neighbours("first", LOW) as first:
            assert first.disturbers == [Neighbour(mark="silent", ground=EVERYWHERE)]


@pytest.mark.parametrize("said", [b"", b"[1]", b"\xff", b'{"mark": "x"}', b'{"mark": "x", "pid": [], "cores": 1}'])
async def test_what_is_no_greeting_is_nobody(group: str, said: bytes) -> None:
    with among_neighbours("first", LOW) as first, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as other:
        other.sendto(said, f"\0vlmhyperbench-measures-{group}-first")
        first.leave()
        assert first.disturbers == []
