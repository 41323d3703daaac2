"""`python -m …fork_server`: a process that has imported what the services share, and forks each of them.

Importing the database's, the broker's and the worker's libraries costs seconds of CPU, and six processes would do it
at once when a stack starts. This one does it once, holds nothing else (no thread, no connection, no device), and each
service goes on from there: it starts in a fraction of the time and shares that memory.

One JSON line on stdin asks for a service, `{"module", "name", "env", "log_file"}`; stdout answers `{"pid"}`, in order,
and says `{"pid", "status"}` whenever one has ended. It ends when stdin does, and its services with it.
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
"""What every service imports. Nothing here may start a thread or open a device: it is forked."""

_PR_SET_PDEATHSIG = 1
_PR_SET_NAME = 15
_COMM_BYTES = 15


class Request(TypedDict):
    """Which module to run as `python -m` would, under which name and environment, and where its output goes."""

    module: str
    name: str
    env: dict[str, str]
    log_file: str


def main() -> None:
    """Serve until stdin ends; in a forked child, become the service."""
    for name in SHARED:
        import_module(name)
    gc.collect()
    gc.freeze()  # what is never collected is never copied
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # they are for the services; this process ends with its stdin
    request = _serve()
    if request is not None:
        _become(request)


def _serve() -> Request | None:
    """Fork what is asked for and report what has ended; returns the request in the child, None at the end of stdin."""
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
                _say(pid=pid, status=status)
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
                _say(pid=pid)


class _Lines:
    """Whole lines of stdin, without a buffer that a child would inherit half read."""

    def __init__(self) -> None:
        self._rest = b""

    def read(self) -> list[bytes] | None:
        """Return the lines that are complete now; None at the end."""
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


def _say(**said: int) -> None:
    os.write(1, json.dumps(said).encode() + b"\n")


def _die_with(server: int) -> None:
    """Ask for SIGKILL when the fork server ends; the comparison closes the gap in which it ended before that."""
    os.setsid()
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != server:
        sys.exit("The fork server ended before this service had started.")


def _become(request: Request) -> None:
    """Be what `python -m MODULE` would have been."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    os.environ.clear()
    os.environ.update(request["env"])
    _redirect(Path(request["log_file"]))
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_NAME, f"vlmhb-{request['name']}".encode()[:_COMM_BYTES], 0, 0, 0)
    sys.argv = [request["module"]]
    runpy.run_module(request["module"], run_name="__main__", alter_sys=True)


def _redirect(path: Path) -> None:
    """Read nothing, and write to the log."""
    with open_log(path) as log, Path(os.devnull).open("rb") as nothing:
        for number, source in enumerate((nothing, log, log)):
            os.dup2(source.fileno(), number)


if __name__ == "__main__":
    main()
