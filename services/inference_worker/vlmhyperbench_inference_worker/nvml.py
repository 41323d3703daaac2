"""Read NVIDIA GPUs through NVML; a machine without the driver simply has none."""

from __future__ import annotations

from collections.abc import Sequence
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


def inventory() -> list[Gpu]:
    """List the GPUs of this machine, in NVML's order; empty without a driver."""
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


def read(indices: Sequence[int]) -> Reading:
    """Read the given GPUs once."""
    handles = [pynvml.nvmlDeviceGetHandleByIndex(no) for no in indices] if _is_available() else []
    memory = [_maybe(lambda h=h: pynvml.nvmlDeviceGetMemoryInfo(h).used) for h in handles]
    util = [_maybe(lambda h=h: pynvml.nvmlDeviceGetUtilizationRates(h).gpu) for h in handles]
    power = [_maybe(lambda h=h: pynvml.nvmlDeviceGetPowerUsage(h) / 1000) for h in handles]
    heat = [_maybe(lambda h=h: pynvml.nvmlDeviceGetTemperature(h, pynvml.NVML_TEMPERATURE_GPU)) for h in handles]
    return Reading(
        memory_used_bytes=int(sum(known)) if (known := _known(memory)) else None,
        util_percent=sum(known) / len(known) if (known := _known(util)) else None,
        power_w=sum(known) if (known := _known(power)) else None,
        temperature_c=max(known) if (known := _known(heat)) else None,
    )


def _maybe(query):  # type: ignore[no-untyped-def]
    try:
        return float(query())
    except pynvml.NVMLError:
        return None


def _known(values: Sequence[float | None]) -> list[float]:
    return [value for value in values if value is not None]


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value
