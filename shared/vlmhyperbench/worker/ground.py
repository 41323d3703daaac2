"""Which machine this process runs on, and which of its cores it and its children may use: asked of the kernel.

A declaration that the kernel does not enforce would be a promise. So the cores of a worker are its affinity, which
every child inherits, whether a setting, `taskset` or a container's set of cores made it narrow.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterable, Sequence
from pathlib import Path

from vlmhyperbench.domain.ground import Ground, parse_cores
from vlmhyperbench.errors import InvalidInput
from vlmhyperbench.worker.devices import DeviceInfo

_BOOT = Path("/proc/sys/kernel/random/boot_id")
_CORES = Path("/sys/devices/system/cpu")


def ground(devices: Sequence[DeviceInfo], *, pids: Iterable[int] = ()) -> Ground:
    """Return what this process, its children and the processes `pids` stand on."""
    found = frozenset().union(*(_affinity(pid) for pid in (0, *pids)))
    cores = frozenset().union(*(_siblings(core) for core in found))
    return Ground(
        machine=machine_id(),
        gpus=frozenset(device.uuid for device in devices if device.kind == "gpu"),
        cores=cores,
    )


def machine_id(path: Path = _BOOT) -> str:
    """Name this boot of this machine: the kernel's id, which containers share, else the host's name."""
    try:
        return path.read_text(encoding="ascii").strip()
    except OSError:
        return socket.gethostname()


def pin(cores: frozenset[int]) -> None:
    """Keep this process and the children that it will have on some cores.

    Raises:
        InvalidInput: the machine has no such cores, or this process may not use them.
    """
    if not cores:
        return
    free = _affinity(0)
    if not cores <= free:
        missing = ", ".join(str(core) for core in sorted(cores - free))
        raise InvalidInput(
            f"This process may not run on the cores {missing} of VLMHB_INFERENCE_CORES.",
            cure=f"It may run on {', '.join(str(core) for core in sorted(free))}.",
        )
    os.sched_setaffinity(0, cores)


def _affinity(pid: int) -> frozenset[int]:
    try:
        return frozenset(os.sched_getaffinity(pid))
    except (OSError, AttributeError):  # it is gone, or this system knows no affinity
        return frozenset()


def _siblings(core: int) -> frozenset[int]:
    """Return the threads that share a core's arithmetic units, itself too."""
    try:
        siblings = (_CORES / f"cpu{core}" / "topology" / "thread_siblings_list").read_text(encoding="ascii")
    except OSError:
        return frozenset({core})
    return parse_cores(siblings.strip()) | {core}
