"""What the system grants to this process and knows of it: scheduling, open files, CPU time and age."""

from __future__ import annotations

import os
import resource
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path

from vlmhyperbench_loadgen.failures import PlanError

_PR_SET_PDEATHSIG = 1
SPARE_FILES = 64
"""Open files of a measuring process that are not streams, with a reserve."""


def die_with_parent(parent: int) -> None:
    """Ask Linux to send SIGKILL when the parent dies; exit at once if the parent has died already."""
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
    if os.getppid() != parent:
        sys.exit("The load generator died before this process had started.")


def use_realtime_scheduling() -> bool:
    """Ask for real-time scheduling; return whether the system grants it.

    Without it a request waits for the time slices of other processes on the machine.
    """
    try:
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
    except (PermissionError, AttributeError):
        return False
    return True


def use_normal_scheduling() -> None:
    """Undo `use_realtime_scheduling`."""
    os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))


def allow_files() -> None:
    """Raise the limit of open files, for this process and its children, to the hard limit."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def check_files(streams: int) -> None:
    """Check that one process can open this many streams.

    Raises:
        PlanError: the system allows fewer open files.
    """
    allowed = allowed_streams()
    if streams > allowed:
        raise PlanError(
            f"{streams} streams of a process need {streams + SPARE_FILES} open files, and the system allows "
            f"{allowed + SPARE_FILES}: "
            "raise the limit (ulimit -n), or take fewer streams (in load, --concurrency, and --max-in-flight of "
            "server) or more processes."
        )


def allowed_streams() -> int:
    """How many streams one process can open."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return sys.maxsize if soft == resource.RLIM_INFINITY else soft - SPARE_FILES


def cpu_s() -> float:
    """CPU time of this process and of its ended children, user and system."""
    total = 0.0
    for processes in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN):
        used = resource.getrusage(processes)
        total += used.ru_utime + used.ru_stime
    return total


def process_age_s() -> float:
    """Seconds since this process was started, to 10 ms; its CPU time if there is no /proc."""
    stat = Path("/proc/self/stat")
    if not stat.exists():
        return time.process_time()
    started_ticks = int(stat.read_text().rpartition(")")[2].split()[19])
    return time.clock_gettime(time.CLOCK_BOOTTIME) - started_ticks / os.sysconf("SC_CLK_TCK")
