"""`python -m …fork_server`: a process that imports the services' shared modules once, and forks each service.

Importing the database's, the broker's and the worker's libraries costs seconds of CPU, and six processes would do it
at once when a stack starts. This process does it once and holds nothing else (no thread, no connection, no device).
Each service is forked from it, so that it starts in a fraction of the time and shares that memory.

Each JSON line on stdin requests a service: `{"module", "name", "env", "log_file"}`. On stdout it responds with
`{"pid"}`, in order, and reports `{"pid", "status"}` whenever a service has ended. It ends when stdin is closed, and its
services end with it.
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import runpy
import select
import signal
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import TypedDict

from vlmhyperbench.local.server import open_log

SHARED = (
    "vlmhyperbench.logs",
    "vlmhyperbench.runtime",
    "vlmhyperbench.worker.supervisor",
)
"""Modules that every service imports. They must start no thread and open no device, because the process is forked."""

_OF_SERVICES = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""Signals that end a service and that this process ignores: it ends with its stdin."""
_PR_SET_PDEATHSIG = 1
_PR_SET_NAME = 15
_COMM_BYTES = 15


class Request(TypedDict):
    """A service to fork: the module to run as by `python -m`, its name, environment and log file."""

    module: str
    name: str
    env: dict[str, str]
    log_file: str


def main() -> None:
    """Serve until stdin ends; in a forked child, become the service."""
    for name in SHARED:
        import_module(name)
    gc.collect()
    gc.freeze()  # garbage collection would touch, and so copy, pages shared with the forked services
    for number in _OF_SERVICES:
        signal.signal(number, signal.SIG_IGN)
    # Blocked rather than only ignored: a child that gets the signal before it is the service would lose it.
    signal.pthread_sigmask(signal.SIG_BLOCK, _OF_SERVICES)
    request = _serve()
    if request is not None:
        _become(request)


def _serve() -> Request | None:
    """Fork requested services and report ended ones; return the request in the child, None at the end of stdin."""
    server = os.getpid()
    woken, wake = os.pipe()
    os.set_blocking(woken, False)
    os.set_blocking(wake, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    lines = _Lines()
    while True:
        ready, _, _ = select.select([0, woken], [], [])
        if woken in ready:
            os.read(woken, 4096)
            for pid, status in _ended():
                _report(pid=pid, status=status)
        if 0 in ready:
            asked = lines.read()
            if asked is None:
                return None
            for line in asked:
                pid = os.fork()
                if pid == 0:
                    signal.set_wakeup_fd(-1)
                    os.close(woken)
                    os.close(wake)
                    _die_with(server)
                    asked_for: Request = json.loads(line)
                    return asked_for
                _report(pid=pid)


class _Lines:
    """Reads whole lines of stdin without a shared buffer, which a child would inherit partly read."""

    def __init__(self) -> None:
        self._rest = b""

    def read(self) -> list[bytes] | None:
        """Return the lines that are complete by now; None at the end of stdin."""
        data = os.read(0, 65536)
        if not data:
            return None
        *lines, self._rest = (self._rest + data).split(b"\n")
        return lines


def _ended() -> Iterator[tuple[int, int]]:
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        yield pid, os.waitstatus_to_exitcode(status)


def _report(**fields: int) -> None:
    os.write(1, json.dumps(fields).encode() + b"\n")


def _die_with(server: int) -> None:
    """Request SIGKILL for the fork server's end; comparing the parent's pid covers an end before the request."""
    os.setsid()
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != server:
        sys.exit("The fork server ended before this service had started.")


def _become(request: Request) -> None:
    """Run the module in the way of `python -m MODULE`."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    for number in _OF_SERVICES:
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _OF_SERVICES)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ.clear()
    os.environ.update(request["env"])
    _redirect(Path(request["log_file"]))
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_NAME, f"vlmhb-{request['name']}".encode()[:_COMM_BYTES], 0, 0, 0)
    sys.argv = [request["module"]]
    runpy.run_module(request["module"], run_name="__main__", alter_sys=True)


def _redirect(path: Path) -> None:
    """Redirect stdin to nothing, and stdout and stderr to the log."""
    with open_log(path) as log, Path(os.devnull).open("rb") as nothing:
        for number, source in enumerate((nothing, log, log)):
            os.dup2(source.fileno(), number)


if __name__ == "__main__":
    main()
