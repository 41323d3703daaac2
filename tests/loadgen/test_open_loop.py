"""Open loops: every request leaves at its instant, late ones count from it, and no answer holds the next one back."""

from __future__ import annotations

import asyncio
import os
import resource
import time
from pathlib import Path

import numpy as np
import pytest

from tests.loadgen.driving import drive_open, read_request, run, serving, whole
from vlmhyperbench_loadgen.eventloop import EventLoop
from vlmhyperbench_loadgen.failures import PlanError
from vlmhyperbench_loadgen.openloop import SPIN_NS, ScheduledQueue, spin_for
from vlmhyperbench_loadgen.table import Request, read_schedule
from vlmhyperbench_loadgen.tries import Try
from vlmhyperbench_loadgen.usage import check_files, use_normal_scheduling, use_realtime_scheduling
from vlmhyperbench_simulated.server import start_server
from vlmhyperbench_simulated.simulation import Simulation

pytestmark = pytest.mark.anyio

MS = 1_000_000


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def test_requests_leave_at_their_instants_over_several_processes(tmp_path: Path) -> None:
    instants = [0.0, 20.0, 20.0, 45.0, 80.0, 80.5]
    async with await start_server(Simulation(record=True)) as server:
        driven = await drive_open(tmp_path, f"{server.url}/v1/chat/completions", instants_ms=instants, processes=2)
    rows = driven.rows
    first_ns = rows[0]["scheduled_ns"]
    assert isinstance(first_ns, int)
    assert [(row["scheduled_ns"] - first_ns) / MS for row in rows] == instants
    assert all(row["sent_ns"] >= row["scheduled_ns"] for row in rows)
    assert [row["status"] for row in rows] == ["ok"] * 6
    assert (driven.end.processes, driven.end.outcome) == (2, "complete")


async def test_every_process_sends_its_part_even_without_a_stream_at_the_start(tmp_path: Path) -> None:
    instants = [float(20 * number) for number in range(8)]
    async with await start_server(Simulation()) as server:
        driven = await drive_open(
            tmp_path,
            f"{server.url}/v1/chat/completions",
            instants_ms=instants,
            params={"in_flight": 1},
            processes=4,
        )
    assert driven.end.processes == 4
    assert {int(row["stream"]) % 4 for row in driven.rows} == {0, 1, 2, 3}
    assert driven.end.loop_busy_share is not None
    assert driven.end.loop_busy_share < 1


async def test_a_slow_server_holds_no_request_back(tmp_path: Path) -> None:
    asked, all_asked = 0, asyncio.Event()

    async def answer_when_all_have_asked(
        reader: asyncio.StreamReader, writer: asyncio.StreamWriter, number: int
    ) -> None:
        nonlocal asked
        await read_request(reader)
        asked += 1
        if asked == 20:
            all_asked.set()
        await all_asked.wait()
        writer.write(whole())

    async with serving(answer_when_all_have_asked) as url:
        driven = await drive_open(tmp_path, url, instants_ms=[float(number) for number in range(20)])
    assert [row["status"] for row in driven.rows] == ["ok"] * 20
    assert driven.end.idle_opened == 18


async def test_at_the_limit_of_streams_a_request_waits_and_its_wait_counts(tmp_path: Path) -> None:
    async with await start_server(Simulation(ttft_ms=100.0)) as server:
        driven = await drive_open(
            tmp_path,
            f"{server.url}/v1/chat/completions",
            instants_ms=[0.0, 0.0, 0.0, 250.0],
            params={"in_flight": 1, "max_in_flight": 1},
        )
    first, second, third, late = driven.rows
    assert second["sent_ns"] - second["scheduled_ns"] >= 100 * MS
    assert third["sent_ns"] - third["scheduled_ns"] >= 200 * MS
    assert first["stream"] == third["stream"] == late["stream"] == 0
    assert driven.end.idle_opened == 0


async def test_a_refusal_is_not_tried_again_and_the_next_one_leaves(tmp_path: Path) -> None:
    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, number: int) -> None:
        while True:
            await read_request(reader)
            writer.write(whole(status="503 Busy"))

    async with serving(refuse) as url:
        driven = await drive_open(tmp_path, url, instants_ms=[0.0, 5.0, 10.0])
    assert [(row["http_status"], row["tries"]) for row in driven.rows] == [(503, 1)] * 3


