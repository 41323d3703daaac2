"""The devices of a worker, and the file locks of the GPUs that its process tree uses."""

from __future__ import annotations

import asyncio
import fcntl
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from vlmhyperbench.logs import get_logger

_LOG = get_logger(__name__)
_LOOK_AGAIN_S = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceInfo:
    """A GPU, or the CPU slot of a machine without GPUs."""

    no: int
    kind: Literal["gpu", "cpu"]
    uuid: str
    name: str
    memory_bytes: int


async def lock_devices(folder: Path, devices: Sequence[DeviceInfo]) -> list[int]:
    """Lock every GPU and return the open lock files; a CPU slot has no lock, since a CPU can be shared.

    Children that inherit a file share its lock, which lasts as long as the process tree that uses the device. Waits
    while an earlier process tree holds a lock.
    """
    await asyncio.to_thread(folder.mkdir, mode=0o700, parents=True, exist_ok=True)
    names = [re.sub(r"[^A-Za-z0-9-]", "_", device.uuid) for device in devices if device.kind == "gpu"]
    return [await _lock(folder / f"{name}.lock") for name in names]


async def _lock(path: Path) -> int:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    has_waited = False
    try:
        while not _try_lock(descriptor):
            if not has_waited:
                _LOG.warning("worker.device_is_held", lock=str(path))
                has_waited = True
            await asyncio.sleep(_LOOK_AGAIN_S)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
