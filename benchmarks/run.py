"""Measure the platform: latency of a run, cost of the gateway, memory of the idle stack, start of the CLI.

Usage: python -m benchmarks.run [--demo]    With `--demo` the whole demo also runs twice, and its times are printed.
"""

from __future__ import annotations

import argparse
import asyncio
import math
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from importlib.metadata import version
from pathlib import Path
from uuid import UUID

from rich.console import Console
from rich.table import Table

from benchmarks import aggregation
from benchmarks.gateway_overhead import added_ttft_ms
from vlmhyperbench.client import Client
from vlmhyperbench.domain.environments import VirtualenvSpec
from vlmhyperbench.environments.preparing import prepared
from vlmhyperbench.environments.wheels import Workshop
from vlmhyperbench.local.supervisor import control
from vlmhyperbench.local.supervisor.home import Home
from vlmhyperbench.registry.schemas import RunEntry
from vlmhyperbench.settings import Settings
from vlmhyperbench.wire.runs import RunDetail

ROOT = Path(__file__).parents[1]
CLI = str(Path(sys.executable).with_name("vlmhyperbench"))
ROUNDS = 7


def main() -> None:
    """Measure each figure and print it with its aim."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--demo", action="store_true")
    with_demo = parser.parse_args().demo
    table = Table("figure", "measured", "aim", title="VLMHyperBench on this machine")
    help_s = statistics.median(_timed(lambda: _run(CLI, "--help")) for _ in range(ROUNDS))
    table.add_row("vlmhyperbench --help, median", f"{help_s:.2f} s", "≤ 0.5 s")
    with stack() as (home, client):
        table.add_row("idle embedded stack, PSS of all processes", f"{_pss_bytes(home) / 1e9:.2f} GB", "≤ 1.2 GB")
        _finished(client, samples=50)
        starts = [_first_request_s(client) for _ in range(ROUNDS)]
        table.add_row("POST to first request, warm gateway, median", f"{statistics.median(starts):.2f} s", "≤ 1.0 s")
        whole = [_timed(lambda: _finished(client, samples=1000)) for _ in range(3)]
        table.add_row("1,000 samples at zero model time, POST to report", f"{statistics.median(whole):.1f} s", "≤ 10 s")
    ready_s = environment_ready_s()
    table.add_row("engine's environment that was built before, median", f"{ready_s * 1e3:.1f} ms", "≤ 1 s")
    direct, through, added = added_ttft_ms()
    table.add_row(
        "TTFT added by the gateway, median of pairs", f"{added:.2f} ms ({through:.2f} against {direct:.2f})", "≤ 2 ms"
    )
    measured = aggregation.in_child(2_000_000, "by_doc_question")
    table.add_row("10,000,000 scores aggregated by 200 groups", f"{measured.ours_s:.1f} s", "≤ 10 s")
    table.add_row("peak memory of that, with the scores", f"{measured.peak_bytes / 1e9:.2f} GB", "≤ 4 GB")
    if with_demo:
        with tempfile.TemporaryDirectory(prefix="vlmhb-") as folder:
            environment = {**os.environ, "VLMHB_HOME": folder}
            first, second = _demo(environment), _demo(environment)
            table.add_row(
                "demo to its first answer, second time", f"{second[0]:.1f} s (first {first[0]:.1f} s)", "≤ 20 s"
            )
            table.add_row("the whole demo, second time", f"{second[1]:.0f} s (first {first[1]:.0f} s)", "≤ 240 s")
    Console().print(table)


@contextmanager
def stack(registries: Path = ROOT / "registries") -> Iterator[tuple[Home, Client]]:
    """Run an embedded stack in a new folder; yield its home and a client."""
    with tempfile.TemporaryDirectory(prefix="vlmhb-") as folder:
        os.environ.update({"VLMHB_HOME": folder, "VLMHB_REGISTRIES": str(registries)})
        home = Home(Path(folder))
        control.up(home, host="127.0.0.1", port=0, is_tied=True)
        try:
            yield home, Client(home.api_url(), home.api_key())
        finally:
            control.down(home)


def _entry(samples: int) -> RunEntry:
    given = {
        "target": {"model": "simulated-instant"},
        "task": "synthetic-questions",
        "dataset": {"name": "synthetic-questions", "limit": samples},
        "scenario": {"name": "offline", "in_flight": 16},
    }
    return RunEntry.model_validate(given)


def ended(client: Client, run: RunDetail) -> RunDetail:
    """Follow a run until it has ended, and return it; exit if it did not succeed."""
    return all_ended(client, [run.id])[0]


def all_ended(client: Client, run_ids: Sequence[UUID]) -> list[RunDetail]:
    """Follow runs by the live feed until all have ended, and return them; exit if one did not succeed."""
    for _ in client.live(run_ids):
        continue
    last: list[RunDetail] = [client.runs.get(run_id) for run_id in run_ids]
    for run in last:
        if run.state != "SUCCEEDED":
            raise SystemExit(f"{run.name} ended {run.state}: {run.reason}")
    return last


def _finished(client: Client, *, samples: int) -> None:
    ended(client, client.runs.create(_entry(samples)))


def _first_request_s(client: Client) -> float:
    """Return the time from the POST to the send of the first request, by the wall clock in the claim's anchor."""
    from vlmhyperbench.db.engine import Database  # only this figure reads rows

    posted = time.time()
    run = ended(client, client.runs.create(_entry(20)))
    return _first_sent(Database, str(run.id)) - posted


