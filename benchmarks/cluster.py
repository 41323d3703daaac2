"""Measure how the answers per second grow with the inference workers of a stack, and the CPU time of an answer.

Usage: python -m benchmarks.cluster [--workers 1,2,4,8] [--answers 120]    Ten minutes; about five with --workers 1,8.

Devices are declared and engines simulated: an answer takes four declared seconds, and the questions and answers vary.
All else is real: API, scheduler, Postgres, Valkey, a process for each worker, a load generator and a gateway for each
run, chunks, scores and reports. Each worker gets the same work, and its time is that from the submission to the last
end.
"""

from __future__ import annotations

import argparse
import os
import shutil
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil
from rich.console import Console
from rich.table import Table

from benchmarks.parts import machine_load, processes_of_parts
from benchmarks.run import ROOT, all_ended, stack
from vlmhyperbench.local.supervisor.home import Home
from vlmhyperbench.registry.schemas import RunEntry

RUNS_EACH = 2
IN_FLIGHT = 8
ENGINE = "ttft_ms: 3900, gap_ms: 10, tokens: 11, usage: always"
"""Four seconds an answer, of eleven tokens: eight engines are never limited by two cores, since all else is real."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What a stack with a number of workers has done."""

    workers: int
    answers_per_s: float
    load: float
    """Load average of the machine at the end."""
    cpu_ms: dict[str, float]
    """Part of the stack → CPU time of an answer."""


def main() -> None:
    """Measure every number of workers and print the rates beside that of one worker."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workers", default="1,2,4,8")
    parser.add_argument("--answers", type=int, default=120, help="answers of a run; a worker does two runs")
    given = parser.parse_args()
    columns = "workers", "answers/s", "times one", "load average", "CPU ms per answer", "of it"
    table = Table(*columns, title="Workers on declared devices")
    one = None
    for count in map(int, given.workers.split(",")):
        measured = measure(count, given.answers)
        one = one or measured.answers_per_s / count
        Console().print(measured)  # the machine may be needed before the table is there
        parts = ", ".join(f"{part} {spent:.1f}" for part, spent in sorted(measured.cpu_ms.items()))
        whole = f"{sum(measured.cpu_ms.values()):.1f}"
        rate, times = f"{measured.answers_per_s:.2f}", f"{measured.answers_per_s / one:.2f}"
        table.add_row(str(count), rate, times, f"{measured.load:.1f}", whole, parts)
    Console(width=160).print(table)
    Console().print("aim: 8 workers ≥ 7.2 times one")
    print(machine_load())


def measure(workers: int, answers: int) -> Measured:
    """Let a new stack with so many workers do the same work for each of them."""
    with _site(workers) as registries, stack(registries) as (home, client):
        while sum(bool(worker.devices) for worker in client.workers().items) < workers:
            time.sleep(0.1)
        all_ended(client, [client.runs.create(_entry(no, 1)).id for no in range(workers)])
        before, started = _cpu_s(home), time.monotonic()
        runs = [client.runs.create(_entry(no, answers)) for _ in range(RUNS_EACH) for no in range(workers)]
        done = sum(run.done for run in all_ended(client, [run.id for run in runs]))
        taken_s, after = time.monotonic() - started, _cpu_s(home)
    spent = {part: (after[part] - before[part]) / done * 1e3 for part in after}
    return Measured(workers=workers, answers_per_s=done / taken_s, load=os.getloadavg()[0], cpu_ms=spent)


@contextmanager
def _site(workers: int) -> Iterator[Path]:
    """Make registries with a model for each worker, and declare its devices."""
    with tempfile.TemporaryDirectory(prefix="vlmhb-") as folder:
        registries, inventory = Path(folder) / "registries", Path(folder) / "inventory.yaml"
        shutil.copytree(ROOT / "registries", registries)
        for no in range(workers):
            (registries / "models" / f"steady-{no}.yaml").write_text(
                f"description: Four seconds.\nbackends: [simulated]\nengine_params: {{{ENGINE}, seed: {no}}}\n"
            )
        inventory.write_text(
            f"machine: bench\ndevices:\n  - {{name: declared card, memory_gib: 24, count: {workers}}}\n"
        )
        os.environ["VLMHB_INVENTORY"] = str(inventory)
        yield registries


def _entry(model: int, answers: int) -> RunEntry:
    given = {
        "target": {"model": f"steady-{model}"},
        "task": "synthetic-questions",
        "dataset": {"name": "synthetic-questions", "limit": answers},
        "scenario": {"name": "offline", "in_flight": IN_FLIGHT},
    }
    return RunEntry.model_validate(given)


def _cpu_s(home: Home) -> dict[str, float]:
    """Return the CPU time of each kind of part until now, with that of its children that have ended."""
    spent: dict[str, float] = defaultdict(float)
    for name, processes in processes_of_parts(home).items():
        spent[name.partition("-")[0]] += sum(map(_own_s, processes))
    return spent


def _own_s(process: psutil.Process) -> float:
    try:
        return float(sum(process.cpu_times()[:4]))
    except psutil.NoSuchProcess:  # its time is that of its parent by now
        return 0.0


if __name__ == "__main__":
    main()
