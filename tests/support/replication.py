"""A PostgreSQL server with a streaming replica, both started from the programs of the wheel."""

from __future__ import annotations

import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg

from tests.support.processes import PATIENCE_S
from vlmhyperbench.local.postgres import as_ordinary_user, server_programs
from vlmhyperbench.local.server import ServerProcess
from vlmhyperbench.processes import child_environment, tied

USER = "postgres"
_FAST = (signal.SIGINT, signal.SIGQUIT)


@dataclass(slots=True)
class Server:
    """One PostgreSQL server, at a socket of its own folder, without passwords."""

    folder: Path
    database: str = "postgres"
    process: ServerProcess | None = None

    @property
    def url(self) -> str:
        return f"postgresql+psycopg://{USER}@/{self.database}?host={self.folder}"

    @property
    def plain_url(self) -> str:
        return self.url.replace("+psycopg", "")

    def start(self) -> None:
        """Start the server, and wait until it can be read."""
        settings = {
            "listen_addresses": "",
            "unix_socket_directories": str(self.folder),
            "wal_level": "replica",
            "max_wal_senders": "4",
            "hot_standby": "on",
            "shared_buffers": "16MB",
            "io_method": "sync",
            "fsync": "off",
            "wal_receiver_status_interval": "1s",
        }
        words = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        argv = [str(server_programs() / "postgres"), "-D", str(self.folder / "data"), *words]
        command = [*as_ordinary_user(), *tied(argv, death_signal=signal.SIGINT)]
        self.process = ServerProcess(command, log=self.folder / "log", cwd=self.folder)
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                self.query("SELECT 1")
            except psycopg.OperationalError:
                assert time.monotonic() < deadline, (self.folder / "log").read_text()
                time.sleep(0.05)
            else:
                return

    def stop(self) -> None:
        """Stop the server; it can be started again."""
        if self.process is not None:
            self.process.stop(_FAST)
            self.process = None

    def query(self, statement: str) -> object:
        """Run a statement as the superuser, and return the first value of its result."""
        with psycopg.connect(self.plain_url, autocommit=True) as connection:
            cursor = connection.execute(statement.encode())
            row = cursor.fetchone() if cursor.description else None
            return row[0] if row else None


@contextmanager
def replicated(folder: Path, database: str) -> Iterator[tuple[Server, Server]]:
    """Yield a primary with an empty database, and its streaming replica."""
    primary, replica = Server(folder / "p"), Server(folder / "r")
    primary.folder.mkdir()
    replica.folder.mkdir()
    _run("initdb", "-D", str(primary.folder / "data"), "-U", USER, "-A", "trust", "--no-sync", "-c", "io_method=sync")
    try:
        primary.start()
        primary.query(f'CREATE DATABASE "{database}"')
        primary.database = replica.database = database
        where = ("-h", str(primary.folder), "-U", USER)
        _run("pg_basebackup", *where, "-D", str(replica.folder / "data"), "-R", "-X", "stream", "-c", "fast")
        replica.start()
        yield primary, replica
    finally:
        replica.stop()
        primary.stop()
        shutil.rmtree(folder, ignore_errors=True)


def _run(program: str, *words: str) -> None:
    argv = [*as_ordinary_user(), str(server_programs() / program), *words]
    done = subprocess.run(argv, check=False, capture_output=True, text=True, env=child_environment())
    assert done.returncode == 0, done.stderr
