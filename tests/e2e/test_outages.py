"""The database and the broker are gone under load: the API says so, nobody loses a sample, everybody comes back.

By hand with outages of a minute: `VLMHB_TEST_CUT_S=61 pytest tests/e2e/test_outages.py`.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import UUID

import httpx2
import psutil
import pytest
import redis

from tests.e2e.test_other_machines import _TIMERS
from tests.support.audit import audit
from tests.support.processes import PATIENCE_S, wait_until_ended
from tests.support.stack import TERMINAL, Stack, running_stack, until
from vlmhyperbench.cli import exits
from vlmhyperbench.client import Client
from vlmhyperbench.local.supervisor import control
from vlmhyperbench.registry.schemas import RunEntry
from vlmhyperbench.wire.live import LiveEvent

Program = Callable[..., subprocess.CompletedProcess[str]]
CUT_S = float(os.environ.get("VLMHB_TEST_CUT_S", "12"))
"""How long an outage lasts; the default is longer than a worker may go without its database."""
SAMPLES, WORKERS = 80, 3
_ANSWER_S = 30.0
"""Longer than any answer of an API whose database is gone may take."""


@pytest.fixture(scope="module")
def registries(registries: Path) -> Path:
    for no, name in enumerate("abc"):
        (registries / "models" / f"steady-{name}.yaml").write_text(
            f"description: {270 + 10 * no} ms an answer.\nbackends: [simulated]\n"
            f"engine_params: {{ttft_ms: {250 + 10 * no}, gap_ms: 4, tokens: 6, usage: always, seed: {no}}}\n"
        )
    return registries


@pytest.fixture(scope="module")
def stack(registries: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """A stack with a worker for each of several declared devices."""
    inventory = tmp_path_factory.mktemp("inventory") / "inventory.yaml"
    inventory.write_text(f"machine: box\ndevices:\n  - {{name: card, memory_gib: 24, count: {WORKERS}}}\n")
    timers = {f"VLMHB_TIMERS__{name}": str(value) for name, value in _TIMERS.items()}
    with running_stack(registries, VLMHB_INVENTORY=str(inventory), **timers) as found:
        yield found


class Following(threading.Thread):
    """A client of the live feed, on a connection of its own, until the runs have ended."""

    def __init__(self, stack: Stack, runs: list[UUID]) -> None:
        super().__init__(daemon=True)
        self.seen: dict[UUID, list[int]] = {run: [] for run in runs}
        self.error: Exception | None = None
        self._client = Client(stack.home.api_url(), stack.home.api_key())

    def run(self) -> None:
        try:
            with self._client as client:
                for message in client.live(list(self.seen)):
                    if isinstance(message, LiveEvent):
                        self.seen[message.stream].append(message.seq)
        except Exception as error:  # noqa: BLE001 - shown by the test, which has another thread
            self.error = error


def submit(stack: Stack, target: str, task: str, dataset: dict[str, Any]) -> UUID:
    given = {
        "target": {"model": f"steady-{target}"},
        "task": task,
        "dataset": dataset,
        "scenario": {"name": "offline", "in_flight": 2},
    }
    return stack.client.runs.create(RunEntry.model_validate(given)).id


def submit_load(stack: Stack) -> list[UUID]:
    """Submit questions on texts and on images, a run for each worker."""
    return [
        submit(stack, "a", "synthetic-questions", {"name": "synthetic-questions", "limit": SAMPLES}),
        submit(stack, "b", "document-qa", {"name": "synthetic-documents", "limit": SAMPLES}),
        submit(stack, "c", "document-kind", {"name": "synthetic-document-kinds", "limit": SAMPLES}),
    ]


def wait_until_all_work(stack: Stack) -> None:
    busy = "SELECT count(DISTINCT worker_id) FROM job WHERE kind = 'GENERATE' AND state = 'RUNNING' AND done > 0"
    until(lambda: stack.query(busy) == [(WORKERS,)], "answers of every worker", PATIENCE_S, last=stack.logs)


@contextmanager
def gone(stack: Stack, name: str, number: signal.Signals) -> Iterator[None]:
    """End a server by a signal; nobody starts it again until the block ends, because the stack's supervisor waits."""
    supervisor, server = stack.pid_of("supervisor"), stack.pid_of(name)
    os.kill(supervisor, signal.SIGSTOP)
    try:
        os.kill(server, number)
        wait_until_ended(server)
        began = time.monotonic()
        yield
        until(lambda: time.monotonic() - began >= CUT_S, "end of the outage", CUT_S + PATIENCE_S)
    finally:
        os.kill(supervisor, signal.SIGCONT)
    wait_until_back(stack)


@contextmanager
def hanging(stack: Stack, *names: str) -> Iterator[None]:
    """Stop servers with all their processes, which keep their connections, until the block ends."""
    servers = [psutil.Process(stack.pid_of(name)) for name in names]
    stopped = [process.pid for server in servers for process in (server, *server.children(recursive=True))]
    began = time.monotonic()
    for pid in stopped:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
        until(lambda: time.monotonic() - began >= CUT_S, "end of the outage", CUT_S + PATIENCE_S)
    finally:
        for pid in stopped:
            os.kill(pid, signal.SIGCONT)
    wait_until_back(stack)


