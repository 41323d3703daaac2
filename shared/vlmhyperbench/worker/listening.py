"""Receive rings: the supervisor's socket, and the doorbell process that forwards rings to it."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from subprocess import DEVNULL

from vlmhyperbench.logs import get_logger
from vlmhyperbench.processes import start_child
from vlmhyperbench.queues.contracts import DOORBELL_URL

_LOG = get_logger(__name__)
_FIRST_PAUSE_S = 1.0
_MAX_PAUSE_S = 30.0
_STOP_S = 3.0
_MAX_PATH_BYTES = 100


@asynccontextmanager
async def open_ring_socket(folder: Path, name: str, on_ring: Callable[[], None]) -> AsyncIterator[Path]:
    """Listen on a private socket and call `on_ring` for every datagram, whose content is ignored.

    The socket is a file in `folder`, or in a new private folder if that path is too long for a socket; the file of an
    earlier boot is replaced.
    """
    with ExitStack() as stack:
        path = folder / f"{name}.socket"
        if len(os.fsencode(path)) > _MAX_PATH_BYTES:
            path = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="vlmhb-"))) / "socket"
        await asyncio.to_thread(_make_room, path)
        transport, _ = await asyncio.get_running_loop().create_datagram_endpoint(
            lambda: _RingProtocol(on_ring), local_addr=str(path), family=socket.AF_UNIX
        )
        stack.callback(path.unlink, missing_ok=True)
        stack.callback(transport.close)
        yield path


def _make_room(path: Path) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.unlink(missing_ok=True)


async def run_doorbell(redis_url: str, queue: str, ring_socket: Path, label: Mapping[str, str]) -> None:
    """Run the doorbell process until cancelled, and restart it after a growing pause if it ends."""
    pause_s = _FIRST_PAUSE_S
    argv = [sys.executable, "-m", "vlmhyperbench.worker.doorbell", str(ring_socket), queue]
    loop = asyncio.get_running_loop()
    while True:
        started_at = loop.time()
        child = await start_child(argv, env={**label, DOORBELL_URL: redis_url}, stdin=DEVNULL, stdout=DEVNULL)
        try:
            status = await child.wait()
        finally:
            await child.stop(term_s=_STOP_S)
        if loop.time() - started_at > _MAX_PAUSE_S:
            pause_s = _FIRST_PAUSE_S
        _LOG.warning("worker.doorbell_ended", status=status, again_in_s=pause_s)
        await asyncio.sleep(pause_s)
        pause_s = min(2 * pause_s, _MAX_PAUSE_S)


class _RingProtocol(asyncio.DatagramProtocol):
    def __init__(self, on_ring: Callable[[], None]) -> None:
        self._on_ring = on_ring

    def datagram_received(self, data: bytes, addr: object) -> None:  # noqa: ARG002 - the protocol's signature
        self._on_ring()
