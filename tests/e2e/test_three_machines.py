"""Three machines with one, two and four devices do 24 runs while one is cut off, one is drained and one dies.

By hand with a cut of two minutes: `VLMHB_TEST_CUT_S=120 pytest tests/e2e/test_three_machines.py`.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from uuid import UUID

import pytest

from tests.e2e.test_other_machines import _TIMERS, token_of
from tests.support.audit import audit
from tests.support.machines import Machine, free_ports, other_machine
from tests.support.processes import PATIENCE_S
from tests.support.stack import TERMINAL, Stack, running_stack, until
from vlmhyperbench.registry.schemas import RunEntry

CUT_S = float(os.environ.get("VLMHB_TEST_CUT_S", "0"))
"""How long the machine is cut off at least; by default until its jobs were taken from it."""
SAMPLES = 250 if CUT_S else 110
TARGETS, RUNS_EACH = "abcdef", 4
DEVICES = {"one": 1, "two": 2, "four": 4}


@pytest.fixture(scope="module")
def registries(registries: Path) -> Path:
    for no, name in enumerate(TARGETS):
        (registries / "models" / f"steady-{name}.yaml").write_text(
            f"description: {50 + 4 * no} ms an answer.\nbackends: [simulated]\n"
            f"engine_params: {{ttft_ms: {38 + 4 * no}, gap_ms: 2, tokens: 6, usage: always, seed: {no}}}\n"
        )
    return registries


@pytest.fixture(scope="module")
def machines() -> Iterator[dict[str, Machine]]:
    with ExitStack() as made:
        yield {name: made.enter_context(other_machine()) for name in DEVICES}


@pytest.fixture(scope="module")
def stack(registries: Path, machines: dict[str, Machine]) -> Iterator[Stack]:
    """A stack without an inference worker, which listens at an address to which every machine has a way."""
    address = machines["one"].near
    for name in ("two", "four"):
        machines[name].add_way_to(address)
    timers = {} if CUT_S else {f"VLMHB_TIMERS__{name}": str(value) for name, value in _TIMERS.items()}
    services = ("scheduler", "api", "evaluation", "reporting")
    listen = f"{address}:{free_ports(address)}"
    with running_stack(registries, services=services, listen=listen, **timers) as found:
        yield found


@pytest.fixture(scope="module")
def joined(
    stack: Stack, machines: dict[str, Machine], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Path]]:
    """The folder of each machine, whose workers have joined."""
    folders = {name: tmp_path_factory.mktemp(name) for name in DEVICES}
    agents = [_join(stack, machines[name], name, folder) for name, folder in folders.items()]
    try:
        live = "SELECT count(*) FROM worker WHERE kind = 'inference' AND state = 'LIVE'"
        until(
            lambda: stack.query(live) == [(sum(DEVICES.values()),)],
            "the workers of three machines",
            PATIENCE_S,
            last=lambda: _logs(folders),
        )
        yield folders
    finally:
        for agent in agents:
            agent.send_signal(signal.SIGTERM)
        for agent in agents:
            agent.wait(PATIENCE_S)


def _join(stack: Stack, machine: Machine, name: str, folder: Path) -> subprocess.Popen[bytes]:
    inventory = folder / "inventory.yaml"
    inventory.write_text(f"machine: {name}\ndevices:\n  - {{name: card, memory_gib: 24, count: {DEVICES[name]}}}\n")
    token = token_of(stack, folder, kind="inference")
    command = ["-m", "vlmhyperbench.cli.main", "worker", "inference", "--name", name, "--server", stack.listening_url]
    command += ["--token-file", str(token), "--ca-file", str(stack.home.root / "tls/ca.pem")]
    environment = {key: value for key, value in os.environ.items() if not key.startswith("VLMHB_")}
    with (folder / "worker.log").open("ab") as log:
        return subprocess.Popen(
            machine.argv(
                ["unshare", "--uts", "sh", "-c", 'hostname "$0" && exec "$@"', name, sys.executable, *command]
            ),
            env={**environment, "VLMHB_HOME": str(folder / "home"), "VLMHB_INVENTORY": str(inventory)},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )


def _logs(folders: dict[str, Path]) -> str:
    return "\n".join(f"--- {name}\n{(folder / 'worker.log').read_text()[-3000:]}" for name, folder in folders.items())


def _submit(stack: Stack, target: str) -> UUID:
    given = {
        "target": {"model": f"steady-{target}"},
        "task": "synthetic-questions",
        "dataset": {"name": "synthetic-questions", "limit": SAMPLES},
        "scenario": {"name": "offline", "in_flight": 1},
    }
    return stack.client.runs.create(RunEntry.model_validate(given)).id


def _jobs(stack: Stack) -> object:
    """Return where the jobs are, for a failed test."""
    counts = (
        "SELECT j.kind, j.state, w.host, count(*), sum(j.done), max(j.outcome::text) FROM job j "
        "LEFT JOIN worker w ON w.id = j.worker_id GROUP BY 1, 2, 3 ORDER BY 1, 2, 3"
    )
    return stack.query(counts)


def _running_on(stack: Stack, host: str) -> int:
    """Return how many jobs run on a machine, as the stack sees it."""
    count = "SELECT count(*) FROM job j JOIN worker w ON w.id = j.worker_id WHERE j.state = 'RUNNING' AND w.host = %s"
    return int(stack.query(count, host)[0][0])


@pytest.mark.timeout(300 + 6 * CUT_S)
def test_24_runs_end_valid_though_one_machine_is_cut_off_one_drained_and_one_killed(
    stack: Stack, machines: dict[str, Machine], joined: dict[str, Path]
) -> None:
    runs = [_submit(stack, target) for _ in range(RUNS_EACH) for target in TARGETS]
    busy = (
        "SELECT count(DISTINCT w.host) FROM job j JOIN worker w ON w.id = j.worker_id "
        "WHERE j.kind = 'GENERATE' AND j.state = 'RUNNING' AND j.done > 0"
    )
    until(
        lambda: stack.query(busy) == [(len(DEVICES),)], "work on every machine", PATIENCE_S, last=lambda: _jobs(stack)
    )

    machines["four"].cut_off()
    cut = time.monotonic()
    try:
        assert stack.client.drain("machine", "two", reason="new fans").name == "two"
        for pid in machines["one"].pids():
            with suppress(ProcessLookupError):  # a child that has ended with its parent
                os.kill(pid, signal.SIGKILL)
        until(lambda: _running_on(stack, "one") == 0, "the end of the leases of the dead machine", PATIENCE_S)
        until(lambda: _running_on(stack, "four") == 0, "the end of the leases of the lost machine", PATIENCE_S)
        until(lambda: time.monotonic() - cut >= CUT_S, "the end of the cut", CUT_S + PATIENCE_S)
    finally:
        machines["four"].connect()

    def unfinished() -> list[UUID]:
        # The pauses between the tries of a job, of up to 300 s, are cut short.
        stack.query("UPDATE job SET not_before = NULL WHERE not_before > now() RETURNING id")
        return [run for run in runs if stack.client.runs.get(run).state not in TERMINAL]

    until(lambda: not unfinished(), "the end of 24 runs", PATIENCE_S + 4 * CUT_S, last=lambda: _logs(joined))
    ended = [stack.client.runs.get(run) for run in runs]
    assert [run.state for run in ended] == ["SUCCEEDED"] * len(runs), stack.logs() + _logs(joined)
    assert [stack.rows(run) for run in runs] == [SAMPLES] * len(runs)
    assert _running_on(stack, "two") == 0
    after = (
        "SELECT count(*) FROM claim c JOIN worker w ON w.id = c.worker_id, drain d "
        "WHERE w.host = 'two' AND d.name = 'two' AND c.started_at > d.drained_at + interval '10 seconds'"
    )
    assert stack.query(after) == [(0,)]  # what was assigned before may start, what was not does not
    audit(stack)
