"""Read NVIDIA GPUs and their MIG slices through NVML; a machine without the driver has none."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pynvml

_LOG = logging.getLogger(__name__)
_PCI = Path("/sys/bus/pci/devices")
_NO_DRIVER = frozenset({pynvml.NVML_ERROR_LIBRARY_NOT_FOUND, pynvml.NVML_ERROR_DRIVER_NOT_LOADED})
"""What NVML answers on a machine without GPUs; any other error, as after an upgrade of the driver, hides GPUs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """A GPU as NVML sees it, or a MIG slice of one."""

    no: int
    """Number of the GPU in NVML's order, which is that of the bus; slices of one GPU have the same."""
    uuid: str
    name: str
    memory_bytes: int
    slice_of: str | None = None
    """UUID of the GPU that it is a slice of; None: it is a whole GPU."""
    numa_node: int | None = None
    """The node of the machine's memory that it is attached to; None if the system does not say it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """Sums over the watched GPUs, but mean utilisation and maximum temperature; None if a GPU does not report it."""

    memory_used_bytes: int | None
    util_percent: float | None
    power_w: float | None
    temperature_c: float | None


@cache
def is_available() -> bool:
    """Return whether this process can ask NVML."""
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        if error.value not in _NO_DRIVER:
            _LOG.warning("This machine has NVIDIA's driver, but it does not start, so no GPU is used: %s.", error)
        return False
    return True


def visible(gpus: Sequence[Gpu], chosen: str | None) -> list[Gpu]:
    """Return the GPUs that `CUDA_VISIBLE_DEVICES` names by index or by the beginning of their UUID.

    The variable is read as CUDA reads it: without a value it names all GPUs, and an entry that names no GPU ends the
    list. An entry that names a GPU in MIG mode names all its slices.

    Args:
        gpus: every GPU of the machine, or its slices.
        chosen: the variable's value.
    """
    if chosen is None:
        return list(gpus)
    listed: list[Gpu] = []
    for entry in (part.strip() for part in chosen.split(",")):
        named = [gpu for gpu in gpus if entry and (str(gpu.no) == entry or _whole(gpu).startswith(entry))]
        if not named or len({_whole(gpu) for gpu in named}) != 1:
            named = [gpu for gpu in gpus if entry and gpu.slice_of and gpu.uuid.startswith(entry)]
            if len(named) != 1:
                break
        if named[0] in listed:
            break
        listed += named
    return listed


def inventory() -> list[Gpu]:
    """List the GPUs of this machine, with the slices in the place of a GPU in MIG mode; empty without a driver.

    A GPU that does not answer is left out, with a warning.
    """
    if not is_available():
        return []
    return [gpu for no in range(pynvml.nvmlDeviceGetCount()) for gpu in _answering(no)]


def _answering(no: int) -> list[Gpu]:
    try:
        return _described(no, pynvml.nvmlDeviceGetHandleByIndex(no))
    except pynvml.NVMLError as error:
        _LOG.warning("The GPU %d does not answer: %s.", no, error)
        return []


def _described(no: int, handle: Any) -> list[Gpu]:
    uuid, node = _text(pynvml.nvmlDeviceGetUUID(handle)), _numa_node(handle)
    slices = _slices(handle)
    if slices is not None and not slices:
        _LOG.warning("The GPU %s is in MIG mode without slices, so it is not used: make some, or switch MIG off.", uuid)
    parts = [(handle, None)] if slices is None else [(part, uuid) for part in slices]
    sharing = Counter(map(_memory_owner, slices or ()))
    return [
        Gpu(
            no=no,
            uuid=_text(pynvml.nvmlDeviceGetUUID(part)),
            name=_text(pynvml.nvmlDeviceGetName(part)),
            memory_bytes=_usable_bytes(part) // (1 if whole is None else sharing[_memory_owner(part)]),
            slice_of=whole,
            numa_node=node,
        )
        for part, whole in parts
    ]


def _usable_bytes(handle: Any) -> int:
    """Return the memory that processes can have: all of it, less what the driver keeps for itself."""
    try:
        memory = pynvml.nvmlDeviceGetMemoryInfo(handle, version=pynvml.nvmlMemory_v2)
        return int(memory.total) - int(memory.reserved)
    except pynvml.NVMLError:  # a driver before 510 does not say what it keeps
        return int(pynvml.nvmlDeviceGetMemoryInfo(handle).total)


def _memory_owner(part: Any) -> int:
    """Return the number of the GPU instance of a slice; compute instances of one GPU instance share its memory."""
    return int(pynvml.nvmlDeviceGetGpuInstanceId(part))


def _slices(handle: Any) -> list[Any] | None:
    """Return the handles of the MIG slices that this process may use; None for a GPU that is not in MIG mode."""
    try:
        current, _ = pynvml.nvmlDeviceGetMigMode(handle)
    except pynvml.NVMLError:  # a GPU, or a driver, without MIG
        return None
    if current != pynvml.NVML_DEVICE_MIG_ENABLE:
        return None
    slices = []
    for number in range(pynvml.nvmlDeviceGetMaxMigDeviceCount(handle)):
        with suppress(pynvml.NVMLError):  # no slice has this number, or this process may not use it
            slices.append(pynvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, number))
    return slices


def _numa_node(handle: Any) -> int | None:
    try:
        domain, _, place = _text(pynvml.nvmlDeviceGetPciInfo(handle).busId).lower().partition(":")
        node = int((_PCI / f"{domain[-4:]}:{place}" / "numa_node").read_text(encoding="ascii"))
    except (pynvml.NVMLError, OSError, ValueError):
        return None
    return node if node >= 0 else None  # the kernel writes -1 where the machine does not say it


@dataclass(frozen=True, slots=True, kw_only=True)
class Driver:
    """The driver of this machine's GPUs."""

    version: str
    cuda: str
    """Newest version of CUDA that it supports."""


