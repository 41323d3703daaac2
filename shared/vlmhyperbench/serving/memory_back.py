"""Wait until the memory of an ended engine is free again: it comes back a moment after the end of its process."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

import psutil

from vlmhyperbench_sdk.free_memory import free_memory

POLL_S: Final = 0.25
BACK_READINGS: Final = 20
"""After how many readings, 5 s, memory that is not back counts as lost; a machine that is busy gets no fewer."""
BACK_SHARE: Final = 0.75

Pause: TypeAlias = Callable[[float], Awaitable[None]]
"""Waits for seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unloaded:
    """Bytes that a model held, and how many of them are free again."""

    held: int
    back: int


async def unload_measured(
    unload: Callable[[], Awaitable[None]],
    held: int,
    free: Callable[[], int | None],
    *,
    total: int | None = None,
    pause: Pause = asyncio.sleep,
) -> Unloaded:
    """Unload a model, and wait until 75 % of the bytes that it held are free again, at most 20 readings, 5 s.

    Args:
        unload: Ends its engine.
        held: Bytes that it is thought to hold.
        free: Returns the free bytes of the memory that holds it; where it returns None, nothing is waited for.
        total: All bytes of that memory; no more than what is used of them can come back.
        pause: Waits between two readings.
    """
    before = await asyncio.to_thread(free) if held else None
    if before is not None and total is not None:
        held = min(held, max(total - before, 0))
    await unload()
    return Unloaded(held=held, back=await wait_until_back(before, held, free, pause=pause) if before is not None else 0)


async def wait_until_back(
    before: int, held: int, free: Callable[[], int | None], *, pause: Pause = asyncio.sleep
) -> int:
    """Wait until 75 % of the bytes that were held are free again, at most 20 readings, and return how many are.

    Args:
        before: Free bytes while they were held.
        held: Bytes that are thought to have been held.
        free: As in `unload_measured`.
        pause: As there.
    """
    back = 0
    for _ in range(BACK_READINGS):
        now = await asyncio.to_thread(free)
        back = now - before if now is not None else back
        if now is None or back >= BACK_SHARE * held:
            break
        await pause(POLL_S)
    return max(back, 0)


def free_bytes(environ: Mapping[str, str] = os.environ, *, is_accelerated: bool | None = None) -> int | None:
    """Return the free bytes of the accelerators that these variables leave, or of the machine; None if unknown.

    `is_accelerated` says which of them; by default the accelerators where there are some.
    """
    free = free_memory(environ)
    if is_accelerated is None:
        is_accelerated = free.device_bytes is not None
    return free.device_bytes if is_accelerated else free.host_bytes


def private_bytes(pid: int | None) -> int:
    """Return the memory that comes back when a process ends; 0 if there is none.

    Weights that it has mapped from their file count as free already, since the machine may drop them.
    """
    if pid is None:
        return 0
    try:
        memory = psutil.Process(pid).memory_info()
    except psutil.NoSuchProcess:
        return 0
    return max(int(memory.rss - memory.shared), 0)
