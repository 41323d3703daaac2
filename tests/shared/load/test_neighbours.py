"""Measurements on one machine see each other, of any stack or command, whichever ends first."""

import asyncio
import os
import socket
from collections.abc import Callable
from uuid import uuid4

import pytest

from tests.support.processes import PATIENCE_S
from vlmhyperbench.domain.ground import Ground
from vlmhyperbench.load.neighbours import GROUP, Neighbour, Neighbours, among_neighbours
from vlmhyperbench.processes import child_environment

pytestmark = [pytest.mark.anyio, pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="only Linux has them")]

EVERYWHERE = Ground(machine="here")
LOW, HIGH = (Ground(machine="here", cores=frozenset(cores)) for cores in ({0, 1}, {2, 3}))


@pytest.fixture(autouse=True)
def group(monkeypatch: pytest.MonkeyPatch) -> str:
    name = uuid4().hex
    monkeypatch.setenv(GROUP, name)
    return name


async def until(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not is_so():  # noqa: ASYNC110 - a socket of the kernel sets no event
            await asyncio.sleep(0)


def marks(neighbours: Neighbours) -> list[str]:
    return [neighbour.mark for neighbour in neighbours.disturbers]


async def test_two_measurements_at_once_see_each_other() -> None:
    with among_neighbours("first", EVERYWHERE) as first, among_neighbours("second", LOW) as second:
        await until(lambda: bool(first.disturbers) and second.disturbers[0].pid is not None)
        assert first.disturbers == [Neighbour(mark="second", pid=os.getpid(), ground=LOW)]
        assert second.disturbers == [Neighbour(mark="first", pid=os.getpid(), ground=EVERYWHERE)]


async def test_a_measurement_sees_a_shorter_one_that_has_already_ended() -> None:
    with among_neighbours("first", EVERYWHERE) as first:
        with among_neighbours("second", EVERYWHERE):
            pass
        first.leave()
        assert marks(first) == ["second"]


async def test_a_measurement_does_not_see_one_that_ended_before_it_began() -> None:
    with among_neighbours("first", EVERYWHERE):
        pass
    with among_neighbours("second", EVERYWHERE) as second:
        assert second.disturbers == []


async def test_measurements_on_different_cores_disturb_each_other_only_if_they_share_a_gpu() -> None:
    gpu = Ground(machine="here", cores=HIGH.cores, gpus=frozenset({"GPU-1"}))
    with among_neighbours("low", LOW) as low, among_neighbours("high", gpu) as high:
        await until(lambda: not high.disturbers)
        same = Ground(machine="here", cores=frozenset({4}), gpus=frozenset({"GPU-1"}))
        with among_neighbours("same", same) as other:
            await until(lambda: "low" not in marks(other))
            assert (marks(low), marks(high), marks(other)) == ([], ["same"], ["high"])


async def test_a_neighbour_that_does_not_answer_is_assumed_to_use_every_core(group: str) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as silent:
        silent.bind(f"\0vlmhyperbench-measures-{group}-silent")
        with among_neighbours("first", LOW) as first:
            assert first.disturbers == [Neighbour(mark="silent", ground=EVERYWHERE)]


@pytest.mark.parametrize("data", [b"", b"[1]", b"\xff", b'{"mark": "x"}', b'{"mark": "x", "pid": [], "cores": 1}'])
async def test_a_message_that_is_not_a_greeting_is_ignored(group: str, data: bytes) -> None:
    with among_neighbours("first", LOW) as first, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as other:
        other.sendto(data, f"\0vlmhyperbench-measures-{group}-first")
        first.leave()
        assert first.disturbers == []


def test_a_worker_without_credentials_still_knows_its_group(group: str) -> None:
    assert child_environment()[GROUP] == group
