"""Open loops: every request is sent at its instant or counts from it, and no answer delays the next request."""

from __future__ import annotations

import asyncio
import os
import resource
import time
from pathlib import Path

import numpy as np
import pytest

from tests.loadgen.driving import drive_open, read_request, run, serving, whole
from tests.support.wording import Wording
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


async def test_several_processes_send_requests_at_their_instants(tmp_path: Path) -> None:
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


async def test_a_process_without_a_stream_at_the_start_sends_its_share(tmp_path: Path) -> None:
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


async def test_a_slow_server_delays_no_request(tmp_path: Path) -> None:
    received, all_received = 0, asyncio.Event()

    async def answer_after_the_last_request(
        reader: asyncio.StreamReader, writer: asyncio.StreamWriter, number: int
    ) -> None:
        nonlocal received
        await read_request(reader)
        received += 1
        if received == 20:
            all_received.set()
        await all_received.wait()
        writer.write(whole())

    async with serving(answer_after_the_last_request) as url:
        driven = await drive_open(tmp_path, url, instants_ms=[float(number) for number in range(20)])
    assert [row["status"] for row in driven.rows] == ["ok"] * 20
    assert driven.end.idle_opened == 18


async def test_at_the_limit_of_streams_a_request_waits_and_counts_from_its_instant(tmp_path: Path) -> None:
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


async def test_a_refusal_is_not_retried_and_the_next_request_is_sent(tmp_path: Path) -> None:
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


def test_no_request_is_taken_before_its_instant() -> None:
    queue = ScheduledQueue([_request(0), _request(1)], [10, 20], report=lambda *_: None)
    assert queue.take(0, 9) is None
    assert queue.idle == [0]
    assert queue.take(0, 25) == Try(request=_request(0), number=1, scheduled_ns=10, stream=0)
    assert queue.take(1, 25) == Try(request=_request(1), number=1, scheduled_ns=20, stream=1)
    assert (queue.take(2, 99), queue.next_ns, queue.idle) == (None, None, [0, 2])


def test_the_timer_is_set_again_when_the_last_waiting_request_is_taken() -> None:
    resumed: list[bool] = []
    queue = ScheduledQueue([_request(number) for number in range(3)], [10, 20, 90], report=lambda *_: None)
    queue.resumed = lambda: resumed.append(True)
    queue.is_waiting = True
    queue.take(0, 30)
    assert (resumed, queue.is_waiting) == ([], True)
    queue.take(0, 31)
    assert (resumed, queue.is_waiting) == ([True], False)


@pytest.mark.parametrize(
    ("instants_ms", "spin_ns"), [([], 0), ([0], 0), (list(range(0, 5000, 5)), SPIN_NS), (list(range(100)), 0)]
)
def test_a_loop_spins_before_its_instants_up_to_a_share_of_the_time(instants_ms: list[int], spin_ns: int) -> None:
    assert spin_for([instant * MS for instant in instants_ms]) == spin_ns


class RecordingSleeper:
    """Records when it was called."""

    def __init__(self) -> None:
        self.deadline_ns = self.armed_ns = self.called_ns = 0

    def due(self, now_ns: int) -> None:
        self.called_ns = now_ns


def test_a_loop_that_spins_calls_no_sleeper_before_its_deadline() -> None:
    loop = EventLoop()
    loop.spin_ns = SPIN_NS
    for wait_ns in (0, SPIN_NS // 2, 3 * MS):
        sleeper = RecordingSleeper()
        due_ns = time.monotonic_ns() + wait_ns
        loop.wake_at(sleeper, due_ns)
        while not sleeper.called_ns:
            loop.step(waits=True)
        assert sleeper.called_ns >= due_ns
    loop.close()


def test_real_time_scheduling_is_reported_and_ends() -> None:
    before = os.sched_getscheduler(0)
    is_realtime = use_realtime_scheduling()
    assert (os.sched_getscheduler(0) == os.SCHED_RR) is is_realtime
    if is_realtime:
        use_normal_scheduling()
    assert os.sched_getscheduler(0) == before


@pytest.mark.parametrize(
    "instants",
    [
        pytest.param(np.array([2, 1]), id="descending"),
        pytest.param(np.array([-1]), id="negative"),
        pytest.param(np.array([1.0]), id="floats"),
        pytest.param(np.array([[1]]), id="two dimensions"),
    ],
)
def test_a_malformed_schedule_is_refused(tmp_path: Path, instants: np.ndarray, wording: Wording) -> None:
    np.save(tmp_path / "schedule-1.npy", instants)
    with pytest.raises(PlanError) as refused:
        read_schedule(tmp_path / "schedule-1.npy")
    wording(refused.value)


async def test_with_a_schedule_of_another_length_no_phase_starts(tmp_path: Path, wording: Wording) -> None:
    async with await start_server(Simulation()) as server:
        await drive_open(tmp_path / "first", f"{server.url}/v1/chat/completions", instants_ms=[0.0])
        np.save(tmp_path / "first" / "plan" / "schedule-1.npy", np.array([1, 2]))
        (tmp_path / "second").mkdir()
        (tmp_path / "first" / "plan").rename(tmp_path / "second" / "plan")
        driven = await run(tmp_path / "second")
    assert (driven.end.outcome, driven.phases) == ("failed", [])
    wording(driven.end.error)


def test_too_few_open_files_are_refused_with_a_cure(monkeypatch: pytest.MonkeyPatch, wording: Wording) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (100, 100))
    check_files(36)
    with pytest.raises(PlanError) as refused:
        check_files(37)
    wording(refused.value)
