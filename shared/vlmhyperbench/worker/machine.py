"""This machine as claims and certificates record it: processor, memory, accelerators with their driver, system."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from pathlib import Path

import psutil

from vlmhyperbench.worker import nvml
from vlmhyperbench.worker.devices import DeviceInfo
from vlmhyperbench_sdk.types import JsonValue


def machine(seen: Sequence[DeviceInfo]) -> dict[str, JsonValue]:
    """Describe this machine, with the devices that a worker uses; driver and CUDA are None without a GPU.

    `declared` is there and true where a file declares the devices and no hardware stands behind them.
    """
    frequency, driver = psutil.cpu_freq(), nvml.driver()
    return {
        "cpu_model": _cpu_model(),
        "cpu_cores": psutil.cpu_count(logical=False) or psutil.cpu_count() or 1,
        "cpu_threads": psutil.cpu_count() or 1,
        "cpu_frequency_mhz": round(frequency.max or frequency.current) if frequency else None,
        "memory_total_bytes": int(psutil.virtual_memory().total),
        "devices": [_described(device) for device in seen],
        **({"declared": True} if any(device.is_declared for device in seen) else {}),
        "driver": driver.version if driver is not None else None,
        "cuda": driver.cuda if driver is not None else None,
        "kernel": platform.release(),
        "system": platform.system(),
        "distribution": _distribution(),
        "architecture": platform.machine(),
        "python": platform.python_version(),
    }


def _described(device: DeviceInfo) -> dict[str, JsonValue]:
    described: dict[str, JsonValue] = {
        "kind": device.kind,
        "name": device.name,
        "memory_bytes": device.memory_bytes,
    }
    return {**described, "uuid": device.uuid} if device.kind == "gpu" else described


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:  # only Linux has this file
        lines = []
    names = (line.partition(":")[2].strip() for line in lines if line.lower().startswith("model name"))
    return next(names, "") or platform.processor() or "unknown"


def _distribution() -> str | None:
    try:
        return platform.freedesktop_os_release()["PRETTY_NAME"]
    except (OSError, KeyError):  # another system, or a container without the file
        return None
