"""Client of the fork server, for the supervisor: start services, wait for their end, stop them."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from vlmhyperbench.errors import Unavailable
from vlmhyperbench.local.server import open_log
from vlmhyperbench.processes import Child, child_environment, start_child

_STOP_S = 5.0
_KILLED = -int(signal.SIGKILL)


class Forked:
    """A running service and its process group."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        """Also the id of its process group."""
        self.returncode: int | None = None
        """Exit status, negative for a signal; None while it runs."""
        self._ended = asyncio.Event()

    async def wait(self) -> int:
        """Wait until the service has ended and return its exit status."""
        await self._ended.wait()
        return self.returncode or 0

    def send_signal(self, number: signal.Signals) -> None:
        """Send a signal to the whole group, or to the process if it has not created its group yet."""
        with suppress(ProcessLookupError):
            try:
                os.killpg(self.pid, number)
            except ProcessLookupError:
                if self.returncode is None:
                    os.kill(self.pid, number)

    async def stop(self, *, term_s: float) -> int:
        """Stop the service: send SIGTERM to the group, wait up to `term_s` seconds, then send SIGKILL to the group."""
        if self.returncode is None:
            self.send_signal(signal.SIGTERM)
            with suppress(TimeoutError):
                async with asyncio.timeout(term_s):
                    await self._ended.wait()
        self.send_signal(signal.SIGKILL)
        return await self.wait()

    def ended(self, status: int) -> None:
        """Record the exit status, reported by the fork server or implied by the end of the fork server."""
        self.returncode = status
        self._ended.set()


class ForkServer:
    """Starts services by a fork server, which has imported their shared modules; a server that died is restarted."""

    name = "fork-server"

    def __init__(self, log_file: Path) -> None:
        self.restarts = 0
        self.since = datetime.now(UTC)
        self._log_file = log_file
        self._child: Child | None = None
        self._reader: asyncio.Task[None] | None = None
        self._pending: list[asyncio.Future[Forked]] = []
        """Requests without a response, in the order in which they were sent."""
        self._services: dict[int, Forked] = {}
        self._lock = asyncio.Lock()

    @property
    def pid(self) -> int | None:
        """Process id of the fork server, or None if none runs."""
        return self._child.pid if self._child is not None and self._child.returncode is None else None

    @property
    def state(self) -> str:
        return "running" if self.pid is not None else "stopped"

    async def start(self) -> Child:
        """Return the process of the fork server, which is started if none runs; its imports are not awaited."""
        async with self._lock:
            if self._child is not None and self._reader is not None and not self._reader.done():
                return self._child
            with open_log(self._log_file) as output:
                argv = [sys.executable, "-m", "vlmhyperbench.local.supervisor.fork_server"]
                self.restarts += self._child is not None
                child = self._child = await start_child(argv, stderr=output)
                self.since = datetime.now(UTC)
            self._reader = asyncio.create_task(self._read(child))
            return child

    async def fork(self, module: str, *, name: str, env: Mapping[str, str], log_file: Path) -> Forked:
        """Run a module as by `python -m`, in its own session, which dies with the fork server.

        `env` is added to the scrubbed environment; what the module prints is appended to `log_file`.

        Raises:
            Unavailable: the fork server does not start, or has died.
        """
        child = await self.start()
        response: asyncio.Future[Forked] = asyncio.get_running_loop().create_future()
        self._pending.append(response)
        request = {"module": module, "name": name, "env": child_environment(env), "log_file": os.fspath(log_file)}
        child.stdin.write(json.dumps(request).encode() + b"\n")
        return await asyncio.shield(response)

    async def stop(self) -> None:
        """Stop the fork server and all services that still run."""
        if self._child is not None:
            self._child.stdin.close()
            with suppress(TimeoutError):
                async with asyncio.timeout(_STOP_S):
                    await self._child.wait()
            await self._child.stop(term_s=0)
        if self._reader is not None:
            await self._reader

    async def _read(self, child: Child) -> None:
        """Read which services have started and ended, until the server has ended, and all services with it."""
        try:
            while line := await child.stdout.readline():
                report = json.loads(line)
                if "status" in report:
                    self._services.pop(report["pid"]).ended(report["status"])
                else:
                    self._services[report["pid"]] = Forked(report["pid"])
                    self._pending.pop(0).set_result(self._services[report["pid"]])
        finally:
            for service in self._services.values():
                service.ended(_KILLED)
            self._services.clear()
            for response in self._pending:
                response.set_exception(Unavailable("The fork server ended.", cure=f"Read {self._log_file}."))
            self._pending.clear()
