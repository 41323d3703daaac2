"""Who else measures on this machine, of whatever stack or command: measurements greet each other over sockets.

Each binds an abstract socket of Linux while it sends, which has a name and no file. One that begins finds the others in
the kernel's list and greets them; they answer. So both know of each other, whoever ends first, and the kernel removes
the socket with its process. Containers with a network of their own are not seen, nor are other systems than Linux.
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

GROUP = "VLMHB_MEASURING_GROUP"
"""Environment variable: measurements of another group are not seen. Tests that run side by side each have one."""
_LIST = Path("/proc/net/unix")
_MAX_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Neighbour:
    """Another measurement on this machine."""

    mark: str
    """What tells it from others; for a run it is the id of its claim."""
    pid: int | None = None
    """Process id of whoever said so; None where it has not answered."""
    ground: Ground
    """What it stands on; one that has not answered has declared no cores."""


class Neighbours:
    """Those that measure while this one does; made in a running event loop."""

    def __init__(self, mark: str, ground: Ground) -> None:
        self._mark, self._ground = mark, ground
        self._found: dict[str, Neighbour] = {}
        self._socket: socket.socket | None = None
        if sys.platform != "linux":
            return
        self._prefix = f"vlmhyperbench-measures-{os.environ.get(GROUP, '')[:32]}-"
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        # Bound before anybody is greeted: of two that begin at once, one sees the other at least.
        self._socket.bind(f"\0{self._prefix}{mark}")
        asyncio.get_running_loop().add_reader(self._socket, self._hear)
        for other in self._others():
            self._found[other] = Neighbour(mark=other, ground=Ground(machine=ground.machine))
            self._say(f"\0{self._prefix}{other}", is_greeting=True)

    @property
    def disturbers(self) -> list[Neighbour]:
        """Those that share an accelerator or a core with this one, in order of their marks."""
        found = [other for other in self._found.values() if not other.ground.is_apart_from(self._ground)]
        return sorted(found, key=lambda neighbour: neighbour.mark)

    def leave(self) -> None:
        """Hear what has come, and be seen no longer; may be called again."""
        if self._socket is not None:
            self._hear()
            asyncio.get_running_loop().remove_reader(self._socket)
            self._socket.close()
            self._socket = None

    def _others(self) -> list[str]:
        try:
            lines = _LIST.read_text(encoding="utf-8", errors="replace").splitlines()
        except OSError:
            return []
        marks = {line.rpartition(f" @{self._prefix}")[2] for line in lines if f" @{self._prefix}" in line}
        return sorted(marks - {self._mark})

    def _say(self, address: str, *, is_greeting: bool) -> None:
        assert self._socket is not None  # noqa: S101 -- narrows the type
        said = {
            "mark": self._mark,
            "pid": os.getpid(),
            "cores": sorted(self._ground.cores),
            "gpus": sorted(self._ground.gpus),
            "is_greeting": is_greeting,
        }
        with suppress(OSError):  # it has ended, or so many greet it that it knows without this one
            self._socket.sendto(json.dumps(said).encode(), address)

    def _hear(self) -> None:
        assert self._socket is not None  # noqa: S101 -- narrows the type
        while True:
            try:
                data, address = self._socket.recvfrom(_MAX_BYTES)
            except OSError:
                return
            with suppress(ValueError, KeyError, TypeError, AttributeError):  # nothing of ours wrote it
                said: dict[str, Any] = json.loads(data)
                ground = Ground(
                    machine=self._ground.machine, gpus=frozenset(said["gpus"]), cores=frozenset(said["cores"])
                )
                self._found[str(said["mark"])] = Neighbour(mark=str(said["mark"]), pid=int(said["pid"]), ground=ground)
                if said["is_greeting"]:
                    self._say(os.fsdecode(address) if isinstance(address, bytes) else address, is_greeting=False)


@contextmanager
def among_neighbours(mark: str, ground: Ground) -> Iterator[Neighbours]:
    """Be seen, and see who else measures, until the end of the block or `leave`."""
    neighbours = Neighbours(mark, ground)
    try:
        yield neighbours
    finally:
        neighbours.leave()
