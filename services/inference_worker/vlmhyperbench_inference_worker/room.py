"""The share of the worker's devices that a job has: what the scheduler reserved, and whether the target needs more."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from vlmhyperbench.data.estimating import estimate_memory
from vlmhyperbench.data.ladders import open_ladder
from vlmhyperbench.data.load_fitting import LoadLadder
from vlmhyperbench.data.model_cache import ModelCache
from vlmhyperbench.db import memory, reservations
from vlmhyperbench.db.engine import Database
from vlmhyperbench.domain.fallbacks import MachineMemory, TaskTokens, usable_device, usable_host
from vlmhyperbench.domain.needs import UNKNOWN, Need
from vlmhyperbench.domain.placement import DeviceNow
from vlmhyperbench.domain.specs import ModelTarget, Target
from vlmhyperbench.serving.memory_back import free_bytes
from vlmhyperbench.worker.claims import ClaimedJob
from vlmhyperbench.worker.devices import DeviceInfo
from vlmhyperbench_inference_worker.serving import Serving
from vlmhyperbench_inference_worker.watch import Watch
from vlmhyperbench_sdk.free_memory import FreeMemory, free_memory


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """Reserved devices of a worker."""

    devices: tuple[DeviceInfo, ...] = ()
    """Empty if the engine runs elsewhere."""
    reserved_bytes: Mapping[int, int] = field(default_factory=dict)
    """Number of a device → bytes reserved of it."""
    is_alone: bool = True
    """Whether no other target may be loaded meanwhile."""

    @property
    def key(self) -> tuple[int, ...]:
        """The numbers of the devices."""
        return tuple(device.no for device in self.devices)

    def visible(self, seen: Sequence[DeviceInfo]) -> dict[str, str]:
        """Return the variables by which an engine sees only these devices; none if the worker has no others."""
        gpus = [device.uuid for device in self.devices if device.kind == "gpu"]
        others = [device for device in seen if device.kind == "gpu" and device.uuid not in gpus]
        return {"CUDA_VISIBLE_DEVICES": ",".join(gpus)} if gpus and others else {}


async def room_of(job: ClaimedJob, devices: Sequence[DeviceInfo]) -> Room:
    """Return what is reserved for a job."""
    held = []
    if job.job.attempt_id is not None:
        async with job.runtime.database.transaction() as session:
            held = await reservations.of_attempt(session, job.job.attempt_id)
    numbers = {reservation.device for reservation in held}
    return Room(
        devices=tuple(device for device in devices if device.no in numbers),
        reserved_bytes={reservation.device: reservation.bytes for reservation in held},
        is_alone=job.job.is_timed or any(reservation.is_exclusive for reservation in held),
    )


async def needs_more(job: ClaimedJob, target: Target, room: Room, cache: ModelCache) -> bool:
    """Return whether a target needs more memory than its job has; an estimate that nobody had made yet is stored.

    The job then goes back to the scheduler, which knows the estimate now.
    """
    digest = job.job.target_digest
    if digest is None or not room.devices:
        return False
    margin = job.settings.memory_margin
    async with job.runtime.database.transaction() as session:
        known = (await memory.needs_of(session, [digest], margin=margin)).get(digest, UNKNOWN)
    if known.device_bytes is None:
        estimate = await asyncio.to_thread(estimate_memory, target, cache)
        if estimate is not None:
            async with job.runtime.database.transaction() as session:
                await memory.write_estimates(session, {digest: estimate})
                known = (await memory.needs_of(session, [digest], margin=margin))[digest]
    need = Need(kind=job.job.kind, target_digest=digest, devices=len(room.devices), memory=known)
    for device in room.devices:
        needed = need.bytes_on(as_placed(device))
        have = device.memory_bytes if room.is_alone else room.reserved_bytes[device.no]
        if needed is not None and needed > have:
            return True
    return False


def ladder_of(
    target: Target,
    room: Room,
    cache: ModelCache,
    *,
    allow_lossy: bool = False,
    task: TaskTokens | None = None,
    smaller: Sequence[ModelTarget] = (),
    reserved: Callable[[int], int] = lambda _: 0,
    measure_free: Callable[[Mapping[str, str]], FreeMemory] = free_memory,
) -> LoadLadder | None:
    """Return what may be given up of a target so that it fits the room; None where its engine has no ladder.

    Args:
        target: What is to be loaded; its files are here.
        room: The devices that it has.
        cache: Where its files lie.
        allow_lossy: Whether quality may be given up.
        task: What the longest request needs of the context; None: the context is not cut.
        smaller: Other quantisations of the same model, the largest first; those whose files are not here are left out.
        reserved: Number of a device → bytes that others have reserved of it, asked when it is loaded.
        measure_free: Returns the memory that is free by the variables of an engine; by default that of this machine.

    Raises:
        InvalidInput: a parameter is wrong, or a file is no model.
        NotFound: a file is missing.
    """
    if not room.devices:
        return None
    gpus = sum(device.kind == "gpu" for device in room.devices)
    measure = partial(usable_of, room, measure_free, reserved=reserved)
    return open_ladder(
        target, cache, measure, devices=max(gpus, 1), allow_lossy=allow_lossy, task=task, smaller=smaller
    )


def usable_of(
    room: Room,
    measure_free: Callable[[Mapping[str, str]], FreeMemory] = free_memory,
    *,
    reserved: Callable[[int], int] = lambda _: 0,
    held: int = 0,
) -> MachineMemory:
    """Return what a load may use now of its devices and of the machine.

    Args:
        room: Its devices.
        measure_free: Returns the memory that is free by the variables of an engine.
        reserved: Number of a device → bytes that others have reserved of it, whether or not they use them already.
        held: Bytes that are not free, but count as if they were: of models that the load belongs to.
    """
    gpus = [device for device in room.devices if device.kind == "gpu"]
    free = measure_free(visible_to_engine(gpus))
    share = (free.device_bytes + held) // len(gpus) if gpus and free.device_bytes is not None else sys.maxsize
    host_bytes = free.host_bytes + (0 if gpus else held) if free.host_bytes is not None else None
    host = usable_host(host_bytes, free.host_total_bytes) if host_bytes is not None else sys.maxsize
    if not gpus:
        host = min(host, sum(max(device.memory_bytes - reserved(device.no), 0) for device in room.devices))
    devices = tuple(usable_device(share, device.memory_bytes, reserved(device.no)) for device in gpus)
    return MachineMemory(devices=devices, host=host)


def visible_to_engine(gpus: Sequence[DeviceInfo]) -> Mapping[str, str]:
    """Return the variable that leaves these GPUs to an engine; a machine may have others, with other free memory."""
    return {"CUDA_VISIBLE_DEVICES": ",".join(device.uuid for device in gpus)}


def free_of(room: Room) -> int | None:
    """Return the free bytes of a room's devices; None if unknown."""
    gpus = [device for device in room.devices if device.kind == "gpu"]
    return free_bytes(visible_to_engine(gpus), is_accelerated=bool(gpus))


