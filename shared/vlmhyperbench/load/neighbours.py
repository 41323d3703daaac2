"""Find other measurements on this machine, of any stack or command; they announce themselves over sockets.

While a measurement sends requests, it binds an abstract Unix socket of Linux, which has a name and no file. A
measurement that starts finds the others in the kernel's list of sockets and sends each a greeting, which it answers. So
both know of each other, whichever ends first, and the kernel removes the socket when its process ends. Containers with
a network of their own are not seen, nor are other systems than Linux.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vlmhyperbench.domain.ground import Ground

GROUP = "VLMHYPERBENCH_MEASURING_GROUP"
"""Environment variable: only measurements of the same group see each other. Tests that run at once use one each.

Its name does not begin with VLMHB_, because workers remove such variables: they may be credentials.
"""
_SOCKETS = Path("/proc/net/unix")
_MAX_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Neighbour:
    """Another measurement on this machine."""

    mark: str
    """Unique id of the measurement; for a job, the id of its claim."""
    pid: int | None = None
    """Process id; None while it has not answered."""
    ground: Ground
    """The hardware that it uses; without cores while it has not answered."""


class Neighbours:
    """The measurements that overlap with this one. It must be created in a running event loop."""

    def __init__(self, mark: str, ground: Ground) -> None:
        self._mark, self._ground = mark, ground
        self._known: dict[str, Neighbour] = {}
        self._socket: socket.socket | None = None
        if sys.platform != "linux":
            return
        self._prefix = f"vlmhyperbench-measures-{os.environ.get(GROUP, '')[:32]}-"
        self._socket = own = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        # Bound before the greetings are sent: of two measurements that start at once, at least one sees the other.
        own.bind(f"\0{self._prefix}{mark}")
        asyncio.get_running_loop().add_reader(own, self._receive, own)
        for other in self._other_marks():
            self._known[other] = Neighbour(mark=other, ground=Ground(machine=ground.machine))
            self._send(own, f"\0{self._prefix}{other}", is_greeting=True)

    @property
    def disturbers(self) -> list[Neighbour]:
        """The neighbours that share an accelerator or a core with this measurement, ordered by their marks."""
        sharing = [other for other in self._known.values() if not other.ground.is_apart_from(self._ground)]
        return sorted(sharing, key=lambda neighbour: neighbour.mark)

    def leave(self) -> None:
        """Read the messages that have arrived and remove the socket; later calls do nothing."""
        if self._socket is not None:
            self._receive(self._socket)
            asyncio.get_running_loop().remove_reader(self._socket)
            self._socket.close()
            self._socket = None

    def _other_marks(self) -> list[str]:
        try:
            lines = _SOCKETS.read_text(encoding="utf-8", errors="replace").splitlines()
        except OSError:
            return []
        marks = {line.rpartition(f" @{self._prefix}")[2] for line in lines if f" @{self._prefix}" in line}
        return sorted(marks - {self._mark})

    def _send(self, own: socket.socket, address: str, *, is_greeting: bool) -> None:
        message = {
            "mark": self._mark,
            "pid": os.getpid(),
            "cores": sorted(self._ground.cores),
            "gpus": sorted(self._ground.gpus),
            "is_greeting": is_greeting,
        }
        with suppress(OSError):  # the other has ended, or its receive buffer is full of other greetings
            own.sendto(json.dumps(message).encode(), address)

    def _receive(self, own: socket.socket) -> None:
        while True:
            try:
                data, address = own.recvfrom(_MAX_BYTES)
            except OSError:
                return
            with suppress(ValueError, KeyError, TypeError, AttributeError):  # not a message of a measurement
                message: dict[str, Any] = json.loads(data)
                ground = Ground(
                    machine=self._ground.machine, gpus=frozenset(message["gpus"]), cores=frozenset(message["cores"])
                )
                mark = str(message["mark"])
                self._known[mark] = Neighbour(mark=mark, pid=int(message["pid"]), ground=ground)
                if message["is_greeting"]:
                    reply_to = os.fsdecode(address) if isinstance(address, bytes) else address
                    self._send(own, reply_to, is_greeting=False)


@contextmanager
def among_neighbours(mark: str, ground: Ground) -> Iterator[Neighbours]:
    """Announce this measurement and collect the others, until the end of the block or until `leave` is called."""
    neighbours = Neighbours(mark, ground)
    try:
        yield neighbours
    finally:
        neighbours.leave()
