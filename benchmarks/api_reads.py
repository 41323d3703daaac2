"""Measure how fast the API answers reads on a database with many runs and rows.

Usage: python -m benchmarks.api_reads [--runs 10000] [--rows 10000000] [--rate 100] [--seconds 30]

A stack runs one simulated run to its report, and that run is copied in the database. Requests are sent at a constant
rate whether or not earlier ones have been answered, and each is timed from the instant at which it was due. The
reference is `GET /health` at the same rate, which reads nothing.
"""

from __future__ import annotations

import argparse
import asyncio
import json
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
from sqlalchemy import create_engine, text

from benchmarks.run import all_ended, stack
from vlmhyperbench.client import Client
from vlmhyperbench.local.supervisor.home import Home
from vlmhyperbench.registry.schemas import RunEntry

REFERENCE = "/health"
SAMPLES = 200
ROWS_EACH = 10_000
"""Fact rows of each copied run that has rows."""


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
        run_id = _one_run(client)
        _copy(home, run_id, runs=given.runs, rows=given.rows)
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


def _one_run(client: Client) -> UUID:
    given = {
        "target": {"model": "simulated-instant"},
        "task": "synthetic-questions",
        "dataset": {"name": "synthetic-questions", "limit": SAMPLES},
        "scenario": {"name": "offline", "in_flight": 16},
    }
    run = client.runs.create(RunEntry.model_validate(given))
    return all_ended(client, [run.id])[0].id


def _copy(home: Home, run_id: UUID, *, runs: int, rows: int) -> None:
    """Copy the run with its rows in lists and its jobs, and give the first copies rows of their own."""
    url = json.loads(home.settings_file.read_text())["database_url"]
    engine = create_engine(url)
    values = {"run": run_id, "runs": runs, "rows": min(ROWS_EACH, rows), "with_rows": rows // ROWS_EACH}
    with engine.begin() as connection:
        for statement in _COPY:
            connection.execute(text(statement), values)
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(text("ANALYZE"))
    engine.dispose()


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


_COPIED = """
CREATE TEMPORARY TABLE copied AS
SELECT no, gen_random_uuid() AS id FROM generate_series(1, :runs) AS series (no)
"""
_RUNS = """
INSERT INTO run (id, experiment_id, parent_run_id, project_id, created_by, name, position, spec, spec_digest, state,
                 priority, is_paused, is_dirty, headline, event_seq, manifest_id, total, created_at, started_at,
                 finished_at)
SELECT c.id, NULL, NULL, r.project_id, r.created_by, 'copy ' || c.no, 0,
       jsonb_set(r.spec, '{decoding,max_tokens}', to_jsonb(c.no)), r.spec_digest, r.state, 0, false, false, r.headline,
       r.event_seq, r.manifest_id, r.total, r.created_at - c.no * interval '1 minute', r.started_at, r.finished_at
FROM copied c CROSS JOIN run r WHERE r.id = :run
"""
_LISTINGS = """
INSERT INTO run_listing (run_id, project_id, target, model, backend, task, dataset, scenario, columns, tags, note)
SELECT c.id, l.project_id, l.target, l.model, l.backend, l.task, l.dataset, l.scenario,
       l.columns || jsonb_build_object('metrics.exact_match', random()), l.tags, l.note
FROM copied c CROSS JOIN run_listing l WHERE l.run_id = :run
"""
_JOBS = """
INSERT INTO job SELECT (jsonb_populate_record(j, jsonb_build_object('id', gen_random_uuid(), 'run_id', c.id))).*
FROM copied c CROSS JOIN job j WHERE j.run_id = :run AND j.counts
"""
_FACTS = """
INSERT INTO fact SELECT (jsonb_populate_record(f, jsonb_build_object('run_id', c.id, 'ordinal', n))).*
FROM fact f CROSS JOIN copied c CROSS JOIN generate_series(0, CAST(:rows AS bigint) - 1) AS series (n)
WHERE f.run_id = :run AND (f.phase, f.ordinal) = (
  SELECT phase, ordinal FROM fact WHERE run_id = :run ORDER BY phase DESC, ordinal LIMIT 1
) AND c.no <= :with_rows
"""
_COPY = (_COPIED, _RUNS, _LISTINGS, _JOBS, _FACTS)


if __name__ == "__main__":
    main()
