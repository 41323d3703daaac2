"""Start the embedded stack in order, keep it running, stop it in reverse order."""

from __future__ import annotations

import asyncio
import http.client
import json
import logging
import os
import secrets
import socket
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress

import psutil

from vlmhyperbench.errors import Unavailable, VlmHyperBenchError
from vlmhyperbench.local.certificates import Certificates
from vlmhyperbench.local.listening import Listening
from vlmhyperbench.local.postgres import DATABASE, Postgres
from vlmhyperbench.local.server import EmbeddedServer, read_or_make_password, tail, write_private
from vlmhyperbench.local.supervisor.forked import ForkServer
from vlmhyperbench.local.supervisor.home import Home
from vlmhyperbench.local.supervisor.servers import WatchedServer
from vlmhyperbench.local.supervisor.services import (
    METRICS_PORT,
    Service,
    environment_of_services,
    metrics_ports,
    services_for_other_machines,
    write_targets,
)
from vlmhyperbench.local.supervisor.storing import check_own, chosen_storage
from vlmhyperbench.local.supervisor.supervised import SupervisedService
from vlmhyperbench.local.valkey import Valkey
from vlmhyperbench.settings import store
from vlmhyperbench_sdk.types import JsonValue

log = logging.getLogger(__name__)

Report = Callable[[Mapping[str, str]], None]
"""Callback for start-up reports: `{event: starting | ready | failed | stopped, …}`."""

READY_S = 90.0
_PREPARE = "vlmhyperbench.local.supervisor.prepare"
_PREPARE_S = 120.0
_GIVE_UP_RESTARTS = 3
"""Number of restarts of a service during start-up after which starting the stack is given up."""


