"""What a job needs before it can start: devices, their memory, and whether its speed counts. Pure.

The memory comes from the estimate of the target's adapter, times a margin, or from what was measured on a device of the
same name. Where neither is known, a job takes whole devices.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Protocol
from urllib.parse import urlsplit

from vlmhyperbench.domain.environments import RentedSpec
from vlmhyperbench.domain.specs import EndpointTarget, ModelTarget, Target
from vlmhyperbench.domain.steps import StepKind

SIMULATED: Final = "simulated"
"""The adapter whose engine has declared timing."""

DEVICES_PARAM: Final = "tensor_parallel"
"""Parameter of an engine: the number of devices over which it spreads the model."""

MEASURED_MARGIN: Final = 1.05
"""Factor of a measured peak: the next run may have a longer prompt or a larger image. Never more than the device."""

Shape = tuple[StepKind, str | None, bool, int]


class Capacity(Protocol):
    """What determines the memory that a job needs of a device."""

    @property
    def name(self) -> str: ...
    @property
    def is_accelerator(self) -> bool: ...
    @property
    def memory_bytes(self) -> int: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryNeed:
    """The memory of a loaded target, on all of its devices together; None where it is not known."""

    device_bytes: int | None = None
    """Estimated memory of accelerators."""
    host_bytes: int = 0
    """Estimated memory of the machine, which counts on a device that is the machine's processor."""
    device_share: float | None = None
    """Share of an accelerator that the engine takes whatever it needs; None: it takes what it needs."""
    knobs: tuple[str, ...] = ()
    """Parameters of the engine that change the need."""
    peaks: Mapping[str, int] = field(default_factory=dict)
    """Name of a device → measured peak in bytes, on one of the target's devices."""
    min_device_bytes: int | None = None
    min_host_bytes: int | None = None
    """What the smallest load of the ladder needs; None: it has no ladder."""
    margin: float = 1.0
    """Factor of the estimate; a measured peak has `MEASURED_MARGIN`."""

    @property
    def whole(self) -> MemoryNeed:
        """The need of a load of which the ladder gives up nothing."""
        return replace(self, min_device_bytes=None, min_host_bytes=None)


UNKNOWN: Final = MemoryNeed()


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """What a job needs."""

    kind: StepKind
    target_digest: str | None = None
    is_timed: bool = True
    """Whether its speed counts, so that it is alone on its devices and undisturbed on its machine."""
    devices: int = 1
    """Number of devices of one worker; 0 if its engine runs elsewhere."""
    is_simulated: bool = False
    """Whether its engine is simulated, so that it may run on declared devices."""
    server: str | None = None
    """The server that it asks, if the platform does not run it."""
    memory: MemoryNeed = UNKNOWN

    @property
    def shape(self) -> Shape:
        """What equal needs have in common: if one of them has no room, no other has."""
        return self.kind, self.target_digest, self.is_timed, self.devices

    def bytes_on(self, device: Capacity) -> int | None:
        """Return the bytes that it needs of one device; None if that is not known, so that it needs all of it."""
        memory = self.memory
        peak = memory.peaks.get(device.name)
        if peak is not None:
            taken = math.ceil(peak * MEASURED_MARGIN)
            if peak <= device.memory_bytes:  # such a device has held it, whatever the margin
                taken = min(taken, device.memory_bytes)
            return self._loadable(max(taken, self._due_on(device)), device)
        if memory.device_bytes is None:
            return None
        estimate = memory.device_bytes + (0 if device.is_accelerator else memory.host_bytes)
        share = memory.device_share if device.is_accelerator else None
        taken = math.ceil(share * device.memory_bytes) if share is not None else 0
        return self._loadable(max(math.ceil(estimate * memory.margin / max(self.devices, 1)), taken), device)

    def _loadable(self, needed: int, device: Capacity) -> int:
        least = self._least_on(device)
        if least is not None and least <= device.memory_bytes < needed:
            return device.memory_bytes  # it is loaded smaller, by the ladder
        return needed

    def _due_on(self, device: Capacity) -> int:
        """Return what longer prompts than those measured take of a device.

        The measured peak of a processor is its resident memory, without the pages of the cache that no prompt has
        touched; the estimate counts them. An accelerator's has all that was allocated.
        """
        memory = self.memory
        return 0 if device.is_accelerator else (memory.device_bytes or 0) + memory.host_bytes

    def _least_on(self, device: Capacity) -> int | None:
        memory = self.memory
        if memory.min_device_bytes is None or memory.min_host_bytes is None:
            return None
        least = memory.min_device_bytes + (0 if device.is_accelerator else memory.min_host_bytes)
        return math.ceil(least * memory.margin / max(self.devices, 1))

    def basis(self, device: Capacity) -> str:
        """Say how the bytes are known, as in `the estimate of 4.0 GiB x 1.2`."""
        peak = self.memory.peaks.get(device.name)
        if peak is not None and (due := self._due_on(device)) > math.ceil(peak * MEASURED_MARGIN):
            return f"the estimate of {in_gib(due)}, as a peak of {in_gib(peak)} was measured with shorter prompts"
        if peak is not None:
            return f"the measured peak of {in_gib(peak)} x {MEASURED_MARGIN:g}"
        total = (self.memory.device_bytes or 0) + (0 if device.is_accelerator else self.memory.host_bytes)
        over = f" over {self.devices} devices" if self.devices > 1 else ""
        return f"the estimate of {in_gib(total)} x {self.memory.margin:g}{over}"


def devices_of(target: Target) -> int:
    """Return the number of devices of a worker that a target needs; 0 if its engine does not run on the worker."""
    if not isinstance(target, ModelTarget) or isinstance(target.environment, RentedSpec):
        return 0
    wanted = target.engine_params.get(DEVICES_PARAM)
    return wanted if isinstance(wanted, int) and not isinstance(wanted, bool) and wanted > 0 else 1


def server_of(target: Target) -> str | None:
    """Return the host and port of a target that is an endpoint; None if the platform runs its engine.

    Two paths or models of one server share its hardware.
    """
    if not isinstance(target, EndpointTarget):
        return None
    parts = urlsplit(target.endpoint)
    return parts.netloc.rpartition("@")[2].lower() or target.endpoint


def is_simulated(target: Target) -> bool:
    """Return whether the engine of a target is simulated."""
    return isinstance(target, ModelTarget) and target.backend_class == SIMULATED


def in_gib(size_bytes: int) -> str:
    """Write bytes as GiB, or as MiB below one GiB."""
    return f"{size_bytes / 1024**3:,.1f} GiB" if size_bytes >= 1024**3 else f"{size_bytes / 1024**2:,.0f} MiB"
