"""The free memory of this machine and of its accelerators, for a load that must fit; standard library only."""

from __future__ import annotations

import csv
import os
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_ROOT: Final = Path("/")
_MEMINFO: Final = Path("proc/meminfo")
_CGROUPS: Final = Path("sys/fs/cgroup")
_OWN_CGROUP: Final = Path("proc/self/cgroup")
_QUERY: Final = ("--query-gpu=index,uuid,memory.free", "--format=csv,noheader,nounits")
_DRIVERS: Final = (Path("/dev/nvidiactl"), Path("/dev/kfd"))
"""Files of the drivers of NVIDIA and AMD."""
_TIMEOUT_S: Final = 10.0
_MIB: Final = 1024**2


@dataclass(frozen=True, slots=True, kw_only=True)
class FreeMemory:
    """Free memory in bytes."""

    host_bytes: int | None
    """What processes may still use on the machine, or in this process's cgroup if that has less; None if unknown."""
    device_bytes: int | None
    """The sum over the accelerators that this process may use; None if there is none, or it is unknown."""
    devices: int | None = 0
    """Number of these accelerators; None if it is unknown, as for a part of a GPU or one that is not NVIDIA's."""
    host_total_bytes: int | None = None
    """What processes may use at most, of the same bound as `host_bytes`; None if unknown."""


def free_memory(environ: Mapping[str, str] = os.environ, *, root: Path = _ROOT) -> FreeMemory:
    """Measure the free memory now; a machine without accelerators, or without these files, is no error.

    Args:
        environ: Variables that choose accelerators.
        root: The folder below which the kernel's files lie.
    """
    host = [size for size in (_meminfo(root, "MemAvailable"), _cgroup(root)) if size is not None]
    chosen = environ.get("CUDA_VISIBLE_DEVICES")
    devices = _visible(_devices(), chosen)
    return FreeMemory(
        host_bytes=min(host, default=None),
        device_bytes=sum(devices) if devices else None,
        devices=len(devices) if devices is not None else None,
        host_total_bytes=host_total(root),
    )


def host_total(root: Path = _ROOT) -> int | None:
    """Return the memory of the machine, or what this process's cgroup may use of it; None if unknown."""
    bound = _cgroup_bound(root)
    known = [size for size in (_meminfo(root, "MemTotal"), bound[1] if bound else None) if size is not None]
    return min(known, default=None)


def _meminfo(root: Path, name: str) -> int | None:
    try:
        lines = (root / _MEMINFO).read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{name}:")), None)


def _cgroup(root: Path) -> int | None:
    """Return what the cgroup (version 2) of this process leaves, without the page cache that it can give back."""
    bound = _cgroup_bound(root)
    if bound is None:
        return None
    folder, maximum = bound
    try:
        used = int((folder / "memory.current").read_text(encoding="ascii"))
        stat = dict(line.split() for line in (folder / "memory.stat").read_text(encoding="ascii").splitlines())
        return max(0, maximum - used + int(stat.get("inactive_file", 0)))
    except (OSError, ValueError):
        return None


def _cgroup_bound(root: Path) -> tuple[Path, int] | None:
    """Return the folder of this process's cgroup and the memory that it may use; None without a bound."""
    try:
        own = (root / _OWN_CGROUP).read_text(encoding="utf-8").partition("0::")[2].strip().lstrip("/")
        folder = root / _CGROUPS / own
        return folder, int((folder / "memory.max").read_text(encoding="ascii"))  # `max` is no number: no bound
    except (OSError, ValueError):
        return None


def _devices() -> list[tuple[str, str, int]] | None:
    """Return index, UUID and free bytes of every NVIDIA GPU, by the driver's own program; None if unknown."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return None if any(file.exists() for file in _DRIVERS) else []
    try:
        done = subprocess.run([program, *_QUERY], check=True, capture_output=True, text=True, timeout=_TIMEOUT_S)
        rows = [[cell.strip() for cell in row] for row in csv.reader(done.stdout.splitlines()) if row]
        return [(index, uuid, int(free) * _MIB) for index, uuid, free in rows]
    except (OSError, ValueError, subprocess.SubprocessError):
        return None


def _visible(devices: list[tuple[str, str, int]] | None, chosen: str | None) -> list[int] | None:
    """Return the free bytes of the chosen devices; None if the choice names something else, such as a part of one."""
    if devices is None:
        return None
    if chosen is None:
        return [free for _, _, free in devices]
    names = [name.strip() for name in chosen.split(",") if name.strip()]
    sizes = []
    for name in names:
        size = next((free for index, uuid, free in devices if name == index or uuid.startswith(name)), None)
        if size is None:
            return None
        sizes.append(size)
    return sizes
