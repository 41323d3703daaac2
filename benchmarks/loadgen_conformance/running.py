"""Run a client as a process and measure its cost: CPU time with its children, peak memory, start."""

from __future__ import annotations

import contextlib
import os
import subprocess
import threading
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

SAMPLE_S = 0.1
MAX_SECONDS = 600.0


class ClientFailed(Exception):
    """The client ended with an error or not at all; the text is the end of its output."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """The cost of one run of a client."""

    began_ns: int
    """When the client was started, on the clock of the server's record."""
    cpu_s: float
    """User and system time of the process and of all its descendants that it waited for."""
    wall_s: float
    peak_rss_bytes: int
    """Maximum over the samples of the sum over its processes."""
    processes: int
    """Maximum number of processes at a time."""


def run_client(argv: Sequence[str], *, env: Mapping[str, str], statuses: Collection[int], log: Path) -> Cost:
    """Run a client to its end.

    Raises:
        ClientFailed: the client ended with none of `statuses`, or took longer than `MAX_SECONDS`.
    """
    # Clients may cache their bytecode as on a user's machine, even if this environment forbids it.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"} | dict(env)
    with log.open("wb") as output:
        began_ns = time.monotonic_ns()
        process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=environment)
        memory = _Memory(process.pid)
        memory.start()
        killer = threading.Timer(MAX_SECONDS, process.kill)
        killer.start()
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        killer.cancel()
        memory.stop()
    if process.returncode not in statuses:
        output_end = log.read_bytes()[-600:].decode("utf-8", "replace")
        raise ClientFailed(f"It ended with status {process.returncode}: {' '.join(output_end.split())}")
    return Cost(
        began_ns=began_ns,
        cpu_s=used.ru_utime + used.ru_stime,
        wall_s=(time.monotonic_ns() - began_ns) / 1e9,
        peak_rss_bytes=memory.peak_bytes,
        processes=memory.processes,
    )


class _Memory(threading.Thread):
    """Samples the resident memory of a process and its descendants."""

    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self._pid = pid
        self._has_ended = threading.Event()
        self.peak_bytes = 0
        self.processes = 0

    def run(self) -> None:
        while not self._has_ended.wait(SAMPLE_S):
            tree = _tree(self._pid)
            self.processes = max(self.processes, len(tree))
            self.peak_bytes = max(self.peak_bytes, sum(map(_rss_bytes, tree)))

    def stop(self) -> None:
        self._has_ended.set()
        self.join()


def _tree(pid: int) -> list[int]:
    pids = [pid]
    # The list grows while it is read: children are appended.
    for parent in pids:
        # The process may have ended in the meantime.
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            for task in Path(f"/proc/{parent}/task").iterdir():
                pids.extend(map(int, (task / "children").read_text().split()))
    return pids


def _rss_bytes(pid: int) -> int:
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")
