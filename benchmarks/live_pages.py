"""Measure how long an event takes to reach many live pages of one API, and what being watched costs a run.

Usage: python -m benchmarks.live_pages [--pages 200] [--seconds 30] [--rate 5]

Each page is a WebSocket that follows some runs, as the first page of the dashboard does, and all details of a run that
goes on. Paused runs are retuned at a constant rate; the time of an event is from its own instant in the
database to its arrival at a page. Then the processor time of the worker for an answer, of the same run with nobody and
with all pages listening, and the load generator's own share, tell what listening costs.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID

import psutil
from rich.console import Console
from rich.table import Table
from websockets.asyncio.client import connect

from benchmarks.run import all_ended, stack
from vlmhyperbench.client import Client
from vlmhyperbench.local.supervisor import control
from vlmhyperbench.local.supervisor.home import Home
from vlmhyperbench.registry.schemas import RunEntry

FOLLOWED = 8
"""Runs whose events each page follows."""
OPENING = 10
"""Pages that connect at the same time."""
OPEN_S = 60.0
DETAILS = ("samples", "resources", "logs")


@dataclass(slots=True)
class Heard:
    """What all pages got."""

    pages: int
    delays_s: list[float] = field(default_factory=list)
    details: dict[str, int] = field(default_factory=dict)
    opened: int = 0
    api_cpu_ms: float = 0.0
    """Processor time of the API for an event that was made."""
    all_open: asyncio.Event = field(default_factory=asyncio.Event)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """Cost of a run for those who measure it."""

    answers: int
    worker_cpu_ms: float
    """Of the worker's supervisor, for an answer."""
    answers_per_s: float
    queue_p99_ms: float
    """99th percentile of how late the load generator sent."""


