"""Sample the GPU memory of one engine's processes; without a GPU it is unknown, not zero."""

from __future__ import annotations

import asyncio
import importlib
import time
from collections import deque
from collections.abc import Mapping
from types import ModuleType

import psutil

from vlmhyperbench_sdk.types import JsonValue

PERIOD_S = 0.1
_MAX_SAMPLES = 36_000
_MB = 1024 * 1024

UNKNOWN: Mapping[str, JsonValue] = {"vram_before_mb": None, "vram_peak_mb": None, "vram_delta_mb": None}


class VramWatch:
    """Samples of an engine's GPU memory, taken in a thread so that no request waits for NVML."""

    def __init__(self) -> None:
        self._samples: deque[tuple[int, float]] = deque(maxlen=_MAX_SAMPLES)

    async def run(self, pid: int) -> None:
        """Sample the process tree of an engine until cancelled; ends at once without NVML."""
        nvml = await asyncio.to_thread(_open_nvml)
        while nvml is not None:
            used = await asyncio.to_thread(_used_mb, nvml, pid)
            if used is not None:
                self.note(time.monotonic_ns(), used)
            await asyncio.sleep(PERIOD_S)

    def note(self, at_ns: int, used_mb: float) -> None:
        """Add a sample; its instant is not before that of the last one."""
        self._samples.append((at_ns, used_mb))

    def block(self, start_ns: int, end_ns: int) -> Mapping[str, JsonValue]:
        """Return the memory part of `performance` for a request between two instants."""
        if not self._samples:
            return UNKNOWN
        before = self._samples[0][1]
        peak = 0.0
        for at_ns, used in reversed(self._samples):
            if at_ns < start_ns:
                before = used
                break
            if at_ns <= end_ns:
                peak = max(peak, used)
        peak = max(peak, before)
        return {"vram_before_mb": before, "vram_peak_mb": peak, "vram_delta_mb": peak - before}


def _open_nvml() -> ModuleType | None:
    pynvml = importlib.import_module("pynvml")  # imported only if a model is loaded

    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return None
    return pynvml


def _used_mb(nvml: ModuleType, pid: int) -> float | None:
    try:
        root = psutil.Process(pid)
        family = {pid, *(child.pid for child in root.children(recursive=True))}
    except psutil.NoSuchProcess:
        return None
    total, is_known = 0, False
    try:
        for index in range(nvml.nvmlDeviceGetCount()):
            for process in nvml.nvmlDeviceGetComputeRunningProcesses(nvml.nvmlDeviceGetHandleByIndex(index)):
                if process.pid in family and process.usedGpuMemory is not None:
                    total, is_known = total + process.usedGpuMemory, True
    except nvml.NVMLError:  # the driver does not say it, as for some slices of a GPU
        return None
    return total / _MB if is_known else None
