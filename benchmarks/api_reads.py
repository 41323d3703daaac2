"""Measure how fast the API answers reads on a database with many runs and rows.

Usage: python -m benchmarks.api_reads [--runs 10000] [--rows 10000000] [--rate 100] [--seconds 30]

A stack runs one simulated run to its report, and that run is copied in the database. Requests are sent at a constant
rate whether or not earlier ones have been answered, and each is timed from the instant at which it was due. The
reference is `GET /health` at the same rate, which reads nothing.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

import httpx2
from rich.console import Console
from rich.table import Table

from benchmarks.many_runs import copy_run, one_run
from benchmarks.run import stack

REFERENCE = "/health"
SAMPLES = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """A request with its name in the table."""

    name: str
    path: str
    params: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """Times of one kind of request in milliseconds, from when it was due to its last byte."""

    name: str
    sent: int
    failed: int
    p50_ms: float
    p95_ms: float
    max_ms: float


def main() -> None:
    """Fill the database, send the reads, and print their times beside those of the reference."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=10_000)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--rate", type=float, default=100.0, help="requests per second")
    parser.add_argument("--seconds", type=float, default=30.0)
    given = parser.parse_args()
    with stack() as (home, client):
        run_id = one_run(client, samples=SAMPLES)
        copy_run(home, run_id, runs=given.runs, rows=given.rows)
        count = int(given.rate * given.seconds)
        url, key = str(home.api_url()), str(home.api_key())
        reference = asyncio.run(_send(url, key, [Read(name=REFERENCE, path=REFERENCE)] * count, given.rate))
        chosen = random.Random(0)
        reads = [chosen.choice(_reads(run_id)) for _ in range(count)]
        measured = asyncio.run(_send(url, key, reads, given.rate))
    title = f"{given.runs:,} runs, {given.rows:,} rows, {given.rate:g} requests/s, load {os.getloadavg()[0]:.1f}"
    table = Table("read", "sent", "failed", "p50 ms", "p95 ms", "max ms", "p95 against reference", title=title)
    (base,) = reference
    for times in (base, *measured):
        numbers = (f"{value:.1f}" for value in (times.p50_ms, times.p95_ms, times.max_ms))
        table.add_row(times.name, str(times.sent), str(times.failed), *numbers, f"{times.p95_ms / base.p95_ms:.1f}")
    Console(width=140).print(table)
    Console().print("aims: p95 of all reads ≤ 50 ms; a page and a filter of runs ≤ 300 ms")


def _reads(run_id: UUID) -> list[Read]:
    return [
        Read(name="page of runs", path="/runs/rows"),
        Read(name="filter of runs", path="/runs/rows", params=(("where", "metrics.exact_match>=0.9"),)),
        Read(
            name="order of runs",
            path="/runs/rows",
            params=(("order", "-metrics.exact_match"), ("where", "state=SUCCEEDED")),
        ),
        Read(name="search of runs", path="/runs/rows", params=(("q", "copy 77"),)),
        Read(name="spec of runs", path="/runs/rows", params=(("where", "spec.decoding.max_tokens>=9999"),)),
        Read(name="one run", path=f"/runs/{run_id}"),
        Read(name="page of samples", path=f"/runs/{run_id}/samples"),
        Read(name="filter of samples", path=f"/runs/{run_id}/samples", params=(("where", "is_wrong=true"),)),
        Read(name="labels", path=f"/runs/{run_id}/labels"),
    ]


async def _send(url: str, key: str, reads: Sequence[Read], rate: float) -> list[Times]:
    """Send reads at a constant rate, and return the times of each kind."""
    times: dict[str, list[float]] = {}
    failed: dict[str, int] = {}
    limits = httpx2.Limits(max_connections=200, max_keepalive_connections=200)
    async with httpx2.AsyncClient(
        base_url=f"{url}/api/v1", headers={"X-API-Key": key}, trust_env=False, limits=limits, timeout=60
    ) as http:
        for read in dict.fromkeys(reads):
            await http.get(read.path, params=list(read.params))
        begun = time.perf_counter()

        async def send(no: int, read: Read) -> None:
            due = begun + no / rate
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
            response = await http.get(read.path, params=list(read.params))
            times.setdefault(read.name, []).append((time.perf_counter() - due) * 1000)
            failed[read.name] = failed.get(read.name, 0) + (response.status_code != 200)

        async with asyncio.TaskGroup() as group:
            for no, read in enumerate(reads):
                group.create_task(send(no, read))
    kinds = [_times(name, measured, failed[name]) for name, measured in sorted(times.items())]
    if len(kinds) == 1:
        return kinds
    return [_times("all reads", [time_ms for own in times.values() for time_ms in own], sum(failed.values())), *kinds]


def _times(name: str, measured: Sequence[float], failed: int) -> Times:
    cuts = statistics.quantiles(measured, n=100, method="inclusive")
    return Times(name=name, sent=len(measured), failed=failed, p50_ms=cuts[49], p95_ms=cuts[94], max_ms=max(measured))


if __name__ == "__main__":
    main()
