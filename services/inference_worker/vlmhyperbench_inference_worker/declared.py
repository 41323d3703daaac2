"""Refuse engines on declared GPUs, behind which no hardware stands: only a simulated engine may run there."""

from __future__ import annotations

from collections.abc import Sequence

from vlmhyperbench.domain.needs import is_simulated
from vlmhyperbench.domain.specs import ModelTarget
from vlmhyperbench.errors import Conflict
from vlmhyperbench.worker.devices import DeviceInfo


def check_declared(target: ModelTarget, devices: Sequence[DeviceInfo]) -> None:
    """Accept a target unless it would run on the processor and be recorded as if it had run on a declared GPU.

    Raises:
        Conflict: the devices are declared GPUs and the engine is not simulated; code `declared_device`.
    """
    declared = [device for device in devices if device.is_declared and device.kind == "gpu"]
    if declared and not is_simulated(target):
        raise Conflict(
            f"The backend {target.backend!r} cannot run on {declared[0].name} ({declared[0].uuid}): the device is"
            " declared in an inventory, and no hardware stands behind it.",
            cure="Run a simulated model there; or declare a device of the kind `cpu`, on which real engines run on the"
            " processor; or start the worker without VLMHB_INVENTORY.",
            code="declared_device",
        )