def main() -> None:
    """Run with nobody listening, then with all pages, and print what was measured."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pages", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--rate", type=float, default=5.0, help="events per second")
    given = parser.parse_args()
    with stack() as (home, client):
        _run(home, client, seconds=5)  # loads the target
        alone = _run(home, client, seconds=given.seconds)
        heard, watched = asyncio.run(_watch(home, client, given.pages, given.seconds, given.rate))
    cuts = statistics.quantiles(heard.delays_s, n=100, method="inclusive")
    console = Console(width=120)
    console.print(
        f"{given.pages} pages, {given.rate:g} events/s for {given.seconds:g} s, load {os.getloadavg()[0]:.1f} on "
        f"{os.cpu_count()} cores: {len(heard.delays_s)} events arrived, "
        f"p50 {cuts[49] * 1000:.0f} ms, p95 {cuts[94] * 1000:.0f} ms, max {max(heard.delays_s) * 1000:.0f} ms "
        f"(aim: p95 ≤ 1000 ms); details: {heard.details}; API CPU {heard.api_cpu_ms:.1f} ms/event"
    )
    table = Table("run", "answers", "answers/s", "worker CPU ms/answer", "p99 of lateness ms")
    for name, cost in (("nobody listens", alone), (f"{given.pages} pages listen", watched)):
        numbers = (f"{cost.answers_per_s:.1f}", f"{cost.worker_cpu_ms:.3f}", f"{cost.queue_p99_ms:.3f}")
        table.add_row(name, str(cost.answers), *numbers)
    console.print(table)


async def _watch(home: Home, client: Client, pages: int, seconds: float, rate: float) -> tuple[Heard, Cost]:
    paused = [_create(client, answers=10, is_paused=True) for _ in range(FOLLOWED)]
    heard = Heard(pages=pages)
    watched = _create(client, answers=_answers(seconds), is_paused=True)
    opening = asyncio.Semaphore(OPENING)
    async with asyncio.TaskGroup() as group:
        following = [group.create_task(_page(home, [*paused, watched], heard, opening)) for _ in range(pages)]
        await heard.all_open.wait()
        heard.delays_s.clear()
        await asyncio.to_thread(client.runs.resume, watched)
        api = psutil.Process(_pid_of(home, "api"))
        begun_s = _used_s(api)
        cost, _ = await asyncio.gather(
            asyncio.to_thread(_cost, home, client, watched), _make_events(client, paused, seconds, rate)
        )
        heard.api_cpu_ms = (_used_s(api) - begun_s) * 1000 / max(1, int(rate * seconds))
        for task in following:
            task.cancel()
    return heard, cost


async def _page(home: Home, streams: Sequence[UUID], heard: Heard, opening: asyncio.Semaphore) -> None:
    """Follow runs, and the details of the last of them."""
    address = str(home.api_url()).replace("http", "ws", 1) + "/api/v1/live"
    headers = {"X-API-Key": str(home.api_key())}
    cursors = [{"stream": str(stream), "since": 2**53} for stream in streams]
    cursors[-1] |= {"with": DETAILS}
    async with AsyncExitStack() as stack:
        async with opening:
            connecting = connect(address, additional_headers=headers, proxy=None, max_size=None, open_timeout=OPEN_S)
            socket = await stack.enter_async_context(connecting)
            await socket.send(json.dumps({"subscribe": cursors}))
            snapshots = 0
            while snapshots < len(streams):
                snapshots += json.loads(await socket.recv())["type"] == "snapshot"
        heard.opened += 1
        if heard.opened == heard.pages:
            heard.all_open.set()
        async for text in socket:
            message = json.loads(text)
            match message["type"]:
                case "event":
                    heard.delays_s.append(time.time() - datetime.fromisoformat(message["event"]["ts"]).timestamp())
                case "samples" | "resources" | "logs" as kind:
                    heard.details[kind] = heard.details.get(kind, 0) + 1


async def _make_events(client: Client, runs: Sequence[UUID], seconds: float, rate: float) -> None:
    begun = time.perf_counter()
    for no in range(int(rate * seconds)):
        await asyncio.sleep(max(0.0, begun + no / rate - time.perf_counter()))
        run = runs[no % len(runs)]
        await asyncio.to_thread(client.runs.retune, run, in_flight=5 + no // len(runs) % 2)


def _run(home: Home, client: Client, *, seconds: float) -> Cost:
    return _cost(home, client, _create(client, answers=_answers(seconds)))


def _answers(seconds: float) -> int:
    """Return how many answers 8 streams of 0.1 s give in this time."""
    return int(seconds * 8 / 0.1)


def _create(client: Client, *, answers: int, is_paused: bool = False) -> UUID:
    given = {
        "target": {"model": "simulated", "engine_params": {"ttft_ms": 60, "gap_ms": 5, "tokens": 8}},
        "task": "synthetic-questions",
        "dataset": {"name": "synthetic-questions", "limit": min(answers, 1000)},
        "decoding": {"n": max(1, answers // 1000)},
        "scenario": {"name": "offline", "in_flight": 8},
    }
    run = client.runs.create(RunEntry.model_validate(given), priority=0 if is_paused else 10)
    if is_paused:
        client.runs.pause(run.id)
    return run.id


def _cost(home: Home, client: Client, run_id: UUID) -> Cost:
    worker = psutil.Process(_pid_of(home, "inference"))
    before_s = _used_s(worker)
    (run,) = all_ended(client, [run_id])
    used_s = _used_s(worker) - before_s
    speeds = client.runs.get(run.id).performance
    if speeds is None or speeds.samples_per_s is None:
        raise RuntimeError(f"The run {run.id} has no speeds.")
    return Cost(
        answers=run.done,
        worker_cpu_ms=used_s * 1000 / run.done,
        answers_per_s=speeds.samples_per_s,
        queue_p99_ms=speeds.times["queue_ms"].p99 or 0.0,
    )


def _used_s(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


def _pid_of(home: Home, name: str) -> int:
    (pid,) = [process.pid for process in control.status(home).processes if process.name.startswith(name)]
    if pid is None:
        raise RuntimeError(f"The process {name} does not run.")
    return pid


if __name__ == "__main__":
    main()
