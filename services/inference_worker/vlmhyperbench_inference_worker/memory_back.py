"""Unload a target, and wait until its memory is free again: an engine's memory comes back a moment after its end."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from vlmhyperbench.db import reservations
from vlmhyperbench.db.claims import ClaimRecord
from vlmhyperbench.worker.claims import ClaimedJob
from vlmhyperbench_inference_worker.fleet import Fleet
from vlmhyperbench_sdk.free_memory import free_memory

POLL_S: Final = 0.25
BACK_S: Final = 5.0
"""How long memory may take to come back after an unload."""
BACK_SHARE: Final = 0.75


@dataclass(frozen=True, slots=True, kw_only=True)
class Unloaded:
    """Bytes that a target held, and how many of them are free again."""

    held: int
    back: int


async def unload_measured(fleet: Fleet, digest: str) -> Unloaded | None:
    """Unload a target that no job uses; None if it is not loaded, or a job uses it."""
    before, held = await asyncio.to_thread(_free), fleet.memory_bytes(digest)
    if not await fleet.unload(digest):
        return None
    return Unloaded(held=held, back=max(await until_back(before, held, _free), 0))


async def unload_after(job: ClaimedJob, fleet: Fleet) -> None:
    """Unload what a claim has used if its pipeline is sequential, unless another job waits for it; record what is back.

    Raises:
        Fenced: the claim is lost.
    """
    for digest in fleet.leave_sequential(job.claim_id):
        async with job.runtime.database.transaction() as session:
            if await reservations.wanted_next(session, [digest]):
                continue
        unloaded = await unload_measured(fleet, digest)
        if unloaded is not None:
            told = {"memory_held_bytes": unloaded.held, "memory_back_bytes": unloaded.back}
            async with fleet.recording:
                await job.record_target(fleet.resident, ClaimRecord(resources=told))


async def until_back(before: int, held: int, free: Callable[[], int]) -> int:
    """Wait until 75 % of the bytes that a model held are free again, at most 5 s; return how many are."""
    end = time.monotonic() + BACK_S
    while (back := await asyncio.to_thread(free) - before) < BACK_SHARE * held and time.monotonic() < end:  # noqa: ASYNC110 - nothing tells when memory is free
        await asyncio.sleep(POLL_S)
    return back


def _free() -> int:
    memory = free_memory()
    return memory.device_bytes if memory.device_bytes is not None else memory.host_bytes or 0
