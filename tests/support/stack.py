"""A whole embedded stack for tests: started as its user starts it, with shortened timers and registries of the test."""

from __future__ import annotations

import json
import os
import shutil
import signal
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from uuid import UUID

import psycopg
import pytest
from sqlalchemy.engine import make_url

from tests.support.processes import PATIENCE_S
from vlmhyperbench.client import Client
from vlmhyperbench.errors import Unavailable
from vlmhyperbench.local.supervisor import control
from vlmhyperbench.local.supervisor.home import Home

ROOT = Path(__file__).parents[2]
TERMINAL = {"SUCCEEDED", "PARTIAL", "FAILED", "CANCELLED"}
# Leases are as long as a user's: a busy machine must not take a claim from a worker that lives, and a worker that was
# killed loses its claims at once.
TIMERS = {
    "HEARTBEAT_S": 0.5,
    "KILL_S": 0.5,
    "REAP_GRACE_S": 0.5,
    "UNCLAIMED_S": 3,
    "UNFIT_S": 2,
    "POLL_S": 1,
    "TICK_S": 0.5,
    "NO_REAP_S": 1,
    "STALE_WORKER_S": 4,
    "CANCEL_TERM_S": 2,
    "DRAIN_S": 5,
}


class Stack:
    """A running stack: its client, its database, its processes."""

    def __init__(self, home: Home) -> None:
        self.home = home
        self.client = Client(home.api_url(), home.api_key())

    def pid_of(self, name: str) -> int:
        """Return the process id of a part of the stack."""
        pids = {process.name: process.pid for process in control.status(self.home).processes}
        pid = pids.get(name)
        assert pid is not None, f"{name} is not among {pids}"
        return pid

    def kill(self, name: str, number: signal.Signals = signal.SIGKILL) -> int:
        """Send a signal to one process of the stack and return its pid."""
        pid = self.pid_of(name)
        os.kill(pid, number)
        return pid

    def query(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        """Read the stack's database."""
        url = make_url(self.setting("database_url")).set(drivername="postgresql")
        with psycopg.connect(url.render_as_string(hide_password=False)) as connection:
            return connection.execute(statement.encode(), values).fetchall()

    def setting(self, name: str) -> str:
        """Return one of the settings that the stack wrote for its services."""
        return str(json.loads(self.home.settings_file.read_text())[name])

    @property
    def listening_url(self) -> str:
        """The API at the address at which the stack listens for other machines, two ports before Redis."""
        redis_url = urlsplit(self.setting("worker_redis_url"))
        return f"https://{redis_url.hostname}:{(redis_url.port or 0) - 2}"

    def wait(self, run_id: UUID, *, states: set[str] = TERMINAL, timeout_s: float = PATIENCE_S) -> Any:
        """Wait until a run is in one of the states and return it."""
        return until(
            lambda: (run := self.client.runs.get(run_id)).state in states and run,
            f"run {run_id} in {sorted(states)}",
            timeout_s,
            last=lambda: self.client.runs.get(run_id).model_dump_json(exclude={"spec"}),
        )

    def wait_without_pauses(self, run_id: UUID) -> Any:
        """Wait until a run has ended, and cut short the pauses between the tries of its jobs, of up to 300 s."""

        def ended() -> Any:
            self.query("UPDATE job SET not_before = NULL WHERE run_id = %s AND not_before > now() RETURNING id", run_id)
            return (run := self.client.runs.get(run_id)).state in TERMINAL and run

        return until(ended, f"end of {run_id}", PATIENCE_S)

    def wait_experiment(self, experiment_id: UUID, timeout_s: float = PATIENCE_S) -> Any:
        """Wait until an experiment has ended and its report is there."""
        return until(
            lambda: (found := self.client.experiments.get(experiment_id)).state != "OPEN" and found,
            f"end of experiment {experiment_id}",
            timeout_s,
        )

    def wait_done(self, run_id: UUID, count: int, timeout_s: float = PATIENCE_S) -> Any:
        """Wait until a run has at least so many rows."""
        return until(
            lambda: (run := self.client.runs.get(run_id)).done >= count and run, f"{count} rows of {run_id}", timeout_s
        )

    def rows(self, run_id: UUID) -> int:
        """Facts of a run in phases that count."""
        return int(
            self.query(
                "SELECT count(*) FROM fact f JOIN phase p ON p.run_id = f.run_id AND p.no = f.phase "
                "WHERE f.run_id = %s AND p.kind NOT IN ('warmup', 'baseline') AND p.state <> 'VOID'",
                run_id,
            )[0][0]
        )

    def logs(self) -> str:
        """The end of every log, for a failed test."""
        return "\n".join(
            f"--- {path.name}\n{path.read_text()[-3000:]}" for path in sorted(self.home.logs.glob("*.log"))
        )


def until(holds: Callable[[], Any], what: str, timeout_s: float, last: Callable[[], object] = lambda: "") -> Any:
    """Poll until something is truthy and return it; say what was waited for when it never is."""
    deadline = time.monotonic() + timeout_s
    while not (found := _unless_away(holds)):
        assert time.monotonic() < deadline, f"After {timeout_s} s still no {what}. {_unless_away(last)}"
        time.sleep(0.1)
    return found


def _unless_away(ask: Callable[[], Any]) -> Any:
    """Ask; an API that is being restarted counts as not yet."""
    try:
        return ask()
    except Unavailable:
        return None


@contextmanager
def running_stack(
    registries: Path,
    *,
    services: Sequence[str] = (),
    listen: str | None = None,
    folder: Path | None = None,
    **environment: str,
) -> Iterator[Stack]:
    """Start a stack in a home of its own, in `folder` if there is one, and stop it.

    It ends with this process, also when that is killed.
    """
    root = Path(tempfile.mkdtemp(prefix="vlmhb-", dir=folder))
    kept = dict(os.environ)
    os.environ.update({f"VLMHB_TIMERS__{name}": str(value) for name, value in TIMERS.items()})
    os.environ.update({"VLMHB_HOME": str(root), "VLMHB_REGISTRIES": str(registries), **environment})
    home = Home(root)
    try:
        assert control.up(home, host="127.0.0.1", port=0, services=services, listen=listen, is_tied=True)
        found = Stack(home)
        with found.client:
            yield found
    finally:
        control.down(home)
        os.environ.clear()
        os.environ.update(kept)
        shutil.rmtree(root, ignore_errors=True)


@pytest.fixture(scope="module")
def registries(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The project's registries, copied, so that a test may add to them before its stack starts."""
    folder = tmp_path_factory.mktemp("registries") / "registries"
    shutil.copytree(ROOT / "registries", folder)
    return folder


@pytest.fixture(scope="module")
def stack(registries: Path) -> Iterator[Stack]:
    """A stack that the tests of a module share."""
    with running_stack(registries) as found:
        yield found
