"""A child process that is kept running: started, monitored, restarted with back-off, and stopped on request."""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from vlmhyperbench.errors import Unavailable
from vlmhyperbench.local.supervisor.forked import Forked, ForkServer
from vlmhyperbench.local.supervisor.services import Service

log = logging.getLogger(__name__)

FIRST_PAUSE_S = 0.5
MAX_PAUSE_S = 30.0
HEALTHY_S = 30.0
"""Lifetime after which the back-off is reset: the child restarts after the first pause."""


class SupervisedService:
    """A service's current child process and its number of restarts."""

    def __init__(
        self,
        service: Service,
        *,
        fork_server: ForkServer,
        env: Mapping[str, str],
        log_file: Path,
        changed: Callable[[], None],
    ) -> None:
        self.service = service
        self.name = service.name
        self.restarts = 0
        self.state = "starting"
        self.status: int | None = None
        """Exit code of the last child that has ended."""
        self.since = datetime.now(UTC)
        self._fork_server = fork_server
        self._env = {**env, **service.env}
        self._log_file = log_file
        self._changed = changed
        self._child: Forked | None = None
        self._stopping = asyncio.Event()

    @property
    def pid(self) -> int | None:
        """Process id of the child, or None between two children."""
        return self._child.pid if self._child is not None and self._child.returncode is None else None

    async def keep(self) -> None:
        """Run the child, restarting it until `stop`."""
        pause = FIRST_PAUSE_S
        while not self._stopping.is_set():
            began = asyncio.get_running_loop().time()
            status = await self._run_once()
            self.status = status
            if self._stopping.is_set() or status in self.service.ends_with:
                break
            if asyncio.get_running_loop().time() - began >= HEALTHY_S:
                pause = FIRST_PAUSE_S
            log.warning("%s ended with status %s; starting it again in %.1f s.", self.name, status, pause)
            self.restarts += 1
            self._enter("restarting")
            with suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._stopping.wait()
            pause = min(pause * 2, MAX_PAUSE_S)
        self._enter("stopped")

    async def stop(self) -> None:
        """Stop the child and do not restart it."""
        self._stopping.set()
        child = self._child
        if child is not None and child.returncode is None:
            self._enter("stopping")
            await child.stop(term_s=self.service.stop_s)

    async def _run_once(self) -> int:
        try:
            child = await self._fork_server.fork(
                self.service.module, name=self.name, env=self._env, log_file=self._log_file
            )
        except (Unavailable, OSError) as error:
            log.warning("%s cannot be started: %s", self.name, error)
            return 127
        self._child = child
        if self._stopping.is_set():
            return await child.stop(term_s=self.service.stop_s)
        self._enter("running")
        status = await child.wait()
        child.send_signal(signal.SIGKILL)  # to processes that it may have left in its group
        return status

    def _enter(self, state: str) -> None:
        self.state = state
        self.since = datetime.now(UTC)
        self._changed()
