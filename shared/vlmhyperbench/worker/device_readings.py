"""Read the use of a worker's devices with every heartbeat, so that pages show what each one does now."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import psutil

from vlmhyperbench.db import workers
from vlmhyperbench.db.workers import DeviceReading
from vlmhyperbench.errors import Unavailable
from vlmhyperbench.logs import get_logger
from vlmhyperbench.worker import nvml
from vlmhyperbench.worker.claims import WorkerContext
from vlmhyperbench.worker.devices import DeviceInfo

_LOG = get_logger(__name__)


async def keep_reading(context: WorkerContext, devices: Sequence[DeviceInfo]) -> None:
    """Read the devices and record their use until cancelled; devices that a file declares have none.

    The database may be away: the next reading replaces the one that is lost.
    """
    real = [device for device in devices if not device.is_declared]
    while real:
        readings = await asyncio.to_thread(lambda: [read_device(device) for device in real])
        try:
            async with context.runtime.database.transaction() as session:
                await workers.record_readings(session, context.worker_id, readings)
        except Unavailable as error:
            _LOG.debug("worker.readings_lost", error=str(error))
        await asyncio.sleep(context.settings.timers.heartbeat_s)


def read_device(device: DeviceInfo) -> DeviceReading:
    """Return the use of a device at this moment, also by others: of a GPU by its driver, else of the whole machine.

    The processor's use is the mean since the reading before.
    """
    if device.kind == "cpu":
        return DeviceReading(
            no=device.no, used_bytes=int(psutil.virtual_memory().used), util_percent=psutil.cpu_percent()
        )
    reading = nvml.read([device.uuid])
    return DeviceReading(no=device.no, used_bytes=reading.memory_used_bytes, util_percent=reading.util_percent)