def driver() -> Driver | None:
    """Return the driver of this machine's GPUs; None without one."""
    if not is_available():
        return None
    try:
        cuda = int(pynvml.nvmlSystemGetCudaDriverVersion_v2())
        return Driver(version=_text(pynvml.nvmlSystemGetDriverVersion()), cuda=f"{cuda // 1000}.{cuda % 1000 // 10}")
    except pynvml.NVMLError:
        return None


def read(uuids: Sequence[str]) -> Reading:
    """Read the given GPUs or slices once; of a slice, the driver says the memory only."""
    memory = _each(uuids, lambda handle: pynvml.nvmlDeviceGetMemoryInfo(handle).used)
    util = _each(uuids, lambda handle: pynvml.nvmlDeviceGetUtilizationRates(handle).gpu)
    power = _each(uuids, lambda handle: pynvml.nvmlDeviceGetPowerUsage(handle) / 1000)
    heat = _each(uuids, lambda handle: pynvml.nvmlDeviceGetTemperature(handle, pynvml.NVML_TEMPERATURE_GPU))
    return Reading(
        memory_used_bytes=int(sum(memory)) if memory else None,
        util_percent=sum(util) / len(util) if util else None,
        power_w=sum(power) if power else None,
        temperature_c=max(heat) if heat else None,
    )


def processes(uuids: Sequence[str]) -> set[int]:
    """Return the ids of the processes that compute on the given GPUs; empty where the driver does not say it."""
    try:
        return {
            int(user.pid)
            for uuid in (uuids if is_available() else ())
            for user in pynvml.nvmlDeviceGetComputeRunningProcesses(handle_of(uuid))
        }
    except pynvml.NVMLError:
        return set()


@cache
def handle_of(uuid: str) -> Any:
    """Return NVML's handle of a GPU or a slice.

    Raises:
        pynvml.NVMLError: there is none, or it does not answer.
    """
    return pynvml.nvmlDeviceGetHandleByUUID(uuid)


def _each(uuids: Sequence[str], query: Callable[[Any], float]) -> list[float]:
    """Query every GPU; return nothing if one does not report it, because a sum over the others would be wrong."""
    try:
        return [float(query(handle_of(uuid))) for uuid in (uuids if is_available() else ())]
    except pynvml.NVMLError:
        return []


def _whole(gpu: Gpu) -> str:
    return gpu.slice_of or gpu.uuid


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value