async def test_a_server_that_closes_every_connection_gets_a_new_one(tmp_path: Path) -> None:
    async def answer_once(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, number: int) -> None:
        await read_request(reader)
        writer.write(whole(headers="Connection: close\r\n"))

    async with serving(answer_once) as url:
        driven = await drive_open(tmp_path, url, instants_ms=[0.0, 30.0, 60.0, 90.0])
    assert [row["status"] for row in driven.rows] == ["ok"] * 4


def _request(ordinal: int) -> Request:
    return Request(1, ordinal, ordinal, 0, 0, 0, -1, 0, 0, 0, -1, -1, b"")


def test_nothing_is_given_before_its_instant() -> None:
    work = ScheduledQueue([_request(0), _request(1)], [10, 20], report=lambda *_: None)
    assert work.take(0, 9) is None
    assert work.idle == [0]
    assert work.take(0, 25) == Try(request=_request(0), number=1, scheduled_ns=10, stream=0)
    assert work.take(1, 25) == Try(request=_request(1), number=1, scheduled_ns=20, stream=1)
    assert (work.take(2, 99), work.next_ns, work.idle) == (None, None, [0, 2])


def test_when_nobody_waits_any_more_the_clock_goes_on() -> None:
    resumed: list[bool] = []
    work = ScheduledQueue([_request(number) for number in range(3)], [10, 20, 90], report=lambda *_: None)
    work.resumed = lambda: resumed.append(True)
    work.is_waiting = True
    work.take(0, 30)
    assert (resumed, work.is_waiting) == ([], True)
    work.take(0, 31)
    assert (resumed, work.is_waiting) == ([True], False)


@pytest.mark.parametrize(
    ("instants_ms", "spin_ns"), [([], 0), ([0], 0), (list(range(0, 5000, 5)), SPIN_NS), (list(range(100)), 0)]
)
def test_a_loop_spins_before_its_instants_where_that_is_cheap(instants_ms: list[int], spin_ns: int) -> None:
    assert spin_for([instant * MS for instant in instants_ms]) == spin_ns


class Woken:
    """Notes when it was woken."""

    def __init__(self) -> None:
        self.deadline_ns = self.armed_ns = self.woken_ns = 0

    def due(self, now_ns: int) -> None:
        self.woken_ns = now_ns


def test_who_is_woken_ahead_still_never_comes_early() -> None:
    loop = EventLoop()
    loop.spin_ns = SPIN_NS
    for wait_ns in (0, SPIN_NS // 2, 3 * MS):
        woken = Woken()
        due_ns = time.monotonic_ns() + wait_ns
        loop.wake_at(woken, due_ns)
        while not woken.woken_ns:
            loop.step(waits=True)
        assert woken.woken_ns >= due_ns
    loop.close()


def test_going_first_is_said_and_ends() -> None:
    before = os.sched_getscheduler(0)
    is_realtime = use_realtime_scheduling()
    assert (os.sched_getscheduler(0) == os.SCHED_RR) is is_realtime
    if is_realtime:
        use_normal_scheduling()
    assert os.sched_getscheduler(0) == before


@pytest.mark.parametrize(
    ("instants", "message"),
    [
        (np.array([2, 1]), "do not ascend"),
        (np.array([-1]), "do not ascend"),
        (np.array([1.0]), "not an array of int64"),
        (np.array([[1]]), "not a one-dimensional array"),
    ],
)
def test_a_schedule_that_is_none_is_refused(tmp_path: Path, instants: np.ndarray, message: str) -> None:
    np.save(tmp_path / "schedule-1.npy", instants)
    with pytest.raises(PlanError, match=message):
        read_schedule(tmp_path / "schedule-1.npy")


async def test_a_schedule_of_another_length_ends_it_before_the_clock_starts(tmp_path: Path) -> None:
    async with await start_server(Simulation()) as server:
        await drive_open(tmp_path / "first", f"{server.url}/v1/chat/completions", instants_ms=[0.0])
        np.save(tmp_path / "first" / "plan" / "schedule-1.npy", np.array([1, 2]))
        (tmp_path / "second").mkdir()
        (tmp_path / "first" / "plan").rename(tmp_path / "second" / "plan")
        driven = await run(tmp_path / "second")
    assert driven.end.error == "schedule-1.npy has 2 instants for 1 requests."


def test_too_few_files_are_named_before_the_clock_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (100, 100))
    check_files(36)
    with pytest.raises(PlanError, match="37 streams of a process need 101 open files, and the system allows 100"):
        check_files(37)