def _first_sent(database: type, run_id: str) -> float:
    import asyncio

    from sqlalchemy import text

    async def read() -> float:
        opened = database(Settings.load().database_url.get_secret_value())
        async with opened.transaction() as session:
            first_sent = await session.execute(
                text(
                    "SELECT min(f.sent_ns - c.anchor_monotonic_ns + c.anchor_wall_ns) FROM fact f "
                    "JOIN claim c ON c.id = f.claim_id WHERE f.run_id = CAST(:run AS uuid)"
                ),
                {"run": run_id},
            )
            value = float(first_sent.scalar_one()) / 1e9
        await opened.close()
        return value

    return asyncio.run(read())


def _pss_bytes(home: Home) -> int:
    time.sleep(25)  # by then the processes that only the start needs have ended
    return sum(process.pss_bytes or 0 for process in control.status(home).processes)


def _demo(environment: dict[str, str]) -> tuple[float, float]:
    """Run the demo; return the seconds until its progress shows an answer, and until it has ended."""
    start, answered = time.monotonic(), float("nan")
    with subprocess.Popen(
        [CLI, "demo"], env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as running:
        for line in running.stderr or ():
            if math.isnan(answered) and re.search(r"inference [1-9]", line):
                answered = time.monotonic() - start
    if running.returncode != 0:
        raise SystemExit(f"The demo ended with status {running.returncode}.")
    return answered, time.monotonic() - start


def environment_ready_s() -> float:
    """Return how long an environment takes to be ready that is on the machine, by the median."""
    spec = VirtualenvSpec(requirements=(f"xllamacpp=={version('xllamacpp')}",))

    async def prepare(home: Path) -> None:
        async with prepared(spec, Workshop.of(Settings(home=home))):
            return  # only what comes before the block is timed

    with tempfile.TemporaryDirectory() as home:
        asyncio.run(prepare(Path(home)))
        return statistics.median(_timed(lambda: asyncio.run(prepare(Path(home)))) for _ in range(ROUNDS))


def _timed(work: Callable[[], object]) -> float:
    start = time.monotonic()
    work()
    return time.monotonic() - start


def _run(*argv: str, env: dict[str, str] | None = None) -> None:
    subprocess.run(argv, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=env)


if __name__ == "__main__":
    print(f"{datetime.now().astimezone():%Y-%m-%d %H:%M}, {os.cpu_count()} CPUs")
    main()