async def record_peak(
    job: ClaimedJob, room: Room, watch: Watch, serving: Serving, *, resident: Collection[str]
) -> None:
    """Store the most memory that the target of a job has used, as `remember_peak`."""
    digest = job.job.target_digest
    if digest is not None and not job.fenced.is_set():
        await remember_peak(job.runtime.database, digest, room, watch, serving, resident=resident)


async def remember_peak(
    database: Database, digest: str, room: Room, watch: Watch, serving: Serving, *, resident: Collection[str]
) -> None:
    """Store the most memory that a target has used, if that is known and it was loaded as it is wanted.

    Args:
        database: Where it is stored.
        digest: The target.
        room: Its devices.
        watch: What was sampled.
        serving: How it was loaded.
        resident: Digests of the targets that are loaded now.
    """
    is_smaller = serving.fitted is not None and serving.fitted.steps
    if not room.devices or is_smaller:
        return
    peak = peak_of(room, watch, serving.memory_before_bytes, is_beside=not {digest}.issuperset(resident))
    if peak:
        async with database.transaction() as session:
            await memory.write_peak(session, digest, room.devices[0].name, peak)


def peak_of(room: Room, watch: Watch, before_bytes: int | None, *, is_beside: bool) -> int | None:
    """Return the most memory that a target has used on one of its devices; None if it cannot be told from others'.

    Args:
        room: Its devices.
        watch: What was sampled.
        before_bytes: What the accelerators used before it was loaded.
        is_beside: Whether other targets are loaded, which may have come to the accelerators since.
    """
    if room.devices[0].kind == "cpu":
        return watch.max_engine_rss()
    used = watch.max_accelerator_memory()
    if not room.is_alone or is_beside or before_bytes is None or used is None:
        return None
    return max(0, used - before_bytes) // len(room.devices)


def as_placed(device: DeviceInfo) -> DeviceNow:
    """Return a device of this worker as placement sees it."""
    return DeviceNow(
        no=device.no,
        memory_bytes=device.memory_bytes,
        name=device.name,
        is_accelerator=device.kind != "cpu",
        uuid=device.uuid,
    )
