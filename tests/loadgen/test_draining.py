"""Draining: no further request is sent, and all sent requests are answered, so the rows are the first of the table."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.loadgen.driving import Driven, chat_body, read_request, serving, whole, write
from vlmhyperbench.load.process import Line, LoadProcess
from vlmhyperbench_sdk.load import ProgressLine

pytestmark = pytest.mark.anyio

TOTAL = 5_000


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def test_after_draining_the_slowest_answer_is_awaited_and_no_request_is_sent(tmp_path: Path) -> None:
    enough, release = asyncio.Event(), asyncio.Event()
    answered = 0

    async def answering(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, number: int) -> None:
        nonlocal answered
        while True:
            await read_request(reader)
            if number == 0:
                await release.wait()
            writer.write(whole())
            answered += 1
            if answered >= 40:
                enough.set()

    async with serving(answering) as url:
        write(tmp_path / "plan", url, bodies=[chat_body(n) for n in range(TOTAL)], in_flight=4)
        process = await LoadProcess.start(tmp_path / "plan", tmp_path / "record")
        await process.ready()
        await enough.wait()
        await process.drain()
        lines: list[Line] = []
        async for line in process.lines():
            lines.append(line)
            if isinstance(line, ProgressLine) and line.in_flight == 1:
                release.set()
        end = await process.wait()
    driven = Driven(lines=lines, folder=tmp_path / "record")
    assert (end.outcome, end.error) == ("cancelled", None)
    assert driven.phases == [(1, "OPEN")]
    assert [row["ordinal"] for row in driven.rows] == list(range(answered))
    assert {row["status"] for row in driven.rows} == {"ok"}
    assert 40 <= answered < TOTAL


async def test_draining_before_the_start_sends_no_request(tmp_path: Path) -> None:
    async def answering(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, _number: int) -> None:
        await read_request(reader)
        writer.write(whole())

    async with serving(answering) as url:
        write(tmp_path / "plan", url, bodies=[chat_body(n) for n in range(3)])
        process = await LoadProcess.start(tmp_path / "plan", tmp_path / "record")
        await process.drain()
        await process.ready()
        lines = [line async for line in process.lines()]
        end = await process.wait()
    assert end.outcome == "cancelled"
    assert Driven(lines=lines, folder=tmp_path / "record").segments == []
