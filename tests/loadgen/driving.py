"""Drive the real load generator against a server in this process, and read what it recorded."""

from __future__ import annotations

import asyncio
import json
import shutil
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from vlmhyperbench.load.plan import write_bodies, write_plan
from vlmhyperbench.load.process import Line, LoadProcess
from vlmhyperbench_sdk.load import (
    PLAN_VERSION,
    EndLine,
    Endpoint,
    LoadLimits,
    LoadPlan,
    PhaseKind,
    PhaseLine,
    PhasePlan,
    SegmentLine,
)
from vlmhyperbench_sdk.types import JsonValue

Answering = Callable[[asyncio.StreamReader, asyncio.StreamWriter, int], Awaitable[None]]
"""Serves one connection; connections are numbered from 0."""

CAN_COMPILE = sys.platform == "linux" and shutil.which("cc") is not None
COMPILES = pytest.mark.skipif(not CAN_COMPILE, reason="there is no C compiler")


@dataclass(frozen=True)
class Driven:
    """The lines of a load process, and its record folder."""

    lines: list[Line]
    folder: Path

    @property
    def end(self) -> EndLine:
        assert isinstance(self.lines[-1], EndLine)
        return self.lines[-1]

    @property
    def segments(self) -> list[SegmentLine]:
        return [line for line in self.lines if isinstance(line, SegmentLine)]

    @property
    def phases(self) -> list[tuple[int, str]]:
        return [(line.phase, line.state) for line in self.lines if isinstance(line, PhaseLine)]

    @property
    def rows(self) -> list[dict[str, Any]]:
        """The rows of every announced segment, by ordinal."""
        frames = [pl.read_parquet(self.folder / line.segment) for line in self.segments]
        return pl.concat(frames).sort("phase", "ordinal").to_dicts() if frames else []


def chat_body(number: int = 0, *, stream: bool = True) -> bytes:
    """Write a chat request; requests of different numbers are different."""
    request: dict[str, object] = {"model": "simulated", "messages": [{"role": "user", "content": f"question {number}"}]}
    if stream:
        request |= {"stream": True, "stream_options": {"include_usage": True}}
    return json.dumps(request).encode()


def write(
    folder: Path,
    url: str,
    *,
    bodies: Sequence[bytes],
    kind: PhaseKind = "accuracy",
    in_flight: int = 1,
    limits: LoadLimits | None = None,
    headers: Mapping[str, str] | None = None,
    processes: int = 1,
    unix_socket: str | None = None,
    verify: bool = True,
) -> None:
    """Write a plan of one phase, number 1."""
    write_phases(
        folder,
        Endpoint(url=url, headers=headers or {}, unix_socket=unix_socket, verify=verify),
        PhasePlan(no=1, kind=kind, count=len(bodies), params={"in_flight": in_flight}),
        bodies=bodies,
        limits=limits,
        processes=processes,
    )


def write_phases(
    folder: Path,
    endpoint: Endpoint,
    *phases: PhasePlan,
    bodies: Sequence[bytes],
    limits: LoadLimits | None = None,
    processes: int = 1,
) -> None:
    """Write a plan of several phases, each of the next `count` bodies; ordinals count over all phases."""
    requests = write_bodies(folder, bodies)
    requests["phase"] = np.repeat([phase.no for phase in phases], [phase.count or 0 for phase in phases])
    plan = LoadPlan(
        version=PLAN_VERSION,
        phases=phases,
        endpoint=endpoint,
        limits=limits or LoadLimits(request_timeout_s=60.0),
        seed=7,
        processes=processes,
    )
    write_plan(folder, plan=plan, requests=requests)


