from __future__ import annotations

import asyncio
import errno
from pathlib import Path

import pytest

from tests.support.processes import eventually
from vlmhyperbench.local.server import EmbeddedServer
from vlmhyperbench.local.supervisor.servers import WatchedServer

pytestmark = pytest.mark.anyio


class DiesOnFullDisk(EmbeddedServer):
    """A server that has died, and cannot write its files at the first try to start it again."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, "server", log_name="log")
        self.tries = 0

    @property
    def url(self) -> str:
        return "test://"

    def is_running(self) -> bool:
        return self.tries > 1

    def stop(self) -> None:
        self._lock.release()

    def _launch(self) -> None:
        self.tries += 1
        if self.tries == 1:
            raise OSError(errno.ENOSPC, "No space left on device")


async def test_a_server_that_a_full_disk_keeps_from_starting_is_tried_again(tmp_path: Path) -> None:
    server = DiesOnFullDisk(tmp_path)
    watched = WatchedServer("server", server, lambda: None)
    watching = asyncio.create_task(watched.watch())

    async def is_back() -> bool:
        return watching.done() or watched.state == "running"

    await eventually(is_back, "the server runs")
    assert not watching.done()
    assert (server.tries, watched.restarts) == (2, 2)
    watching.cancel()
    server.stop()
