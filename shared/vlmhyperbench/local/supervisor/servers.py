"""PostgreSQL and Valkey as the supervisor keeps them running: monitored, and restarted if they have died."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from datetime import UTC, datetime

from vlmhyperbench.errors import VlmHyperBenchError
from vlmhyperbench.local.server import EmbeddedServer
from vlmhyperbench.local.supervisor.supervised import FIRST_PAUSE_S, MAX_PAUSE_S

log = logging.getLogger(__name__)

_CHECK_INTERVAL_S = 1.0


class WatchedServer:
    """A server that is monitored, and restarted with back-off if it has died."""

    def __init__(self, name: str, server: EmbeddedServer, changed: Callable[[], None]) -> None:
        self.name = name
        self.server = server
        self.restarts = 0
        self.state = "starting"
        self.since = datetime.now(UTC)
        self._changed = changed

    @property
    def pid(self) -> int | None:
        """Process id of the server, or None while it is stopped."""
        return self.server.pid

    async def start(self) -> str:
        """Start the server and return its URL."""
        url = await asyncio.to_thread(self.server.start)
        self._enter("running")
        return url

    async def watch(self) -> None:
        """Restart the server whenever it has died, until cancelled."""
        pause = FIRST_PAUSE_S
        while True:
            await asyncio.sleep(_CHECK_INTERVAL_S)
            if self.server.is_running():
                pause = FIRST_PAUSE_S
                continue
            log.warning("%s has died and is restarted.", self.name)
            self.restarts += 1
            self._enter("restarting")
            try:
                await self.start()
            except (VlmHyperBenchError, OSError) as error:  # such as a full disk: tried again until it can be started
                log.warning("%s cannot be started: %s", self.name, error)
                await asyncio.sleep(pause)
                pause = min(pause * 2, MAX_PAUSE_S)

    async def stop(self) -> None:
        """Stop the server."""
        await asyncio.to_thread(self.server.stop)
        self._enter("stopped")

    def _enter(self, state: str) -> None:
        self.state = state
        self.since = datetime.now(UTC)
        self._changed()
