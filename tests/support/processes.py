"""Start real services for a test with shortened timers, end each by its own id, and wait for ends of processes."""

from __future__ import annotations

import asyncio
import errno
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Self

import anyio

ROOT = Path(__file__).parents[2]

SHORT_TIMERS = {
    "HEARTBEAT_S": 0.4,
    "LEASE_S": 900.0,
    "SELF_FENCE_S": 800.0,
    "STATEMENT_TIMEOUT_S": 60.0,
    "KILL_S": 0.5,
    "REAP_GRACE_S": 0.2,
    "UNCLAIMED_S": 900.0,
    "POLL_S": 0.3,
    "TICK_S": 0.1,
    "NO_REAP_S": 0.5,
    "CANCEL_TERM_S": 0.5,
    "DRAIN_S": 5.0,
    "STALE_WORKER_S": 900.0,
}
"""Services react at once, and leases are so long that no busy machine exceeds them: a claim or an assignment that ends
before has another reason."""
EXPIRING = {
    "LEASE_S": 12.0,
    "SELF_FENCE_S": 7.0,
    "STATEMENT_TIMEOUT_S": 3.0,
    "UNCLAIMED_S": 8.0,
    "STALE_WORKER_S": 8.0,
}
"""Leases whose end a test waits for; a worker that lives keeps them if the machine lets it run every few seconds."""

PATIENCE_S = 180.0
"""How long a test waits for something that must happen; far above every bound that it asserts otherwise."""


async def eventually(condition: Callable[[], Awaitable[bool]], what: str) -> None:
    """Wait until a condition holds.

    Raises:
        AssertionError: it did not in time.
    """
    give_up_at = time.monotonic() + PATIENCE_S
    while not await condition():
        assert time.monotonic() < give_up_at, f"never happened: {what}"
        await anyio.sleep(0.05)


def is_alive(pid: int) -> bool:
    """Return whether a process runs. One whose exit status nobody has read yet does not."""
    return not _has_ended(pid, within_s=0)


def wait_until_ended(*pids: int) -> None:
    """Wait until processes have ended. A killed process goes on for a moment, and its sockets and locks with it.

    Raises:
        AssertionError: one has not in time.
    """
    for pid in pids:
        assert _has_ended(pid, within_s=PATIENCE_S), f"Process {pid} still runs after {PATIENCE_S:g} s."


def _has_ended(pid: int, *, within_s: float) -> bool:
    try:
        descriptor = os.pidfd_open(pid)
    except OSError as error:
        if error.errno not in {errno.ESRCH, errno.EINVAL}:  # EINVAL: its exit status is read at this moment
            raise
        return True
    try:
        ended = select.poll()
        ended.register(descriptor, select.POLLIN)
        return bool(ended.poll(within_s * 1000))
    finally:
        os.close(descriptor)


class Services:
    """Processes of one stack that a test started; all of them are ended at the end."""

    def __init__(
        self,
        home: Path,
        *,
        database_url: str,
        redis_url: str,
        timers: Mapping[str, float] | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._home = home
        self._environment = {
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "VLMHB_HOME": str(home),
            "VLMHB_DATABASE_URL": database_url,
            "VLMHB_REDIS_URL": redis_url,
            **{f"VLMHB_TIMERS__{name}": str(value) for name, value in {**SHORT_TIMERS, **(timers or {})}.items()},
            **(environment or {}),
        }
        self._started: list[subprocess.Popen[bytes]] = []

    def start(
        self,
        module: str,
        *arguments: str,
        name: str = "worker",
        devices: str = "",
        variables: Mapping[str, str] = {},
        within: Sequence[str] = (),
    ) -> subprocess.Popen[bytes]:
        """Start `python -m module`, by the command `within` if there is one; its stderr goes to the home's log."""
        with (self._home / "services.log").open("ab") as log:
            process = subprocess.Popen(
                [*within, sys.executable, "-m", module, *arguments],
                env={**self._environment, "VLMHB_WORKER_NAME": name, "VLMHB_DEVICES": devices, **variables},
                cwd=self._home,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        self._started.append(process)
        return process

    def scheduler(self) -> subprocess.Popen[bytes]:
        """Start the scheduler."""
        return self.start("vlmhyperbench_scheduler")

    def worker(self, mode: str, *, name: str, devices: str = "", within: Sequence[str] = ()) -> subprocess.Popen[bytes]:
        """Start the stub worker, with devices if they are named."""
        return self.start("tests.support.stub_worker", mode, name=name, devices=devices, within=within)

    def log(self) -> str:
        """Return what the services have said so far."""
        return (self._home / "services.log").read_text()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        for process in self._started:
            if process.poll() is None:
                process.send_signal(signal.SIGCONT)
                process.kill()
        for process in self._started:
            await asyncio.to_thread(process.wait)
