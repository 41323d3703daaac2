"""Read NVIDIA GPUs through NVML; a machine without the driver simply has none."""

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
    """Sums over the watched GPUs, utilisation and temperature as mean and maximum; None where a GPU does not tell."""

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
    """Return the GPUs that `CUDA_VISIBLE_DEVICES` leaves to this process, by place or beginning of their UUID.

    As CUDA reads it: without a value all, and none from the first entry on that names no GPU. A MIG slice stands for
    the GPU that it is cut from: what NVML says of memory and energy is of that one.

    Args:
        gpus: every GPU of the machine.
        chosen: the variable's value.
        parents: UUID of a MIG slice → UUID of its GPU.
    """
    if chosen is None:
        return list(gpus)
    found: list[Gpu] = []
    for entry in (parents.get(part.strip(), part.strip()) for part in chosen.split(",")):
        named = [gpu for gpu in gpus if entry and (str(gpu.no) == entry or gpu.uuid.startswith(entry))]
        if len(named) != 1 or named[0] in found:
            break
        found += named
    return found


def inventory() -> list[Gpu]:
    """List the GPUs of this machine, in NVML's order, which is that of the bus; empty without a driver."""
    if not _is_available():
        return []
    found = []
    for no in range(pynvml.nvmlDeviceGetCount()):
        handle = pynvml.nvmlDeviceGetHandleByIndex(no)
        memory = pynvml.nvmlDeviceGetMemoryInfo(handle)
        found.append(
            Gpu(
                no=no,
                uuid=_text(pynvml.nvmlDeviceGetUUID(handle)),
                name=_text(pynvml.nvmlDeviceGetName(handle)),
                memory_bytes=int(memory.total),
            )
        )
    return found


def mig_parents(chosen: str | None) -> dict[str, str]:
    """Find the GPUs of the MIG slices that `CUDA_VISIBLE_DEVICES` names: UUID of the slice → UUID of its GPU."""
    slices = [part.strip() for part in (chosen or "").split(",") if part.strip().startswith("MIG-")]
    found = {}
    for uuid in slices if slices and _is_available() else []:
        with suppress(pynvml.NVMLError):  # it names no slice of this machine, so no GPU either
            parent = pynvml.nvmlDeviceGetDeviceHandleFromMigDeviceHandle(pynvml.nvmlDeviceGetHandleByUUID(uuid))
            found[uuid] = _text(pynvml.nvmlDeviceGetUUID(parent))
    return found


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


def _each(handles: Sequence[object], query: Callable[[object], float]) -> list[float]:
    """Ask every GPU; nothing where one does not tell, for a sum over the others would look like all of them."""
    try:
        return [float(query(handle)) for handle in handles]
    except pynvml.NVMLError:
        return []


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value