def wait_until_back(stack: Stack) -> None:
    everything = {"database": True, "bus": True}
    until(lambda: stack.client.ready().checks == everything, "servers that are back", PATIENCE_S, last=stack.logs)


def ask(stack: Stack, method: str, path: str, body: object = None) -> httpx2.Response:
    """Ask the API as any HTTP client does, without the tries of the project's own one."""
    with httpx2.Client(timeout=_ANSWER_S, trust_env=False) as client:
        headers = {"X-API-Key": stack.home.api_key() or ""}
        return client.request(method, f"{stack.home.api_url()}/api/v1{path}", json=body, headers=headers)


def assert_says_database(stack: Stack, answer: httpx2.Response) -> None:
    assert answer.status_code == 503, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    problem = answer.json()
    assert problem["code"] == "unavailable"
    assert "database" in problem["message"]
    assert problem["cure"]
    assert "Traceback" not in answer.text
    assert stack.setting("database_url") not in answer.text


def assert_exactly_once(stack: Stack, runs: list[UUID], follower: Following) -> None:
    def unfinished() -> list[UUID]:
        # The pauses between the tries of a job, of up to 300 s, are cut short.
        stack.query("UPDATE job SET not_before = NULL WHERE not_before > now() RETURNING id")
        return [run for run in runs if stack.client.runs.get(run).state not in TERMINAL]

    until(lambda: not unfinished(), "the end of the runs", PATIENCE_S + 2 * CUT_S, last=stack.logs)
    ended = [stack.client.runs.get(run) for run in runs]
    assert [(run.state, run.reason) for run in ended] == [("SUCCEEDED", None)] * len(runs), stack.logs()
    assert [stack.rows(run.id) for run in ended] == [run.total for run in ended]
    audit(stack)
    follower.join(PATIENCE_S)
    assert follower.error is None
    events = {run: [seq for (seq,) in stack.query("SELECT seq FROM event WHERE stream_id = %s", run)] for run in runs}
    assert follower.seen == {run: sorted(seqs) for run, seqs in events.items()}  # each once, in order


@pytest.mark.timeout(300 + 8 * CUT_S)
def test_a_database_that_is_gone_for_a_while_costs_no_sample_and_is_said_to_be_missing(
    stack: Stack, program: Program
) -> None:
    runs = submit_load(stack)
    follower = Following(stack, runs)
    follower.start()
    wait_until_all_work(stack)
    before = {process.name: process.restarts for process in control.status(stack.home).processes}
    with gone(stack, "postgres", signal.SIGQUIT):  # what `pg_ctl stop -m immediate` does
        given = {"target": {"model": "steady-a"}, "task": "synthetic-questions"}
        for method, path, body in (("GET", "/runs", None), ("GET", f"/runs/{runs[0]}", None), ("POST", "/runs", given)):
            assert_says_database(stack, ask(stack, method, path, body))
        ready = ask(stack, "GET", "/ready")
        assert (ready.status_code, ready.json()["checks"]) == (503, {"database": False, "bus": True})
        assert ask(stack, "GET", "/health").status_code == 200
        status, doctor = program("status"), program("doctor")
        assert (status.returncode, doctor.returncode) == (exits.SETUP, exits.SETUP)
        assert any("database" in warning for warning in json.loads(status.stdout)["warnings"])
        checks = {check["name"]: check["is_ok"] for check in json.loads(doctor.stdout)["data"]}
        assert not checks["database"]
        assert checks["Redis"]
        assert checks["storage"]
    assert_exactly_once(stack, runs, follower)
    assert program("status").returncode == exits.OK
    restarted = {process.name: process.restarts for process in control.status(stack.home).processes}
    assert restarted.pop("postgres") == before.pop("postgres") + 1
    assert restarted == before  # every service waited, and none had to be started again


@pytest.mark.timeout(300 + 8 * CUT_S)
def test_a_broker_that_is_emptied_and_gone_and_servers_that_hang_cost_no_sample(stack: Stack, program: Program) -> None:
    runs = submit_load(stack)
    follower = Following(stack, runs)
    follower.start()
    wait_until_all_work(stack)
    with redis.Redis.from_url(stack.setting("redis_url")) as client:
        client.flushall()
    with gone(stack, "valkey", signal.SIGKILL):
        checks = {check["name"]: check["is_ok"] for check in json.loads(program("doctor").stdout)["data"]}
        assert (checks["Redis"], checks["database"]) == (False, True)
        later = submit(stack, "b", "synthetic-questions", {"name": "synthetic-questions", "limit": 20})
        ready = ask(stack, "GET", "/ready")
        assert (ready.status_code, ready.json()["checks"]) == (200, {"database": True, "bus": False})
    with hanging(stack, "postgres", "valkey"):
        assert_says_database(stack, ask(stack, "GET", "/runs"))
    assert_exactly_once(stack, runs, follower)
    assert stack.wait(later).state == "SUCCEEDED"
    audit(stack)
