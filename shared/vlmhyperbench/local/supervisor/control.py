"""Start, stop and describe the embedded stack, for the command line."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vlmhyperbench.errors import NotReady, Unavailable, VlmHyperBenchError
from vlmhyperbench.local.listening import Listening
from vlmhyperbench.local.server import open_log
from vlmhyperbench.local.supervisor.home import Home
from vlmhyperbench.local.supervisor.lock import holder
from vlmhyperbench.local.supervisor.services import check_names
from vlmhyperbench.local.supervisor.storing import check_storage
from vlmhyperbench.processes import tied

STOP_S = 90.0
OTHER_READY_S = 180.0
_POLL_S = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessStatus:
    """A process of the stack, including its child processes."""

    name: str
    pid: int | None
    state: str
    restarts: int
    since: str
    pss_bytes: int | None
    """Proportional set size of it and its children that are not listed themselves; None if it cannot be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StackStatus:
    """The stack of a home."""

    is_up: bool
    home: str
    url: str | None = None
    pid: int | None = None
    processes: tuple[ProcessStatus, ...] = ()


def is_up(home: Home) -> bool:
    """Return whether a supervisor holds this home's lock."""
    return holder(home.lock_file) is not None


def up(
    home: Home,
    *,
    host: str,
    port: int,
    services: Sequence[str] = (),
    listen: str | None = None,
    is_tied: bool = False,
    report: Callable[[Mapping[str, str]], None] = lambda _: None,
) -> bool:
    """Start the stack in the background and wait until it is ready; return False if another process started it.

    `report` is called with each start-up report. `is_tied` stops the stack when the calling process ends in any way.

    Raises:
        Unavailable: it does not start.
        InvalidInput: there is no such service, the address is none, or no such bucket.
        Denied: S3 refuses the keys of the storage.
    """
    check_names(services)
    if listen is not None:
        Listening.parse(listen)
    home.prepare()
    if is_up(home):
        _await_other(home)
        return False
    check_storage(home)
    reading, writing = os.pipe()
    argv = [sys.executable, "-m", "vlmhyperbench.local.supervisor", "--host", host, "--port", str(port)]
    argv += ["--report-fd", str(writing), "--services", ",".join(services)]
    argv += ["--listen", listen] if listen is not None else []
    with open_log(home.log_of("supervisor")) as log:
        child = subprocess.Popen(
            tied(argv, death_signal=signal.SIGTERM) if is_tied else argv,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env={**os.environ, "VLMHB_HOME": str(home.root)},
            start_new_session=True,
            pass_fds=(writing,),
        )
    # It ends when somebody stops it, long after this call, and then a parent must read its exit status.
    threading.Thread(target=child.wait, name="reaper of the supervisor", daemon=True).start()
    os.close(writing)
    with os.fdopen(reading, encoding="utf-8") as lines:
        try:
            if _follow(lines, report, home):
                return True
        except KeyboardInterrupt:
            child.send_signal(signal.SIGTERM)
            child.wait()
            raise
        except VlmHyperBenchError:
            child.wait()
            raise
    _await_other(home)
    return False


def _await_other(home: Home) -> None:
    """Wait until a stack started by another process is ready.

    Raises:
        Unavailable: it ended while it was starting, or it takes too long.
    """
    deadline = time.monotonic() + OTHER_READY_S
    while time.monotonic() < deadline:
        pid = holder(home.lock_file)
        if pid is None:
            raise Unavailable("The stack ended while it was starting.", cure=f"Read {home.log_of('supervisor')}.")
        state = _read_state(home)
        if state.get("pid") == pid and state.get("is_ready"):
            return
        time.sleep(_POLL_S)
    raise Unavailable(
        f"Another process is starting the stack in {home.root}; it is not ready after {OTHER_READY_S:.0f} s.",
        cure=f"Read {home.log_of('supervisor')}, or stop it with `vlmhyperbench down`.",
    )


def _read_state(home: Home) -> dict[str, Any]:
    """Return the content of the supervisor's status file, or nothing if it has not been written."""
    try:
        state: dict[str, Any] = json.loads(home.processes_file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return state


def down(home: Home) -> bool:
    """Stop the stack and wait until it has ended; return False if none runs.

    Raises:
        NotReady: it does not end in time.
    """
    pid = holder(home.lock_file)
    if pid is None:
        return False
    with suppress(ProcessLookupError), _process(pid) as process:
        os.kill(pid, signal.SIGTERM)
        if not select.select([process], [], [], STOP_S)[0]:
            raise NotReady(
                f"The stack in {home.root} (pid {pid}) has not ended after {STOP_S:.0f} s.",
                cure=f"Wait, or end it with `kill -9 {pid}`; its processes end with it.",
            )
    return True


def kill(home: Home) -> None:
    """Kill the stack and wait until the supervisor has ended: its processes die with it."""
    pid = holder(home.lock_file)
    if pid is not None:
        with suppress(ProcessLookupError), _process(pid) as process:
            os.kill(pid, signal.SIGKILL)
            select.select([process], [], [])


def status(home: Home) -> StackStatus:
    """Describe the stack: each process with its pid, restarts and memory."""
    pid = holder(home.lock_file)
    if pid is None:
        return StackStatus(is_up=False, home=str(home.root))
    state = _read_state(home)
    own = ProcessStatus(name="supervisor", pid=pid, state="running", restarts=0, since="", pss_bytes=_pss(pid))
    listed = {row["pid"] for row in state.get("processes", [])}
    children = {parent: [pid for pid in pids if pid not in listed] for parent, pids in _children().items()}
    rows = tuple(
        ProcessStatus(
            name=row["name"],
            pid=row["pid"],
            state=row["state"],
            restarts=row["restarts"],
            since=row["since"],
            pss_bytes=_pss_of_tree(row["pid"], children) if row["pid"] else None,
        )
        for row in state.get("processes", [])
    )
    return StackStatus(is_up=True, home=str(home.root), url=state.get("url"), pid=pid, processes=(own, *rows))


def _follow(lines: Iterable[str], report: Callable[[Mapping[str, str]], None], home: Home) -> bool:
    for line in lines:
        message: dict[str, str] = json.loads(line)
        match message.get("event"):
            case "ready":
                if "listening" in message:
                    report(message)
                return True
            case "already":
                return False
            case "failed":
                raise Unavailable(message["message"], cure=message["cure"], code=message["code"])
            case _:
                report(message)
    raise Unavailable("The supervisor ended while it was starting.", cure=f"Read {home.log_of('supervisor')}.")


@contextmanager
def _process(pid: int) -> Iterator[int]:
    """Open a descriptor that becomes readable when the process has ended.

    Raises:
        ProcessLookupError: there is no such process.
    """
    descriptor = os.pidfd_open(pid)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _children() -> dict[int, list[int]]:
    children: dict[int, list[int]] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
        except (OSError, ValueError, IndexError):
            continue
        children.setdefault(parent, []).append(int(folder.name))
    return children


def _pss_of_tree(pid: int, children: dict[int, list[int]]) -> int | None:
    sizes = [_pss(pid), *(_pss_of_tree(child, children) for child in children.get(pid, []))]
    known = [size for size in sizes if size is not None]
    return sum(known) if known else None


def _pss(pid: int) -> int | None:
    try:
        text = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii")
    except OSError:
        return None
    line = next((line for line in text.splitlines() if line.startswith("Pss:")), None)
    return int(line.split()[1]) * 1024 if line else None
