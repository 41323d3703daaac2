"""Shared by the embedded PostgreSQL and Valkey: folder locks, server processes, and ending orphan processes."""

from __future__ import annotations

import fcntl
import os
import secrets
import signal
import subprocess
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from typing import IO

from vlmhyperbench.files import replace, write_whole
from vlmhyperbench.processes import child_environment
from vlmhyperbench_sdk.errors import Conflict, Unavailable

_POLL_S = 0.02
_STOP_S = 30.0
_LOG_BYTES = 10 * 1024 * 1024
_TAIL_LINES = 5


class FolderLock:
    """An exclusive lock file in a server's folder; the kernel releases it however its owner ends."""

    def __init__(self, folder: Path, what: str) -> None:
        self._folder = folder
        self._what = what
        self._file: IO[str] | None = None

    def acquire(self) -> None:
        """Acquire the lock; does nothing if this object already holds it.

        Raises:
            Conflict: another owner holds it.
        """
        if self._file is not None:
            return
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._folder.chmod(0o700)
        file = (self._folder / "lock").open("a+")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            file.close()
            raise Conflict(
                f"Another process already runs {self._what} in {self._folder}.",
                cure="Stop that stack first, or set VLMHB_HOME to another folder.",
            ) from error
        self._file = file

    def release(self) -> None:
        """Release the lock; does nothing if it is not held."""
        if self._file is not None:
            self._file.close()
            self._file = None


class ServerProcess:
    """A running server process, started and awaited by a dedicated thread.

    Linux sends the parent-death signal when the *thread* that forked ends. The dedicated thread lives as long as the
    child, so a caller may start a server from a short-lived thread.
    """

    def __init__(self, argv: Sequence[str], *, log: Path, cwd: Path) -> None:
        self._argv = list(argv)
        self._log = log
        self._cwd = cwd
        self._ended = threading.Event()
        started: Future[int] = Future()
        threading.Thread(target=self._keep, args=(started,), name=f"keeper of {log.stem}", daemon=True).start()
        try:
            self.pid = started.result()
            """Process id of the server."""
        except OSError as error:
            raise Unavailable(
                f"{self._argv[0]} cannot be started: {error}.", cure="Install vlmhyperbench[embedded] again."
            ) from error

    def _keep(self, started: Future[int]) -> None:
        try:
            with open_log(self._log) as log:
                process = subprocess.Popen(
                    self._argv,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    cwd=self._cwd,
                    env=child_environment(),
                    start_new_session=True,
                )
        except OSError as error:
            started.set_exception(error)
            return
        started.set_result(process.pid)
        process.wait()
        self._ended.set()

    def is_running(self) -> bool:
        """Return whether the server has not ended."""
        return not self._ended.is_set()

    def stop(self, signals: Sequence[signal.Signals], *, each_s: float = _STOP_S) -> None:
        """Send each signal in turn and wait up to `each_s` after each; finally send SIGKILL to the group."""
        for number in (*signals, signal.SIGKILL):
            with suppress(ProcessLookupError):
                os.kill(self.pid, number) if number != signal.SIGKILL else os.killpg(self.pid, number)
            if self._ended.wait(each_s):
                return


class EmbeddedServer(ABC):
    """A server in its own folder, run as a child of this process."""

    def __init__(self, folder: Path, what: str, *, log_name: str) -> None:
        self._folder = folder.resolve()
        self._lock = FolderLock(self._folder, what)
        self._process: ServerProcess | None = None
        self.log = self._folder / log_name
        """The server's log file."""

    @property
    def pid(self) -> int | None:
        """Process id of the server, or None while it is stopped."""
        return self._process.pid if self.is_running() and self._process else None

    def is_running(self) -> bool:
        """Return whether the server was started and has not ended."""
        return self._process is not None and self._process.is_running()

    def start(self) -> str:
        """Start the server and return its URL; does nothing if it runs.

        An orphan server of a killed owner is stopped first. A call after the server has died restarts it with the same
        URL, if its address is still free.

        Raises:
            Conflict: another process runs the server of this folder.
            NotFound: the wheel with the server is not installed.
            Unavailable: the server does not start; the message quotes its log.
        """
        if self.is_running():
            return self.url
        self._lock.acquire()
        try:
            self._launch()
        except BaseException:  # also on Ctrl-C, nothing that was started may be left
            self.stop()
            raise
        return self.url

    @property
    @abstractmethod
    def url(self) -> str:
        """URL of the server, with the password."""

    @abstractmethod
    def stop(self) -> None:
        """Stop the server and release the lock of its folder."""

    @abstractmethod
    def _launch(self) -> None:
        """Start the server and wait until it is ready; the lock is held."""


def end_orphan(pid_file: Path, marker: Path, signals: Sequence[signal.Signals]) -> None:
    """End the orphan server of an earlier owner, if the pid file names a live process that works in this folder.

    A process that has reused the pid is not ended: neither its command line nor its folder is `marker`.
    """
    try:
        pid = int(pid_file.read_text().split("\n", 1)[0])
    except (OSError, ValueError):
        return
    for number in (*signals, signal.SIGKILL):
        if not _works_in(pid, marker):
            return
        with suppress(ProcessLookupError):
            os.kill(pid, number)
        deadline = time.monotonic() + _STOP_S
        while _works_in(pid, marker) and time.monotonic() < deadline:
            time.sleep(_POLL_S)


def wait_until_ready(
    process: ServerProcess, is_ready: Callable[[], bool], *, log: Path, what: str, timeout_s: float
) -> None:
    """Poll until the server is ready.

    Raises:
        Unavailable: the server ended or did not become ready in time; the message quotes the end of its log.
    """
    deadline = time.monotonic() + timeout_s
    while not is_ready():
        if not process.is_running() or time.monotonic() > deadline:
            state = "did not become ready" if process.is_running() else "ended while it was starting"
            raise Unavailable(f"{what} {state}: {tail(log)}", cure=f"Read {log}.")
        time.sleep(_POLL_S)


def read_or_make_password(path: Path) -> str:
    """Return the password stored in a 0600 file; the first call generates one of 256 random bits."""
    if not path.exists():
        write_private(path, secrets.token_hex(32))
    return path.read_text(encoding="utf-8").strip()


def write_private(path: Path, content: str) -> None:
    """Write a file atomically that only its owner can read."""
    write_whole(path, content.encode(), mode=0o600, is_durable=True)


def tail(log: Path) -> str:
    """Return the last lines of a log, joined into one line."""
    try:
        text = log.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return "(no log)"
    return " | ".join(text.strip().splitlines()[-_TAIL_LINES:]) or "(empty log)"


def open_log(path: Path) -> IO[bytes]:
    """Open a log for appending, readable by its owner only; a log over 10 MiB is rotated first."""
    if path.exists() and path.stat().st_size > _LOG_BYTES:
        replace(path, path.with_name(f"{path.name}.1"))
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "ab")


def _works_in(pid: int, marker: Path) -> bool:
    """Return whether a live process has `marker` as an argument or as its working folder."""
    proc = Path("/proc") / str(pid)
    try:
        if proc.joinpath("stat").read_text().rpartition(")")[2].split()[0] == "Z":
            return False
        arguments = proc.joinpath("cmdline").read_bytes().split(b"\0")
        return os.fsencode(marker) in arguments or proc.joinpath("cwd").readlink() == marker
    except (OSError, IndexError):
        return False
