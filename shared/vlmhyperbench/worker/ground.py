"""Read the ground of this process from the kernel: its machine, and the cores that it and its children may use.

The cores of a worker are its CPU affinity, since the kernel enforces it and all children inherit it, whether it was
restricted by a setting, by `taskset` or by a container.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterable, Sequence
from pathlib import Path

from vlmhyperbench.domain.ground import Ground, parse_cores
from vlmhyperbench.errors import InvalidInput
from vlmhyperbench.processes import BOOT_ID
from vlmhyperbench.worker.devices import DeviceInfo

_CORES = Path("/sys/devices/system/cpu")


def ground(devices: Sequence[DeviceInfo], *, pids: Iterable[int] = ()) -> Ground:
    """Return the ground of this process, its children and the processes `pids`."""
    cpus = frozenset().union(*(affinity(pid) for pid in (0, *pids)))
    cores = frozenset().union(*(siblings(core) for core in cpus))
    return Ground(
        machine=machine_id(),
        gpus=frozenset(device.uuid for device in devices if device.kind == "gpu"),
        cores=cores,
    )


def machine_id(path: Path = BOOT_ID) -> str:
    """Return the id of the kernel's boot, which all containers of a machine share, or else the host's name."""
    try:
        return path.read_text(encoding="ascii").strip()
    except OSError:
        return socket.gethostname()


def pin(cores: frozenset[int]) -> None:
    """Restrict this process and its future children to these cores.

    Raises:
        InvalidInput: the machine does not have these cores, or this process may not use them.
    """
    if not cores:
        return
    free = affinity(0)
    if not cores <= free:
        missing = ", ".join(str(core) for core in sorted(cores - free))
        raise InvalidInput(
            f"This process may not run on the cores {missing} of VLMHB_INFERENCE_CORES.",
            cure=f"It may run on {', '.join(str(core) for core in sorted(free))}.",
        )
    os.sched_setaffinity(0, cores)


def affinity(pid: int) -> frozenset[int]:
    """Return the hardware threads on which a process may run; 0 is this one."""
    try:
        return frozenset(os.sched_getaffinity(pid))
    except (OSError, AttributeError):  # the process has ended, or this system has no CPU affinity
        return frozenset()


def siblings(core: int) -> frozenset[int]:
    """Return the hardware threads of a core's physical core, including itself."""
    try:
        listed = (_CORES / f"cpu{core}" / "topology" / "thread_siblings_list").read_text(encoding="ascii")
    except OSError:
        return frozenset({core})
    return parse_cores(listed.strip()) | {core}
