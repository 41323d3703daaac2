"""Measure how long a worker that joins takes until it has its first job, with work that is ready.

Usage: python -m benchmarks.joining [--rounds N]    About 15 s a round. The stack, the worker and its join over TLS are
real; the engine is simulated. The parts are those of the worker's own log and of the stack's database; the processor
time is that of the joining process until its first claim is seen, which other work on the machine changes little.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

import psutil
from rich.console import Console
from rich.table import Table

from benchmarks.parts import machine_load
from tests.support.machines import free_ports
from tests.support.processes import PATIENCE_S
from tests.support.stack import ROOT, Stack, running_stack, until
from vlmhyperbench.registry.schemas import RunEntry

AIM_S = 3.0
_CLAIMED = "SELECT min(started_at) FROM claim JOIN job j ON j.id = job_id WHERE j.run_id = %s AND j.kind = 'GENERATE'"
PARTS = ("joined and reached every part", "registered", "first claim", "processor time until then")


def main() -> None:
    """Join, measure, leave, and print the medians with the aim."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    services = ("scheduler", "api", "evaluation", "reporting")
    listen = f"127.0.0.1:{free_ports('127.0.0.1')}"
    with running_stack(ROOT / "registries", services=services, listen=listen) as stack:
        measured = [_round(stack) for _ in range(rounds)]
    table = Table("part", "s (median)", "aim", title="A worker joins")
    for number, part in enumerate(PARTS):
        seconds = statistics.median(times[number] for times in measured)
        table.add_row(part, f"{seconds:.2f}", f"<= {AIM_S}" if part == "first claim" else "")
    Console().print(table)
    print(machine_load())


def _round(stack: Stack) -> tuple[float, ...]:
    entry = {"target": {"model": "simulated-instant"}, "task": "synthetic-questions"}
    run = stack.client.runs.create(RunEntry.model_validate(entry))
    ready = "SELECT count(*) FROM job WHERE run_id = %s AND kind = 'GENERATE' AND state = 'READY'"
    until(lambda: stack.query(ready, run.id) != [(0,)], "a job that waits for a worker", PATIENCE_S)
    with tempfile.TemporaryDirectory(prefix="vlmhb-far-") as folder:
        token, log = Path(folder) / "token", Path(folder) / "log"
        token.write_text(stack.client.create_join_token(kind="inference").token)
        words = ["--server", stack.listening_url, "--token-file", str(token)]
        words += ["--ca-file", str(stack.home.root / "tls" / "ca.pem")]
        clean = {name: value for name, value in os.environ.items() if not name.startswith("VLMHB_")}
        started, began = datetime.now(UTC), time.monotonic()
        with log.open("wb") as output:
            worker = subprocess.Popen(
                [sys.executable, "-m", "vlmhyperbench.cli.main", "worker", "inference", *words],
                env={**clean, "VLMHB_HOME": f"{folder}/home", "VLMHB_WORKER_NAME": "far"},
                stdout=output,
                stderr=output,
            )
        try:
            until(lambda: "has joined" in log.read_text(), "joining", PATIENCE_S, last=log.read_text)
            joined_s = time.monotonic() - began
            until(lambda: stack.query(_CLAIMED, run.id) != [(None,)], "the first claim", PATIENCE_S, last=log.read_text)
            spent_s = sum(psutil.Process(worker.pid).cpu_times()[:2])
            claim_s = (stack.query(_CLAIMED, run.id)[0][0] - started).total_seconds()
            stack.wait(run.id)
        finally:
            worker.send_signal(signal.SIGTERM)
            worker.wait(PATIENCE_S)
        registered = next(line for line in log.read_text().splitlines() if "worker.registered" in line)
        registered_s = (datetime.fromisoformat(json.loads(registered)["ts"]) - started).total_seconds()
    parts = joined_s, registered_s, claim_s, spent_s
    print("; ".join(f"{name} {part_s:.2f} s" for name, part_s in zip(PARTS, parts, strict=True)), flush=True)
    return parts


if __name__ == "__main__":
    main()
