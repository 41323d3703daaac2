"""Details of runs on the live feed: only to who asks for them, bounded, with the last lines for who comes late."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any
from uuid import UUID, uuid4

import pytest
from websockets.asyncio.client import ClientConnection, connect

from tests.api.conftest import Served
from tests.support.builders import add_run
from tests.support.processes import PATIENCE_S, eventually
from vlmhyperbench.bus import (
    Bus,
    DetailKind,
    DoneSample,
    LinesLogged,
    LogLine,
    ResourcesSampled,
    SamplesDone,
)
from vlmhyperbench.db import events
from vlmhyperbench.wire.live import LiveLine, LiveLines, LiveResources, LiveSample, LiveSamples, Resources
from vlmhyperbench_api.details import merge

pytestmark = pytest.mark.anyio

CLAIM = uuid4()


@pytest.fixture
async def bus(redis_url: str) -> AsyncIterator[Bus]:
    opened = Bus(redis_url)
    yield opened
    await opened.close()


async def _add_run(api: Served) -> UUID:
    async with api.database.transaction() as session:
        return (await add_run(session)).id


async def _follow(api: Served, run_id: UUID, *kinds: str) -> ClientConnection:
    socket = await connect(api.live_url, additional_headers={"X-API-Key": api.key}, proxy=None)
    await socket.send(json.dumps({"subscribe": [{"stream": str(run_id), "since": 1, "with": kinds}]}))
    assert (await _next(socket))["type"] == "snapshot"
    return socket


async def _next(socket: ClientConnection, kind: str | None = None) -> dict[str, Any]:
    async with asyncio.timeout(PATIENCE_S):
        while True:
            message: dict[str, Any] = json.loads(await socket.recv())
            if kind is None or message["type"] == kind:
                return message


async def _until_heard(bus: Bus, run_id: UUID, kind: DetailKind, count: int = 1) -> None:
    async def is_heard() -> bool:
        return (await bus.listeners(run_id)).get(kind, 0) == count

    await eventually(is_heard, f"{count} processes listen to {kind}")


def _lines(run_id: UUID, *numbers: int) -> LinesLogged:
    lines = [LogLine(source="engine", no=no, text=f"line {no}") for no in numbers]
    return LinesLogged(run_id=run_id, claim_id=CLAIM, lines=lines)


async def test_samples_resources_and_lines_arrive_where_they_are_asked_for(api: Served, bus: Bus) -> None:
    run_id = await _add_run(api)
    sample = DoneSample(key="page-7", phase=2, ordinal=7, status="ok", latency_ms=12.5)
    async with await _follow(api, run_id, "samples", "resources", "logs") as socket:
        for kind in ("samples", "resources", "logs"):
            await _until_heard(bus, run_id, kind)
        await bus.publish_detail(SamplesDone(run_id=run_id, samples=[sample], left_out=3))
        shown = await _next(socket, "samples")
        assert (shown["samples"][0]["key"], shown["samples"][0]["latency_ms"], shown["left_out"]) == ("page-7", 12.5, 3)
        used = Resources(cpu_util_percent=40, memory_used_bytes=7)
        await bus.publish_detail(ResourcesSampled(run_id=run_id, at=datetime.now(UTC), resources=used))
        assert (await _next(socket, "resources"))["resources"]["cpu_util_percent"] == 40
        await bus.publish_detail(_lines(run_id, 0, 1))
        assert [line["text"] for line in (await _next(socket, "logs"))["lines"]] == ["line 0", "line 1"]


async def test_nobody_listens_once_the_last_client_has_gone_or_asks_for_less(api: Served, bus: Bus) -> None:
    run_id = await _add_run(api)
    assert await bus.listeners(run_id) == {}
    async with await _follow(api, run_id, "logs") as socket:
        await _until_heard(bus, run_id, "logs")
        assert set(await bus.listeners(run_id)) == {"logs"}
        await socket.send(json.dumps({"subscribe": [{"stream": str(run_id), "since": 1, "with": ["samples"]}]}))
        await _until_heard(bus, run_id, "samples")
        await _until_heard(bus, run_id, "logs", 0)
    await _until_heard(bus, run_id, "samples", 0)


async def test_a_late_client_gets_the_last_lines_once_and_no_line_is_doubled(api: Served, bus: Bus) -> None:
    run_id = await _add_run(api)
    async with await _follow(api, run_id, "logs") as first:
        await _until_heard(bus, run_id, "logs")
        await bus.publish_detail(_lines(run_id, 0, 1, 2))
        assert len((await _next(first, "logs"))["lines"]) == 3
        async with await _follow(api, run_id, "logs") as late:
            assert [line["text"] for line in (await _next(late, "logs"))["lines"]] == ["line 0", "line 1", "line 2"]
            await bus.publish_detail(_lines(run_id, 1, 2, 3))  # a worker repeats lines for the listeners of others
            for socket in (first, late):
                assert [line["text"] for line in (await _next(socket, "logs"))["lines"]] == ["line 3"]


async def test_a_client_that_asks_for_no_details_gets_none(api: Served, bus: Bus) -> None:
    run_id = await _add_run(api)
    async with await _follow(api, run_id, "logs") as asking, await _follow(api, run_id) as other:
        await _until_heard(bus, run_id, "logs")
        await bus.publish_detail(_lines(run_id, 0))
        await _next(asking, "logs")
        async with api.database.transaction() as session:
            seq = await events.append(session, stream_id=run_id, type="alert.raised", data={})
        await bus.publish(run_id, seq)
        got = [(await _next(other))["type"]]
        while got[-1] != "event":
            got.append((await _next(other))["type"])
        assert "logs" not in got


async def test_an_unknown_kind_of_details_ends_the_connection(api: Served) -> None:
    run_id = await _add_run(api)
    async with connect(api.live_url, additional_headers={"X-API-Key": api.key}, proxy=None) as socket:
        await socket.send(json.dumps({"subscribe": [{"stream": str(run_id), "with": ["secrets"]}]}))
        await socket.wait_closed()
        assert socket.close_code == 4400


def _sample(ordinal: int) -> LiveSample:
    return LiveSample(key=str(ordinal), phase=1, ordinal=ordinal, status="ok")


def test_what_waits_for_a_slow_client_is_bounded_and_counted() -> None:
    run_id, waiting = uuid4(), None
    for no in range(10):
        waiting = merge(waiting, LiveSamples(stream=run_id, samples=[_sample(no)], left_out=1), limit=4)
    assert isinstance(waiting, LiveSamples)
    assert ([sample.ordinal for sample in waiting.samples], waiting.left_out) == ([6, 7, 8, 9], 16)
    logged = None
    for no in range(6):
        line = LiveLine(source="engine", text=str(no))
        logged = merge(logged, LiveLines(stream=run_id, lines=[line]), limit=4)
    assert isinstance(logged, LiveLines)
    assert ([line.text for line in logged.lines], logged.left_out) == (["2", "3", "4", "5"], 2)


def test_of_resources_only_the_newest_waits() -> None:
    run_id = uuid4()
    first, second = (
        LiveResources(
            stream=run_id, at=datetime.now(UTC), resources=Resources(cpu_util_percent=percent, memory_used_bytes=1)
        )
        for percent in (1, 2)
    )
    assert merge(first, second) is second
