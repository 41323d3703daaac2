"""The process: its lines, its end by a cancel line, by signals and by the death of a part, and what it refuses."""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import json
import os
import select
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import polars as pl
import pytest

from tests.loadgen.driving import (
    Answering,
    Driven,
    chat_body,
    drive,
    read_request,
    run,
    serving,
    whole,
    write,
    write_phases,
)
from tests.support.processes import PATIENCE_S
from tests.support.wording import Wording
from vlmhyperbench.load.process import LoadProcess
from vlmhyperbench_sdk.errors import Unavailable
from vlmhyperbench_sdk.load import (
    RECORD_COLUMNS,
    SEGMENT_ROWS,
    Endpoint,
    PhaseLine,
    PhasePlan,
    SegmentLine,
)
from vlmhyperbench_simulated.server import start_server
from vlmhyperbench_simulated.simulation import Simulation

pytestmark = pytest.mark.anyio

INSTANT = Simulation()
SLOW = Simulation(ttft_ms=3_600_000.0)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def test_every_request_is_recorded_once_over_several_processes(tmp_path: Path) -> None:
    total = 2 * SEGMENT_ROWS + 100
    async with await start_server(INSTANT) as server:
        driven = await drive(
            tmp_path,
            f"{server.url}/v1/chat/completions",
            bodies=[chat_body(number) for number in range(total)],
            in_flight=5,
            processes=2,
        )
        connections = server.connections
    assert driven.end.outcome == "complete"
    assert driven.end.processes == 2
    assert [row["ordinal"] for row in driven.rows] == list(range(total))
    # One process has three streams, the other two; every stream has equally many requests.
    assert Counter(row["stream"] % 2 for row in driven.rows) == {0: total * 3 // 5 + 1, 1: total * 2 // 5}
    assert connections == 5
    assert [line.rows for line in driven.segments] == [SEGMENT_ROWS, SEGMENT_ROWS, 100]
    assert driven.phases == [(1, "OPEN"), (1, "COMPLETE")]
    assert driven.end.startup_s > 0
    assert driven.end.peak_rss_bytes > 10_000_000
    assert driven.end.resent == 0


async def test_segments_have_the_columns_of_the_contract_and_the_hash_of_their_line(tmp_path: Path) -> None:
    async with await start_server(INSTANT) as server:
        driven = await drive(tmp_path, f"{server.url}/v1/chat/completions", bodies=[chat_body()])
    (segment,) = driven.segments
    path = driven.folder / segment.segment
    assert hashlib.sha256(path.read_bytes()).hexdigest() == segment.sha256
    frame = pl.read_parquet(path)
    kinds = {"i4": pl.Int32(), "i8": pl.Int64(), "str": pl.String()}
    for name, kind in RECORD_COLUMNS.items():
        plain = kinds[kind.removesuffix("[]").removesuffix("?")]
        assert frame.schema[name] == (pl.List(plain) if kind.endswith("[]") else plain)
    assert list(frame.columns) == list(RECORD_COLUMNS)


async def test_a_single_stream_has_one_request_at_a_time(tmp_path: Path) -> None:
    in_flight, max_in_flight = 0, 0

    async def count(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, number: int) -> None:
        nonlocal in_flight, max_in_flight
        while True:
            await read_request(reader)
            in_flight += 1
            max_in_flight = max(max_in_flight, in_flight)
            await asyncio.sleep(0)
            in_flight -= 1
            writer.write(whole())

    async with serving(count) as url:
        driven = await drive(tmp_path, url, bodies=[chat_body()] * 20, kind="single_stream", in_flight=9)
    assert max_in_flight == 1
    rows = driven.rows
    for before, after in itertools.pairwise(rows):
        assert after["scheduled_ns"] == before["stream_end_ns"]


async def test_phases_follow_each_other_on_the_same_connections(tmp_path: Path) -> None:
    async with await start_server(INSTANT) as server:
        write_phases(
            tmp_path / "plan",
            Endpoint(url=f"{server.url}/v1/chat/completions"),
            PhasePlan(no=0, kind="warmup", count=2, params={"in_flight": 3}),
            PhasePlan(no=1, kind="accuracy", count=3, params={"in_flight": 3}),
            bodies=[chat_body(number) for number in range(5)],
        )
        driven = await run(tmp_path)
        assert server.connections == 3
    assert driven.phases == [(0, "OPEN"), (0, "COMPLETE"), (1, "OPEN"), (1, "COMPLETE")]
    assert [(row["phase"], row["ordinal"]) for row in driven.rows] == [(0, 0), (0, 1), (1, 2), (1, 3), (1, 4)]
    assert [line.segment for line in driven.segments] == ["0-0.parquet", "1-0.parquet"]


async def test_a_phase_with_fewer_streams_than_processes_is_driven(tmp_path: Path) -> None:
    async with await start_server(INSTANT) as server:
        write_phases(
            tmp_path / "plan",
            Endpoint(url=f"{server.url}/v1/chat/completions"),
            PhasePlan(no=0, kind="baseline", count=5, params={"in_flight": 1}),
            PhasePlan(no=1, kind="offline", count=4, params={"in_flight": 2}),
            bodies=[chat_body(number) for number in range(9)],
            processes=2,
        )
        driven = await run(tmp_path)
    assert driven.end.processes == 2
    assert [(row["phase"], row["stream"]) for row in driven.rows[:5]] == [(0, 0)] * 5
    assert len(driven.rows) == 9


async def test_a_unix_socket_is_measured(tmp_path: Path) -> None:
    async with await start_server(INSTANT, unix_socket=str(tmp_path / "s")):
        driven = await drive(
            tmp_path, "http://engine/v1/chat/completions", bodies=[chat_body()], unix_socket=str(tmp_path / "s")
        )
    assert [row["status"] for row in driven.rows] == ["ok"]


async def test_secrets_are_sent_and_never_recorded(tmp_path: Path) -> None:
    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, number: int) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        line = next(line for line in head.split(b"\r\n") if line.startswith(b"Authorization"))
        body = json.dumps({"error": {"message": f"wrong key: {line.decode()}"}}).encode()
        writer.write(b"HTTP/1.1 401 Denied\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))
        await writer.drain()

    async with serving(echo) as url:
        driven = await drive(
            tmp_path,
            url,
            bodies=[chat_body()],
            headers={"Authorization": "key"},
            secrets={"key": "Bearer sk-very-secret"},
        )
    assert [row["error"] for row in driven.rows] == ["http_401: wrong key: Authorization: ********"]
    assert not _files_with(tmp_path, b"sk-very-secret")


async def test_a_missing_secret_is_named(tmp_path: Path, wording: Wording) -> None:
    driven = await drive(tmp_path, "http://127.0.0.1:9/", bodies=[chat_body()], headers={"Authorization": "key"})
    assert driven.end.outcome == "failed"
    wording(driven.end.error)


async def _start_slow(tmp_path: Path, url: str, *, fast: int) -> LoadProcess:
    """Start a plan of which the server answers only the first `fast` requests."""
    write(tmp_path / "plan", url, bodies=[chat_body(number) for number in range(fast + 2)], in_flight=2)
    process = await LoadProcess.start(tmp_path / "plan", tmp_path / "record")
    await process.ready()
    return process


def _answer_first(fast: int) -> tuple[asyncio.Event, Answering]:
    done = asyncio.Event()
    answered = 0
    waiting = 0

    async def answering(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, number: int) -> None:
        nonlocal answered, waiting
        while True:
            await read_request(reader)
            if answered == fast:
                waiting += 1
                if waiting == 2:
                    done.set()
                await reader.read()
                return
            answered += 1
            writer.write(whole())

    return done, answering


@pytest.mark.parametrize("how", ["cancel", "SIGTERM", "SIGINT"])
async def test_finished_requests_are_recorded_if_the_load_is_ended(tmp_path: Path, how: str) -> None:
    stuck, answering = _answer_first(300)
    async with serving(answering) as url:
        process = await _start_slow(tmp_path, url, fast=300)
        await stuck.wait()
        if how == "cancel":
            await process.cancel()
        else:
            os.kill(process.pid, signal.Signals[how])
        lines = [line async for line in process.lines()]
        end = await process.wait()
    driven = Driven(lines=lines, folder=tmp_path / "record")
    assert (end.outcome, end.error) == ("cancelled", None)
    # The costs of the measurement are reported even if the phase was cut short.
    assert end.measuring_cpu_s is not None
    assert len(driven.rows) == 300
    assert driven.phases == [(1, "OPEN")]
    assert _group_is_gone(process.pid)


HEAVY = ("numpy", "polars", "pyarrow", "scipy")
"""Packages that map libraries of their own when they are imported."""


async def test_the_measuring_process_loads_no_heavy_package(tmp_path: Path) -> None:
    stuck, answering = _answer_first(300)
    async with serving(answering) as url:
        process = await _start_slow(tmp_path, url, fast=300)
        await stuck.wait()
        loaded = _heavy_of(_measuring_child(process.pid))
        await process.cancel()
        await process.wait()
    assert loaded == set()
    assert {"numpy", "polars"} <= _heavy_of(os.getpid())


async def test_a_load_can_be_cancelled_before_its_plan_is_written(tmp_path: Path) -> None:
    process = await LoadProcess.start(tmp_path / "plan", tmp_path / "record")
    await process.cancel()
    assert (await process.wait()).outcome == "cancelled"


async def test_after_a_measuring_process_was_killed_the_sealed_segments_stay(tmp_path: Path) -> None:
    stuck, answering = _answer_first(300)
    async with serving(answering) as url:
        process = await _start_slow(tmp_path, url, fast=300)
        await stuck.wait()
        lines = []
        async for line in process.lines():
            lines.append(line)
            if isinstance(line, SegmentLine) and line.segment == "1-0.parquet":
                os.kill(_measuring_child(process.pid), signal.SIGKILL)
        end = await process.wait()
    driven = Driven(lines=lines, folder=tmp_path / "record")
    assert end.outcome == "failed"
    assert "SIGKILL" in str(end.error)
    assert len(driven.rows) >= 256
    assert all(row["status"] == "ok" for row in driven.rows)
    assert _group_is_gone(process.pid)


async def test_the_measuring_process_ends_with_a_killed_parent(tmp_path: Path) -> None:
    async with await start_server(SLOW) as server:
        process = await _start_slow(tmp_path, f"{server.url}/v1/chat/completions", fast=0)
        async for line in process.lines():
            if isinstance(line, PhaseLine):
                break
        child = os.pidfd_open(_measuring_child(process.pid))
        os.kill(process.pid, signal.SIGKILL)
        await asyncio.to_thread(_wait_for, child)
        with pytest.raises(Unavailable, match="status -9"):
            await process.wait()
        await process.stop()


LIMITED = """
import resource, runpy, signal, sys
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
runpy.run_module("vlmhyperbench_loadgen", run_name="__main__")
"""
"""A load generator that may write files of at most 100 bytes."""


async def test_a_full_disk_is_a_failure(tmp_path: Path, wording: Wording) -> None:
    async with await start_server(INSTANT) as server:
        write(tmp_path / "plan", f"{server.url}/v1/chat/completions", bodies=[chat_body()] * 300)
        argv = [sys.executable, "-c", LIMITED, str(tmp_path / "plan"), str(tmp_path / "record")]
        done = await _communicate(argv, b'{"event": "ready"}\n')
    end = json.loads(done.stdout.splitlines()[-1])
    assert (end["outcome"], done.returncode) == ("failed", 1)
    wording(end["error"])
    assert list((tmp_path / "record").iterdir()) == []


@pytest.mark.parametrize("given", [b"", b"hello\n", b"[]\n", b'{"event": "go"}\n', b'{"event": "ready"}\n'])
async def test_wrong_input_on_stdin_is_refused(tmp_path: Path, given: bytes, wording: Wording) -> None:
    argv = [sys.executable, "-m", "vlmhyperbench_loadgen", str(tmp_path / "plan"), str(tmp_path / "record")]
    done = await _communicate(argv, given)
    end = json.loads(done.stdout.splitlines()[-1])
    assert (end["event"], end["outcome"], done.returncode) == ("end", "failed", 1)
    wording(end["error"])


async def test_a_record_is_never_overwritten(tmp_path: Path, wording: Wording) -> None:
    async with await start_server(INSTANT) as server:
        url = f"{server.url}/v1/chat/completions"
        await drive(tmp_path, url, bodies=[chat_body()])
        second = await drive(tmp_path, url, bodies=[chat_body()])
    assert second.end.outcome == "failed"
    wording(second.end.error)


async def _communicate(argv: list[str], given: bytes) -> subprocess.CompletedProcess[bytes]:
    return await asyncio.to_thread(subprocess.run, argv, input=given, capture_output=True, check=False)


def _files_with(folder: Path, data: bytes) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file() and data in path.read_bytes()]


def _measuring_child(parent: int) -> int:
    children = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
    (child,) = (int(pid) for pid in children)
    return child


def _heavy_of(pid: int) -> set[str]:
    maps = Path(f"/proc/{pid}/maps").read_text()
    return {name for name in HEAVY if name in maps}


def _group_is_gone(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return True
    return False


def _wait_for(fd: int) -> None:
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    assert poll.poll(PATIENCE_S * 1000)
    os.close(fd)
