"""Faults of GPUs as the driver reports them: an Xid error that is not an application's own, or a GPU that is gone."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import pynvml

from vlmhyperbench.logs import get_logger
from vlmhyperbench.worker import nvml
from vlmhyperbench.worker.devices import DeviceInfo

_LOG = get_logger(__name__)

XIDS_OF_APPLICATIONS: Final = {
    8: "GPU stopped processing",
    11: "invalid or corrupted push buffer stream",
    13: "graphics engine exception",
    31: "GPU memory page fault",
    43: "GPU stopped processing",
    45: "preemptive cleanup, due to previous errors",
    68: "video processor exception",
    109: "context switch timeout",
}
"""Xid errors after which the GPU is still healthy: what ends is the application, most often by its own fault.

Sources: NVIDIA's Xid catalogue (docs.nvidia.com/deploy/xid-errors), whose immediate action for 8, 11 and 13 is to
restart the application, and NVIDIA's device plugin for Kubernetes, whose health check ignores 13, 31, 43, 45, 68 and
109. Any other Xid quarantines the GPU: a person must look at it.
"""
_MAX_EVENTS = 1000
_ALL_SLICES = 0xFFFFFFFF
"""What NVML states as the instance of an error that concerns no slice."""
_GONE: Final = frozenset({pynvml.NVML_ERROR_GPU_IS_LOST, pynvml.NVML_ERROR_NOT_FOUND, pynvml.NVML_ERROR_RESET_REQUIRED})


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """A fault of one device."""

    device: DeviceInfo
    reason: str


class GpuFaults:
    """Waits for faults of some GPUs; its methods block, and are called in one thread at a time."""

    def __init__(self, devices: Sequence[DeviceInfo]) -> None:
        real = [device for device in devices if device.kind == "gpu" and not device.is_declared]
        self._devices = real if real and nvml.is_available() else []
        self._events: Any = None
        self._watched: dict[int, list[tuple[int | None, DeviceInfo]]] = {}
        """Address of a GPU's handle → its devices, each with the number of its slice."""
        self._gone: set[str] = set()
        """UUIDs of the devices that were not reached at the last look."""
        if self._devices:
            self._register()

    @property
    def watches(self) -> bool:
        """Whether there is any GPU to watch."""
        return bool(self._devices)

    def wait(self, wait_s: float) -> list[Fault]:
        """Wait for faults, at most this long, and return one for each device that has any."""
        if self._events is None:
            time.sleep(wait_s)
            faults = []
        else:
            faults = self._next_errors(wait_s)
        missing = [fault for fault in map(_missing, self._devices) if fault is not None]
        gone = {fault.device.uuid for fault in missing}
        if self._gone - gone:  # a GPU that has come back has forgotten who wants its events
            self._register()
        self._gone = gone
        return list({fault.device.uuid: fault for fault in reversed([*faults, *missing])}.values())

    def _register(self) -> None:
        """Ask for the events of each GPU; one that sends none leaves the look whether it is there."""
        self._watched.clear()
        try:
            self._free_events()
            self._events = pynvml.nvmlEventSetCreate()
        except pynvml.NVMLError as error:
            _LOG.warning("gpu.sends_no_events", reason=str(error))
            return
        for device in self._devices:
            try:
                whole = nvml.handle_of(device.slice_of or device.uuid)
                number = pynvml.nvmlDeviceGetGpuInstanceId(nvml.handle_of(device.uuid)) if device.slice_of else None
                if _address(whole) not in self._watched:
                    pynvml.nvmlDeviceRegisterEvents(whole, pynvml.nvmlEventTypeXidCriticalError, self._events)
            except pynvml.NVMLError as error:
                _LOG.warning("gpu.sends_no_events", device=device.uuid, reason=str(error))
                continue
            self._watched.setdefault(_address(whole), []).append((number, device))
        if not self._watched:
            self._free_events()

    def _free_events(self) -> None:
        events, self._events = self._events, None
        if events is not None:
            pynvml.nvmlEventSetFree(events)

    def _next_errors(self, wait_s: float) -> list[Fault]:
        """Wait for an event, and return the faults of it and of those behind it: a broken GPU may report hundreds."""
        faults: list[Fault] = []
        for wait_ms in (round(wait_s * 1000), *([0] * _MAX_EVENTS)):
            try:
                event = pynvml.nvmlEventSetWait_v2(self._events, wait_ms)
            except pynvml.NVMLError as error:
                if error.value != pynvml.NVML_ERROR_TIMEOUT and not faults:
                    time.sleep(wait_s)  # a lost GPU makes every call fail at once
                break
            faults += self._faults_of(event)
        return faults

    def _faults_of(self, event: Any) -> list[Fault]:
        xid = int(event.eventData)
        touched = [
            device
            for number, device in self._watched.get(_address(event.device), [])
            if number is None or event.gpuInstanceId in (number, _ALL_SLICES)
        ]
        if xid in XIDS_OF_APPLICATIONS:
            for device in touched:
                _LOG.warning("gpu.error_of_application", device=device.uuid, xid=xid, name=XIDS_OF_APPLICATIONS[xid])
            return []
        return [Fault(device=device, reason=f"The driver reported Xid {xid}.") for device in touched]


def _missing(device: DeviceInfo) -> Fault | None:
    """Return the fault of a GPU that the driver no longer reaches."""
    try:
        pynvml.nvmlDeviceGetMemoryInfo(nvml.handle_of(device.uuid))
    except pynvml.NVMLError as error:
        if error.value in _GONE:
            nvml.handle_of.cache_clear()  # a GPU that comes back may have another handle
            return Fault(device=device, reason=f"The driver no longer reaches the GPU: {error}.")
    return None


def _address(handle: Any) -> int:
    return int(ctypes.cast(handle, ctypes.c_void_p).value or 0)
