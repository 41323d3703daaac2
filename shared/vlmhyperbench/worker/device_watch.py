"""Watch a worker's GPUs, quarantine a faulty one, and tell which failures of jobs a fault explains."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress

from vlmhyperbench.db import workers
from vlmhyperbench.domain.outcomes import Failed
from vlmhyperbench.errors import Unavailable
from vlmhyperbench.logs import get_logger
from vlmhyperbench.worker.claims import WorkerContext
from vlmhyperbench.worker.device_faults import Fault, GpuFaults
from vlmhyperbench.worker.device_readings import keep_reading
from vlmhyperbench.worker.devices import DeviceInfo

_LOG = get_logger(__name__)
LOOK_S = 0.5
"""How long one look at the driver's events takes at most."""
_PATIENCE_LOOKS = 10
QUARANTINED = "device_quarantined"
"""Code of the failure of a claim whose device was quarantined, and of the alert."""


class DeviceWatch:
    """Looks at the devices until cancelled."""

    def __init__(
        self, context: WorkerContext, devices: Sequence[DeviceInfo], on_fault: Callable[[Failed], Awaitable[None]]
    ) -> None:
        """Create a watch; `on_fault` is awaited with the failure of the jobs that use the device."""
        self._context = context
        self._devices = devices
        self._on_fault = on_fault
        self._faults: GpuFaults | None = None
        self._looks = 0
        self._has_looked = asyncio.Condition()
        self._last: tuple[float, Failed] | None = None
        """Monotonic instant and meaning of the last fault."""

    async def run(self) -> None:
        """Look for faults of the devices and read their use until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(keep_reading(self._context, self._devices))
            group.create_task(self.look_for_faults())

    async def look_for_faults(self) -> None:
        """Look at the devices until cancelled; returns at once where there is no GPU to watch."""
        faults = self._faults = await asyncio.to_thread(GpuFaults, self._devices)
        while faults.watches:
            for fault in await asyncio.to_thread(faults.wait, LOOK_S):
                await self._handle(fault)
            async with self._has_looked:
                self._looks += 1
                self._has_looked.notify_all()

    async def fault_since(self, since: float) -> Failed | None:
        """Return what a fault since a monotonic instant means for a job, after one more look; None without a fault."""
        if self._faults is not None and self._faults.watches:
            with suppress(TimeoutError):  # nobody looks any more once the worker has drained
                async with asyncio.timeout(_PATIENCE_LOOKS * LOOK_S), self._has_looked:
                    wanted = self._looks + 2  # the look that goes on may have begun before the fault
                    await self._has_looked.wait_for(lambda: self._looks >= wanted)
        return self._last[1] if self._last is not None and self._last[0] >= since else None

    async def _handle(self, fault: Fault) -> None:
        device = fault.device
        failed = Failed(
            code=QUARANTINED,
            message=f"The device {device.uuid} ({device.name}) of the worker {self._context.name} was quarantined: "
            f"{fault.reason}",
            is_charged=False,
        )
        self._last = (time.monotonic(), failed)
        if await self._quarantine(fault):
            _LOG.error(
                "worker.device_quarantined",
                device=device.uuid,
                name=device.name,
                reason=fault.reason,
                cure=f"vlmhyperbench workers release-device {device.uuid}",
            )
        await self._on_fault(failed)

    async def _quarantine(self, fault: Fault) -> bool:
        """Write the quarantine, with further tries while the database is not available."""
        while True:
            with suppress(Unavailable):
                async with self._context.runtime.database.transaction() as session:
                    return await workers.quarantine(
                        session, self._context.worker_id, uuid=fault.device.uuid, reason=fault.reason
                    )
            await asyncio.sleep(LOOK_S)


def offered(devices: Sequence[DeviceInfo]) -> list[workers.NewDevice]:
    """Return the devices as their worker registers them."""
    return [
        workers.NewDevice(
            no=device.no, kind=device.kind, uuid=device.uuid, name=device.name, memory_bytes=device.memory_bytes
        )
        for device in devices
    ]
