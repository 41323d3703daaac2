"""A proxy with N slots before the simulated server, so that its capacity is N divided by the time of an answer.

`python slots.py PORT SLOTS` in a process of its own passes whole requests on to the server on PORT, first come, first
served, at most SLOTS at a time, each over a connection of its own, and passes the bytes of the answers back unchanged.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path
from typing import IO, Self, cast

from vlmhyperbench_simulated.process import SimulatedProcess
from vlmhyperbench_simulated.simulation import Simulation

_END = b"0\r\n\r\n"


class SlotServer:
    """`with SlotServer(simulation, slots=2) as server:` serves at `server.url`, two answers at a time."""

    def __init__(self, simulation: Simulation, *, slots: int) -> None:
        self._engine = SimulatedProcess(simulation)
        self._slots = slots
        self._gate: subprocess.Popen[str] | None = None
        self.url = ""

    def __enter__(self) -> Self:
        self._engine.__enter__()
        argv = [sys.executable, str(Path(__file__)), str(self._engine.port), str(self._slots)]
        self._gate = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)
        self.url = f"http://127.0.0.1:{int(cast('IO[str]', self._gate.stdout).readline())}"
        return self

    def __exit__(self, *_: object) -> None:
        assert self._gate is not None
        self._gate.terminate()
        self._gate.communicate()
        self._engine.__exit__()


async def _serve(port: int, slots: int) -> None:
    free = asyncio.Semaphore(slots)

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while head := await _head(reader):
            lines = head.lower().split(b"\r\n")
            length = next((int(line.partition(b":")[2]) for line in lines if line.startswith(b"content-length:")), 0)
            body = await reader.readexactly(length)
            async with free:
                await _pass_on(port, head + body, writer)
        writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    async with server:
        await server.serve_forever()


async def _head(reader: asyncio.StreamReader) -> bytes:
    try:
        return await reader.readuntil(b"\r\n\r\n")
    except (asyncio.IncompleteReadError, ConnectionResetError):
        return b""


async def _pass_on(port: int, request: bytes, writer: asyncio.StreamWriter) -> None:
    reader, upstream = await asyncio.open_connection("127.0.0.1", port)
    upstream.write(request)
    tail = b""
    try:
        while not tail.endswith(_END) and (data := await reader.read(65_536)):
            writer.write(data)
            tail = (tail + data)[-len(_END) :]
        await writer.drain()
    except ConnectionError:
        # The client has gone; the slot is free again.
        return
    finally:
        upstream.close()


if __name__ == "__main__":
    asyncio.run(_serve(int(sys.argv[1]), int(sys.argv[2])))