class Stack:
    """The processes of a home; `run` returns when `stop` is set and all processes have ended."""

    def __init__(
        self,
        home: Home,
        *,
        host: str = "127.0.0.1",
        port: int = 8760,
        stages: Sequence[Sequence[Service]],
        listening: Listening | None = None,
        report: Report,
    ) -> None:
        self._home = home
        self._host = host
        self._port = port
        self._report = report
        self._listening = listening
        self._certificates = Certificates(home.root / "tls")
        self._stages = stages
        if listening is not None:
            self._stages = (*stages, services_for_other_machines(listening, self._certificates))
        self._services: list[list[SupervisedService]] = []
        self._servers: list[WatchedServer] = []
        self._is_up = False
        self._fork_server = ForkServer(home.log_of("fork-server"))

    async def run(self, stop: asyncio.Event) -> None:
        """Start the stack, keep it running, and stop it.

        Raises:
            Conflict: this home has joined the stack of another machine.
            Unavailable: the stack does not start; the started processes are stopped again.
        """
        check_own(self._home)
        self._port = _choose_port(self._host, self._port)
        if self._listening is not None:
            self._prepare_listening(self._listening)
        failure: VlmHyperBenchError | None = None
        async with AsyncExitStack() as leaving:
            leaving.callback(self._home.processes_file.unlink, missing_ok=True)
            try:
                await self._start(leaving, stop)
            except VlmHyperBenchError as error:
                failure = error  # raised after all processes have ended, outside the task groups, which would wrap it
            else:
                await stop.wait()
            self._report({"event": "stopping"})
        if failure is not None:
            raise failure

    async def _start(self, leaving: AsyncExitStack, stop: asyncio.Event) -> None:
        leaving.push_async_callback(self._fork_server.stop)
        await self._fork_server.start()
        database_url = await self._serve(leaving, "postgres", Postgres(self._home.root / "postgres"))
        redis_url = await self._serve(leaving, "valkey", Valkey(self._home.root / "valkey"))
        self._write_settings(database_url, redis_url)
        if stop.is_set():
            return
        await self._prepare()
        await leaving.enter_async_context(self._keeping())
        await self._until_ready(stop)
        if not stop.is_set():
            self._is_up = True
            self._write_processes()
            self._report({"event": "ready", "url": self.url, **self._reached_at()})
            log.info("The stack is ready at %s.", self.url)

    @property
    def url(self) -> str:
        """Base URL of the API."""
        return f"http://{self._host}:{self._port}"

    async def _serve(self, leaving: AsyncExitStack, name: str, server: EmbeddedServer) -> str:
        self._report({"event": "starting", "what": name})
        watched = WatchedServer(name, server, self._write_processes)
        self._servers.append(watched)
        leaving.push_async_callback(watched.stop)
        url = await watched.start()
        await leaving.enter_async_context(_running(watched.watch()))
        return url

    def _prepare_listening(self, listening: Listening) -> None:
        for port in (listening.port, listening.postgres_port, listening.redis_port):
            _choose_port(listening.host, port, cure=listening.port_cure)
        try:
            self._certificates.prepare({listening.host, socket.gethostname()})
        except OSError as error:
            message = f"The certificates in {self._home.root / 'tls'} cannot be made: {error.strerror or error}."
            raise Unavailable(message, cure="Correct the permissions of the folder, or free some space.") from error

    def _reached_at(self) -> dict[str, str]:
        """Return what other machines need to join."""
        if self._listening is None:
            return {}
        return {"listening": self._listening.url, "ca_file": str(self._certificates.ca_file)}

    def _write_settings(self, database_url: str, redis_url: str) -> None:
        values: dict[str, JsonValue] = {
            "database_url": database_url,
            "redis_url": redis_url,
            "allow_loopback_targets": True,
            "key_pepper": read_or_make_password(self._home.run / "pepper"),
            "api_host": self._host,
            "api_port": self._port,
            **chosen_storage(self._home),
        }
        if self._listening is not None:
            values["worker_database_url"] = self._listening.postgres_url(DATABASE)
            values["worker_redis_url"] = self._listening.redis_url()
            values["tls_ca_file"] = str(self._certificates.ca_file)
        store(self._home.root, values)
        keys = {self._home.api_key_file: self._home.api_key(), self._home.metrics_key_file: self._home.metrics_key()}
        for path, key in keys.items():
            if key is None:
                write_private(path, f"vlmhb{secrets.token_hex(4)}_{secrets.token_urlsafe(32)}")

    async def _prepare(self) -> None:
        """Migrate the database and register the key in a child process, so that its imports do not stay in memory."""
        self._report({"event": "starting", "what": "migrations"})
        path = self._home.log_of("prepare")
        path.unlink(missing_ok=True)
        child = await self._fork_server.fork(_PREPARE, name="prepare", env=self._environment(), log_file=path)
        try:
            async with asyncio.timeout(_PREPARE_S):
                status = await child.wait()
        except TimeoutError:
            status = await child.stop(term_s=0)
        if status != 0:
            raise Unavailable(f"The database cannot be prepared: {tail(path)}", cure=f"Read {path}.")

    @asynccontextmanager
    async def _keeping(self) -> AsyncIterator[None]:
        """Start the services stage by stage, and stop them in reverse order on exit."""
        async with asyncio.TaskGroup() as group:
            ports = metrics_ports(self._stages, os.environ.get(METRICS_PORT, ""))
            write_targets(self._home, f"{self._host}:{self._port}", ports)
            for stage in self._stages:
                started = [
                    SupervisedService(
                        service,
                        fork_server=self._fork_server,
                        env=self._environment() | ports.get(service.name, {}),
                        log_file=self._home.log_of(service.name),
                        changed=self._write_processes,
                    )
                    for service in stage
                ]
                self._services.append(started)
                for service in started:
                    self._report({"event": "starting", "what": service.name})
                    group.create_task(service.keep())
            try:
                yield
            finally:
                for stage_services in reversed(self._services):
                    await asyncio.gather(*(service.stop() for service in stage_services))

    async def _until_ready(self, stop: asyncio.Event) -> None:
        deadline = time.monotonic() + READY_S
        services = [service for stage in self._services for service in stage]
        while not stop.is_set():
            if await asyncio.to_thread(self._is_ready, services):
                return
            failing = next((service for service in services if service.restarts >= _GIVE_UP_RESTARTS), None)
            if failing is not None or time.monotonic() > deadline:
                name = failing.name if failing is not None else "api"
                path = self._home.log_of(name)
                raise Unavailable(f"The {name} process does not start: {tail(path)}", cure=f"Read {path}.")
            with suppress(TimeoutError):
                async with asyncio.timeout(0.1):
                    await stop.wait()

    def _is_ready(self, services: Sequence[SupervisedService]) -> bool:
        """Return whether this stack's own API responds; another stack may have taken the port in the meantime."""
        pid = next((service.pid for service in services if service.name == "api"), None)
        return pid is not None and _answers_ready(self._host, self._port) and _listens(pid, self._port)

    def _environment(self) -> dict[str, str]:
        return environment_of_services(home=str(self._home.root), api_port=self._port)

    def _write_processes(self) -> None:
        parts: list[WatchedServer | SupervisedService | ForkServer] = [
            self._fork_server,
            *self._servers,
            *(service for stage in self._services for service in stage),
        ]
        rows = [
            {
                "name": part.name,
                "pid": part.pid,
                "state": part.state,
                "restarts": part.restarts,
                "since": part.since.isoformat(),
            }
            for part in parts
        ]
        text = json.dumps({"pid": os.getpid(), "url": self.url, "is_ready": self._is_up, "processes": rows})
        try:
            write_private(self._home.processes_file, text)
        except OSError as error:
            log.warning("%s cannot be written: %s", self._home.processes_file, error)


@asynccontextmanager
async def _running(work: Coroutine[None, None, None]) -> AsyncIterator[None]:
    """Run a coroutine concurrently with the block, and cancel it on exit."""
    async with asyncio.TaskGroup() as group:
        task = group.create_task(work)
        try:
            yield
        finally:
            task.cancel()


def _choose_port(
    host: str, port: int, *, cure: str = "Stop what uses it, or set VLMHB_API_PORT to a free port (0 chooses one)."
) -> int:
    """Return the port, or a free port for 0.

    Raises:
        Unavailable: another process listens on it, or the address is not of this machine.
    """
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            raise Unavailable(
                f"Port {port} on {host} cannot be used: {error.strerror or error}.",
                cure=cure,
                code="port_in_use",
            ) from error
        return int(probe.getsockname()[1])


def _listens(pid: int, port: int) -> bool:
    try:
        sockets = psutil.Process(pid).net_connections("tcp")
    except psutil.Error:
        return False
    return any(socket.status == psutil.CONN_LISTEN and socket.laddr.port == port for socket in sockets)


def _answers_ready(host: str, port: int) -> bool:
    connection = http.client.HTTPConnection(host, port, timeout=2)
    try:
        connection.request("GET", "/api/v1/ready")
        return connection.getresponse().status == http.client.OK
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()
