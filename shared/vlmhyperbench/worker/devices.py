"""The devices of a machine: its GPUs, the slots of a processor, or what a file declares; and those of one worker."""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from vlmhyperbench.errors import InvalidInput, NotFound
from vlmhyperbench.settings import Settings
from vlmhyperbench.worker import nvml
from vlmhyperbench.worker.inventory import read_inventory
from vlmhyperbench_sdk.free_memory import host_total


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceInfo:
    """A GPU, a MIG slice of one, or a CPU slot."""

    no: int
    """Its number among the devices of its machine."""
    kind: Literal["gpu", "cpu"]
    uuid: str
    name: str
    memory_bytes: int
    numa_node: int | None = None
    slice_of: str | None = None
    """UUID of the GPU of a MIG slice."""
    is_declared: bool = False
    """Whether a file declares it and no hardware stands behind it."""


def devices_of_machine(settings: Settings) -> list[DeviceInfo]:
    """List the devices of this machine: the declared ones where an inventory is named, else GPUs, else CPU slots.

    Of the GPUs, those are listed that `CUDA_VISIBLE_DEVICES` leaves to this process.

    Raises:
        RegistryErrors: the inventory is not valid.
        InvalidInput: the variable names GPUs of different models by number, which says nothing certain.
    """
    if settings.inventory is not None:
        return [
            DeviceInfo(
                no=no, kind=item.kind, uuid=item.uuid, name=item.name, memory_bytes=item.memory_bytes, is_declared=True
            )
            for no, item in enumerate(read_inventory(settings.inventory))
        ]
    every, chosen = nvml.inventory(), os.environ.get("CUDA_VISIBLE_DEVICES")
    _check_numbers(every, chosen)
    gpus = nvml.visible(every, chosen)
    return [
        DeviceInfo(
            no=no,
            kind="gpu",
            uuid=gpu.uuid,
            name=gpu.name,
            memory_bytes=gpu.memory_bytes,
            numa_node=gpu.numa_node,
            slice_of=gpu.slice_of,
        )
        for no, gpu in enumerate(gpus)
    ] or cpu_slots(settings.cpu_workers)


def _check_numbers(gpus: Sequence[nvml.Gpu], chosen: str | None) -> None:
    """Refuse numbers in `CUDA_VISIBLE_DEVICES` where CUDA and the driver count differently.

    CUDA counts from the fastest GPU unless it is told to count along the bus, as NVML always does.
    """
    is_numbered = any(entry.strip().isdigit() for entry in (chosen or "").split(","))
    is_along_bus = os.environ.get("CUDA_DEVICE_ORDER") == "PCI_BUS_ID"
    if is_numbered and not is_along_bus and len({gpu.name for gpu in gpus if gpu.slice_of is None}) > 1:
        there = "; ".join(f"{gpu.no}: {gpu.uuid} ({gpu.name})" for gpu in gpus)
        raise InvalidInput(
            f"CUDA_VISIBLE_DEVICES is {chosen!r}, and on a machine with GPUs of different models CUDA counts from the "
            "fastest one, the driver along the bus.",
            cure=f"Name GPUs by UUID, or set CUDA_DEVICE_ORDER=PCI_BUS_ID to count along the bus: {there}.",
        )


def cpu_slots(count: int) -> list[DeviceInfo]:
    """Divide the processor of this machine into slots with equal shares of the memory that this process may use."""
    total = host_total() or os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    memory_bytes, node = total // count, platform.node()
    return [
        DeviceInfo(
            no=no,
            kind="cpu",
            uuid=f"cpu-{node}" + (f"-{no}" if count > 1 else ""),
            name="cpu",
            memory_bytes=memory_bytes,
        )
        for no in range(count)
    ]


def devices_of_worker(settings: Settings) -> list[DeviceInfo]:
    """Return the devices that the settings give to a worker: those they name, or all of the machine.

    Of CPU slots and MIG slices that nobody has divided among workers, it is the first.

    Raises:
        NotFound: the machine has no such device; the message names those that it has.
        InvalidInput: they cannot be used together.
        RegistryErrors: the inventory is not valid.
    """
    present = devices_of_machine(settings)
    if settings.devices:
        given = choose(present, settings.devices, setting="VLMHB_DEVICES")
        check_together(given, setting="VLMHB_DEVICES")
        return given
    is_divided = len(present) > 1 and any(device.kind == "cpu" or device.slice_of for device in present)
    return present[:1] if is_divided else present


def choose(present: Sequence[DeviceInfo], named: Sequence[str], *, setting: str) -> list[DeviceInfo]:
    """Return the devices that a setting names by UUID or by number.

    Raises:
        NotFound: the machine has no such device; the message names those that it has.
        InvalidInput: one is named twice.
    """
    chosen: list[DeviceInfo] = []
    for name in named:
        device = next((device for device in present if name in (device.uuid, str(device.no))), None)
        if device is None:
            there = "; ".join(f"{device.no}: {device.uuid} ({device.name})" for device in present)
            raise NotFound(
                f"This machine has no device {name!r}, which {setting} names.",
                cure=f"It has {there}.",
                code="no_device",
            )
        if device in chosen:
            raise InvalidInput(f"{setting} names the device {name!r} twice.", cure="Name it once.")
        chosen.append(device)
    return chosen


def check_together(devices: Sequence[DeviceInfo], *, setting: str) -> None:
    """Refuse devices that one worker cannot use together.

    Raises:
        InvalidInput: a MIG slice is together with other devices, or a CPU slot is.
    """
    if len(devices) == 1:
        return
    if any(device.slice_of for device in devices):
        raise InvalidInput(
            f"{setting} gives one worker a MIG slice together with other devices, and CUDA gives a process one slice.",
            cure="Give each slice a worker of its own, or switch MIG off.",
        )
    if any(device.kind == "cpu" for device in devices):
        raise InvalidInput(
            f"{setting} gives one worker a CPU slot together with other devices; only GPUs are used together.",
            cure="Give each slot a worker of its own.",
        )


def show_only(devices: Sequence[DeviceInfo]) -> None:
    """Let this process and its children see only these devices, by UUID; of declared ones and CPU slots, no GPU.

    CPU slots of a machine on which NVML finds no GPU change nothing, since an engine may know of other accelerators.
    """
    if any(device.is_declared for device in devices):
        os.environ["CUDA_VISIBLE_DEVICES"] = ""
    elif gpus := [device.uuid for device in devices if device.kind == "gpu"]:
        os.environ["CUDA_VISIBLE_DEVICES"] = ",".join(gpus)
