"""The memory of this machine that a load may use now: what is free, less what is left to others."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from vlmhyperbench.domain.fallbacks import usable_device, usable_host
from vlmhyperbench_sdk.free_memory import FreeMemory, free_memory


def usable_memory(environ: Mapping[str, str] = os.environ, *, root: Path = Path("/")) -> FreeMemory:
    """Measure what is free now, less the reserve of the machine and of each accelerator that these variables leave."""
    return less_reserve(free_memory(environ, root=root))


def less_reserve(free: FreeMemory) -> FreeMemory:
    """Return what of the free memory a load may use."""
    count = free.devices or 1
    device = free.device_bytes
    return FreeMemory(
        host_bytes=usable_host(free.host_bytes, free.host_total_bytes) if free.host_bytes is not None else None,
        device_bytes=usable_device(device // count, sys.maxsize, 0) * count if device is not None else None,
        devices=free.devices,
        host_total_bytes=free.host_total_bytes,
    )
