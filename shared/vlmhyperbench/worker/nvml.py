"""Read NVIDIA GPUs through NVML; a machine without the driver has none."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache

import pynvml


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """One GPU as NVML sees it."""

    no: int
    uuid: str
    name: str
    memory_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """Sums over the watched GPUs, but mean utilisation and maximum temperature; None if a GPU does not report it."""

    memory_used_bytes: int | None
    util_percent: float | None
    power_w: float | None
    temperature_c: float | None


@cache
def _is_available() -> bool:
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return False
    return True


def visible(gpus: Sequence[Gpu], chosen: str | None, *, parents: Mapping[str, str]) -> list[Gpu]:
    """Return the GPUs that `CUDA_VISIBLE_DEVICES` names by index or by the beginning of their UUID.

    The variable is read as CUDA reads it: without a value it names all GPUs, and an entry that names no GPU ends the
    list. A MIG slice stands for its GPU, because NVML reports memory and energy of the whole GPU.

    Args:
        gpus: every GPU of the machine.
        chosen: the variable's value.
        parents: UUID of a MIG slice → UUID of its GPU.
    """
    if chosen is None:
        return list(gpus)
    listed: list[Gpu] = []
    for entry in (parents.get(part.strip(), part.strip()) for part in chosen.split(",")):
        named = [gpu for gpu in gpus if entry and (str(gpu.no) == entry or gpu.uuid.startswith(entry))]
        if len(named) != 1 or named[0] in listed:
            break
        listed += named
    return listed


def inventory() -> list[Gpu]:
    """List the GPUs of this machine, in NVML's order, which is that of the bus; empty without a driver."""
    if not _is_available():
        return []
    gpus = []
    for no in range(pynvml.nvmlDeviceGetCount()):
        handle = pynvml.nvmlDeviceGetHandleByIndex(no)
        memory = pynvml.nvmlDeviceGetMemoryInfo(handle)
        gpus.append(
            Gpu(
                no=no,
                uuid=_text(pynvml.nvmlDeviceGetUUID(handle)),
                name=_text(pynvml.nvmlDeviceGetName(handle)),
                memory_bytes=int(memory.total),
            )
        )
    return gpus


@dataclass(frozen=True, slots=True, kw_only=True)
class Driver:
    """The driver of this machine's GPUs."""

    version: str
    cuda: str
    """Newest version of CUDA that it supports."""


def driver() -> Driver | None:
    """Return the driver of this machine's GPUs; None without one."""
    if not _is_available():
        return None
    try:
        cuda = int(pynvml.nvmlSystemGetCudaDriverVersion_v2())
        return Driver(version=_text(pynvml.nvmlSystemGetDriverVersion()), cuda=f"{cuda // 1000}.{cuda % 1000 // 10}")
    except pynvml.NVMLError:
        return None


def mig_parents(chosen: str | None) -> dict[str, str]:
    """Find the GPUs of the MIG slices that `CUDA_VISIBLE_DEVICES` names: UUID of the slice → UUID of its GPU."""
    slices = [part.strip() for part in (chosen or "").split(",") if part.strip().startswith("MIG-")]
    parents = {}
    for uuid in slices if slices and _is_available() else []:
        with suppress(pynvml.NVMLError):  # no slice of this machine has this UUID
            parent = pynvml.nvmlDeviceGetDeviceHandleFromMigDeviceHandle(pynvml.nvmlDeviceGetHandleByUUID(uuid))
            parents[uuid] = _text(pynvml.nvmlDeviceGetUUID(parent))
    return parents


def read(indices: Sequence[int]) -> Reading:
    """Read the given GPUs once."""
    handles = [pynvml.nvmlDeviceGetHandleByIndex(no) for no in indices] if _is_available() else []
    memory = _each(handles, lambda handle: pynvml.nvmlDeviceGetMemoryInfo(handle).used)
    util = _each(handles, lambda handle: pynvml.nvmlDeviceGetUtilizationRates(handle).gpu)
    power = _each(handles, lambda handle: pynvml.nvmlDeviceGetPowerUsage(handle) / 1000)
    heat = _each(handles, lambda handle: pynvml.nvmlDeviceGetTemperature(handle, pynvml.NVML_TEMPERATURE_GPU))
    return Reading(
        memory_used_bytes=int(sum(memory)) if memory else None,
        util_percent=sum(util) / len(util) if util else None,
        power_w=sum(power) if power else None,
        temperature_c=max(heat) if heat else None,
    )


def processes(indices: Sequence[int]) -> set[int]:
    """Return the ids of the processes that compute on the given GPUs; empty where the driver does not say it."""
    handles = [pynvml.nvmlDeviceGetHandleByIndex(no) for no in indices] if _is_available() else []
    try:
        return {int(user.pid) for handle in handles for user in pynvml.nvmlDeviceGetComputeRunningProcesses(handle)}
    except pynvml.NVMLError:
        return set()


def _each(handles: Sequence[object], query: Callable[[object], float]) -> list[float]:
    """Query every GPU; return nothing if one does not report it, because a sum over the others would be wrong."""
    try:
        return [float(query(handle)) for handle in handles]
    except pynvml.NVMLError:
        return []


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value