async def drive(
    tmp_path: Path,
    url: str,
    *,
    bodies: Sequence[bytes],
    kind: PhaseKind = "accuracy",
    in_flight: int = 1,
    limits: LoadLimits | None = None,
    headers: Mapping[str, str] | None = None,
    secrets: Mapping[str, str] | None = None,
    processes: int = 1,
    unix_socket: str | None = None,
    verify: bool = True,
) -> Driven:
    """Run a plan of one phase to its end."""
    write(
        tmp_path / "plan",
        url,
        bodies=bodies,
        kind=kind,
        in_flight=in_flight,
        limits=limits,
        headers=headers,
        processes=processes,
        unix_socket=unix_socket,
        verify=verify,
    )
    return await run(tmp_path, secrets=secrets)


async def drive_open(
    tmp_path: Path,
    url: str,
    *,
    instants_ms: Sequence[float],
    params: Mapping[str, int] | None = None,
    processes: int = 1,
) -> Driven:
    """Run an open loop with one request at each instant."""
    bodies = [chat_body(number) for number in range(len(instants_ms))]
    phase_params: dict[str, JsonValue] = {"arrivals": "trace", "in_flight": 2, **(params or {})}
    plan = LoadPlan(
        version=PLAN_VERSION,
        phases=(PhasePlan(no=1, kind="server", count=len(bodies), params=phase_params),),
        endpoint=Endpoint(url=url),
        limits=LoadLimits(request_timeout_s=60.0),
        seed=7,
        processes=processes,
    )
    requests = write_bodies(tmp_path / "plan", bodies, phase=1)
    schedule = np.array([round(at * 1e6) for at in instants_ms], dtype=np.int64)
    write_plan(tmp_path / "plan", plan=plan, requests=requests, schedules={1: schedule})
    return await run(tmp_path)


async def run(tmp_path: Path, *, secrets: Mapping[str, str] | None = None) -> Driven:
    """Run the plan in `tmp_path/plan`."""
    async with await LoadProcess.start(tmp_path / "plan", tmp_path / "record") as process:
        await process.ready(secrets)
        lines = [line async for line in process.lines()]
        await process.wait()
    return Driven(lines=lines, folder=tmp_path / "record")


@asynccontextmanager
async def serving(answering: Answering) -> AsyncIterator[str]:
    """Serve connections by a function of the test; yield the URL of chat completions."""
    count = 0

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal count
        number, count = count, count + 1
        try:
            await answering(reader, writer, number)
        except (ConnectionError, asyncio.IncompleteReadError):  # the client has gone
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(connected, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        yield f"http://127.0.0.1:{port}/v1/chat/completions"


async def read_request(reader: asyncio.StreamReader) -> bytes:
    """Read one request with Content-Length; return its body."""
    head = await reader.readuntil(b"\r\n\r\n")
    length = next(
        int(line.partition(b":")[2]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length")
    )
    return await reader.readexactly(length)


def whole(text: str = "ok", *, tokens: int = 2, status: str = "200 OK", headers: str = "") -> bytes:
    """Write a whole answer: JSON with Content-Length."""
    body = json.dumps(
        {
            "choices": [{"message": {"role": "assistant", "content": text}, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 1, "completion_tokens": tokens},
        }
    ).encode()
    return respond(body, status=status, headers=headers)


def respond(body: bytes, *, status: str = "200 OK", headers: str = "", media_type: str = "application/json") -> bytes:
    """Write an answer with Content-Length."""
    head = f"HTTP/1.1 {status}\r\nContent-Type: {media_type}\r\nContent-Length: {len(body)}\r\n{headers}\r\n"
    return head.encode() + body


SSE_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n"


def streamed(text: str, *, head: bytes = SSE_HEAD, end: bytes = b"0\r\n\r\n") -> bytes:
    """Write a streamed answer of one token."""
    events = [
        {"id": "chatcmpl-0123456789", "choices": [{"delta": {"content": text}, "finish_reason": None}]},
        {"id": "chatcmpl-0123456789", "choices": [{"delta": {}, "finish_reason": "stop"}]},
        {"choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": 1}},
    ]
    lines = [f"data: {json.dumps(event)}\n\n" for event in events] + ["data: [DONE]\n\n"]
    chunks = b"".join(b"%x\r\n%b\r\n" % (len(line), line.encode()) for line in lines)
    return head + b"\r\n" + chunks + end
