"""Retuning: the number of requests in flight of a closed loop changes while it runs, and no row is lost or doubled."""

from __future__ import annotations

import asyncio
from collections import deque
from pathlib import Path

import pytest

from tests.loadgen.driving import Driven, chat_body, read_request, serving, streamed, whole, write, write_phases
from tests.support.processes import PATIENCE_S
from vlmhyperbench.load.process import LoadProcess
from vlmhyperbench_sdk.load import Endpoint, LoadLimits, PhaseKind, PhasePlan

pytestmark = pytest.mark.anyio

TOTAL = 400


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class Gate:
    """A server that answers the request that waits longest when the test says so."""

    def __init__(self, answer: bytes) -> None:
        self.peak = 0
        self._answer = answer
        self._is_open = False
        self._held: deque[asyncio.Event] = deque()
        self._came = asyncio.Event()

    @property
    def waiting(self) -> int:
        """Number of requests that wait for their answers."""
        return len(self._held)

    async def answering(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, _number: int) -> None:
        while True:
            await read_request(reader)
            if not self._is_open:
                answered = asyncio.Event()
                self._held.append(answered)
                self.peak = max(self.peak, self.waiting)
                self._came.set()
                await answered.wait()
            writer.write(self._answer)

    async def until_waiting(self, count: int) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while self.waiting < count:
                self._came.clear()
                await self._came.wait()

    async def let_pass(self, count: int) -> None:
        """Answer this many requests."""
        for _ in range(count):
            await self.until_waiting(1)
            self._held.popleft().set()

    async def until_settled(self, count: int) -> None:
        """Answer one request at a time until a lower number of requests in flight has taken effect, and stays."""
        checks = 0
        while checks < 20 or self.waiting != count:
            await asyncio.sleep(0.02)
            checks = checks + 1 if self.waiting <= count else 0
            if self.waiting > count:
                await self.let_pass(1)

    def open(self) -> None:
        """Answer every request at once from now on."""
        self._is_open = True
        while self._held:
            self._held.popleft().set()


async def _finish(process: LoadProcess, tmp_path: Path) -> Driven:
    lines = [line async for line in process.lines()]
    await process.wait()
    return Driven(lines=lines, folder=tmp_path / "record")


@pytest.mark.parametrize("answer", [whole(), streamed("ok")], ids=["whole", "streamed"])
async def test_streams_are_added_and_drained_while_a_closed_loop_runs(tmp_path: Path, answer: bytes) -> None:
    gate = Gate(answer)
    async with serving(gate.answering) as url:
        write(tmp_path / "plan", url, bodies=[chat_body(n) for n in range(TOTAL)], in_flight=2)
        process = await LoadProcess.start(tmp_path / "plan", tmp_path / "record")
        await process.ready()
        await gate.until_waiting(2)
        await process.retune(7)
        await gate.until_waiting(7)
        await process.retune(3)
        await gate.until_settled(3)
        await process.retune(5)
        await gate.until_waiting(5)
        assert gate.peak == 7
        gate.open()
        driven = await _finish(process, tmp_path)
    assert [row["ordinal"] for row in driven.rows] == list(range(TOTAL))
    assert {row["status"] for row in driven.rows} == {"ok"}
    assert driven.phases == [(1, "OPEN"), (1, "COMPLETE")]
    assert {row["stream"] for row in driven.rows} == set(range(7))


async def test_a_line_before_the_start_holds_from_the_first_phase_that_may_be_changed(tmp_path: Path) -> None:
    gate = Gate(whole())
    async with serving(gate.answering) as url:
        phases = [
            PhasePlan(no=1, kind="warmup", count=6, params={"in_flight": 2}),
            PhasePlan(no=2, kind="accuracy", count=12, params={"in_flight": 2}),
        ]
        bodies = [chat_body(n) for n in range(18)]
        write_phases(tmp_path / "plan", Endpoint(url=url), *phases, bodies=bodies)
        process = await LoadProcess.start(tmp_path / "plan", tmp_path / "record")
        await process.retune(4)
        await process.ready()
        await gate.until_waiting(2)
        await gate.let_pass(6)
        await gate.until_waiting(4)
        gate.open()
        driven = await _finish(process, tmp_path)
    assert [row["ordinal"] for row in driven.rows] == list(range(18))


@pytest.mark.parametrize("kind", ["multi_stream", "warmup"])
async def test_a_timed_phase_keeps_its_streams(tmp_path: Path, kind: PhaseKind) -> None:
    gate = Gate(whole())
    async with serving(gate.answering) as url:
        write(tmp_path / "plan", url, bodies=[chat_body(n) for n in range(20)], in_flight=2, kind=kind)
        process = await LoadProcess.start(tmp_path / "plan", tmp_path / "record")
        await process.ready()
        await gate.until_waiting(2)
        await process.retune(9)
        await gate.let_pass(10)
        await gate.until_waiting(2)
        gate.open()
        driven = await _finish(process, tmp_path)
    assert gate.peak == 2
    assert len(driven.rows) == 20


async def test_each_measuring_process_keeps_a_stream(tmp_path: Path) -> None:
    gate = Gate(whole())
    async with serving(gate.answering) as url:
        bodies = [chat_body(n) for n in range(TOTAL)]
        write(tmp_path / "plan", url, bodies=bodies, in_flight=6, processes=3)
        process = await LoadProcess.start(tmp_path / "plan", tmp_path / "record")
        await process.ready()
        await gate.until_waiting(6)
        await process.retune(1)
        await gate.until_settled(3)
        gate.open()
        driven = await _finish(process, tmp_path)
    assert [row["ordinal"] for row in driven.rows] == list(range(TOTAL))


async def test_a_request_that_will_be_retried_is_not_lost_with_its_stream(tmp_path: Path) -> None:
    failed = asyncio.Event()
    answered = asyncio.Event()
    tries = 0

    async def answering(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, number: int) -> None:
        nonlocal tries
        while True:
            await read_request(reader)
            if number == 1:
                tries += 1
                writer.write(whole(status="503 Service Unavailable", headers="Retry-After: 1\r\n"))
                failed.set()
            else:
                await failed.wait()
                writer.write(whole())
                answered.set()

    async with serving(answering) as url:
        limits = LoadLimits(request_timeout_s=60.0, tries=5)
        write(tmp_path / "plan", url, bodies=[chat_body(n) for n in range(2)], in_flight=2, limits=limits)
        process = await LoadProcess.start(tmp_path / "plan", tmp_path / "record")
        await process.ready()
        await answered.wait()
        await process.retune(1)
        driven = await _finish(process, tmp_path)
    assert sorted(row["tries"] for row in driven.rows) == [1, 2]
    assert {row["status"] for row in driven.rows} == {"ok"}


@pytest.mark.parametrize("in_flight", [0, -1, 65_537])
async def test_a_line_with_an_impossible_number_ends_the_load(tmp_path: Path, in_flight: int) -> None:
    gate = Gate(whole())
    async with serving(gate.answering) as url:
        write(tmp_path / "plan", url, bodies=[chat_body(n) for n in range(4)])
        process = await LoadProcess.start(tmp_path / "plan", tmp_path / "record")
        await process.retune(in_flight)
        await process.ready()
        lines = [line async for line in process.lines()]
        end = await process.wait()
    assert lines[-1] == end
    assert end.outcome == "failed"
