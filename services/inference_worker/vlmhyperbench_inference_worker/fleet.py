"""The targets that this worker keeps loaded, as many as fit its devices, and which of them makes room for another.

A job whose speed counts has the worker alone, so that all others are unloaded for it. One on a rented machine is
unloaded when no job has wanted it for some time, which returns the machine.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TypeAlias
from uuid import UUID

from vlmhyperbench.data.load_fitting import FittedLoad
from vlmhyperbench.domain.environments import RentedSpec
from vlmhyperbench.domain.specs import ModelTarget
from vlmhyperbench.serving.memory_back import Unloaded, private_bytes, unload_measured
from vlmhyperbench.sources import require_source
from vlmhyperbench.worker.gateway import GatewayOptions, is_rented
from vlmhyperbench_inference_worker.room import Room, free_of
from vlmhyperbench_inference_worker.serving import Serving, WantedTarget

MAX_RAN_OUT = 64
"""Jobs whose loads that ran out of memory are remembered."""
MAX_RESIDENTS = 16
"""Maximum number of targets that stay loaded, whether or not they need memory of a device."""

WantedNext: TypeAlias = Callable[[Sequence[str]], Awaitable[Sequence[str]]]
"""Returns which of these targets jobs wait for, the most urgent first."""


async def _nobody_waits(_: Sequence[str]) -> Sequence[str]:
    return []


@dataclass(eq=False, slots=True, kw_only=True)
class _Resident:
    """A target that is loaded, or is being loaded or unloaded."""

    wanted: WantedTarget
    room: Room
    serving: Serving | None = None
    users: set[UUID] = field(default_factory=set)
    """Claims that use it."""
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    is_spoiled: bool = False
    """Nobody uses it again; it is unloaded once its last user has left it."""
    used_at: float = field(default_factory=time.monotonic)
    is_pinned: bool = False
    """Whether it makes room for no other, unless that needs the worker alone."""
    idle: asyncio.Task[None] | None = None
    """Waits to unload a target on a rented machine."""

    def is_for(self, wanted: WantedTarget, room: Room) -> bool:
        """Return whether it is this target, with these secrets, on these devices, and of the quality that is asked."""
        same = (self.wanted.digest, self.wanted.secrets) == (wanted.digest, wanted.secrets)
        is_lossy = self.serving is not None and self.serving.is_lossy
        is_good = not is_lossy or (wanted.ladder is not None and wanted.ladder.allow_lossy)
        fitted = self.serving.fitted if self.serving is not None else None
        is_good = is_good and (fitted is None or wanted.ladder is None or wanted.ladder.holds_task(fitted))
        is_good = is_good and (fitted is None or not fitted.steps or self._had_the_room_of(wanted, room))
        return same and is_good and self.room.key == room.key and not self.is_spoiled

    def _had_the_room_of(self, wanted: WantedTarget, room: Room) -> bool:
        """Return whether no others were left beside it that are unloaded now: it is not smaller than it must be."""
        was_alone = self.room.is_alone and self.wanted.residency.keeps <= wanted.residency.keeps
        return was_alone or not room.is_alone


class Fleet:
    """Residency: targets stay loaded until others need their memory, a timed job comes, or the worker ends."""

    def __init__(self, *, free: Callable[[Room], int | None] = free_of) -> None:
        """Begin with nothing loaded; `free` returns the free bytes of the devices of a room."""
        self._free = free
        self._residents: list[_Resident] = []
        self.recording = asyncio.Lock()
        """Held while the loaded targets are recorded, so that an older list never replaces a newer one."""
        self._jobs: set[UUID] = set()
        self._ran_out: dict[UUID, list[FittedLoad]] = {}
        self.asked = asyncio.Lock()
        """Held while a model is loaded or unloaded because a user asked for it; jobs wait for it."""

    @property
    def is_busy(self) -> bool:
        """Whether a job uses a target, or is about to."""
        return bool(self._jobs) or any(each.users for each in self._residents)

    async def enter(self, user: UUID) -> None:
        """Begin a job: wait until no load that a user asked for is under way; none begins until `release`."""
        self._jobs.add(user)
        async with self.asked:
            return

    def note_out_of_memory(self, job_id: UUID, user: UUID) -> None:
        """Note that the engine of a claim ran out of memory, so that the job's next claim loads it smaller."""
        for each in self._residents:
            if user in each.users and each.serving is not None and each.serving.fitted is not None:
                self._ran_out.setdefault(job_id, []).append(each.serving.fitted)
        while len(self._ran_out) > MAX_RAN_OUT:
            self._ran_out.pop(next(iter(self._ran_out)))

    def ran_out(self, job_id: UUID) -> Sequence[FittedLoad]:
        """Return the loads with which a job has run out of memory here, the last one at the end."""
        return self._ran_out.get(job_id, ())

    def pin(self, digest: str, *, is_pinned: bool) -> None:
        """Let a loaded target make room only for what needs the worker alone, or again for all."""
        for each in self._residents:
            if each.wanted.digest == digest:
                each.is_pinned = is_pinned

    def memory_bytes(self, digest: str) -> int:
        """Return what a loaded target holds: of accelerators what is reserved, else the memory of its engine."""
        return sum(_held(each) for each in self._residents if each.wanted.digest == digest)

    def reserved_beside(self, digests: Collection[str], device: int, *, in_use: bool = False) -> int:
        """Return what loaded targets but these have reserved of a device; `in_use`: only those that are not idle."""
        others = [each for each in self._residents if each.wanted.digest not in digests]
        return sum(each.room.reserved_bytes.get(device, 0) for each in others if each.users or not in_use)

    async def unload(self, digest: str) -> Unloaded | None:
        """Unload a target that no job uses, and wait until its memory is free; None if there is none, or it is used."""
        found = [each for each in self._residents if each.wanted.digest == digest and not each.users]
        unloaded = [each for each in [await self._unload(resident) for resident in found] if each is not None]
        if not unloaded:
            return None
        return Unloaded(held=sum(each.held for each in unloaded), back=sum(each.back for each in unloaded))

    @property
    def resident(self) -> Sequence[str]:
        """Digests of the targets that are loaded now."""
        return list(dict.fromkeys(each.wanted.digest for each in self._residents if each.serving is not None))

    @property
    def engine_pids(self) -> Sequence[int]:
        """Processes of the engines that are loaded now, as far as they run on this machine."""
        engines = [each.serving.engine for each in self._residents if each.serving is not None]
        return [engine.pid for engine in engines if engine is not None and engine.pid is not None]

    @property
    def engine_logs(self) -> Sequence[Path]:
        """Logs of the engines that are loaded now."""
        logs = [each.serving.engine_log for each in self._residents if each.serving is not None]
        return [log for log in logs if log is not None]

    async def loaded(self, wanted: WantedTarget, room: Room, user: UUID) -> Serving | None:
        """Return the serving of a target if it is loaded and healthy; `user` then has it until `release`.

        Raises:
            Conflict: the code of the adapter is not the code that was pinned.
        """
        require_source(wanted.target.adapter, f"adapter {wanted.target.backend_class!r}")
        resident = next((each for each in self._residents if each.is_for(wanted, room)), None)
        if resident is None:
            return None
        _stop_waiting(resident)
        resident.users.add(user)
        async with resident.lock:
            if resident.serving is not None and await resident.serving.is_alive():
                resident.wanted = replace(resident.wanted, residency=wanted.residency)
                if room.is_alone or wanted.residency.is_sequential:
                    await self._make_room(resident, room)
                return resident.serving
        self._leave(resident, user)
        return None

    async def acquire(
        self,
        wanted: WantedTarget,
        options: GatewayOptions,
        room: Room,
        user: UUID,
        *,
        wanted_next: WantedNext = _nobody_waits,
    ) -> Serving:
        """Return the serving of a target, loaded unless it is; others are unloaded first as far as they must.

        `user` has it until `release`.

        Raises:
            Conflict: the code of the adapter is not the code that was pinned.
            VlmHyperBenchError: it cannot be loaded, see `Serving.start`.
        """
        require_source(wanted.target.adapter, f"adapter {wanted.target.backend_class!r}")
        resident = next((each for each in self._residents if each.is_for(wanted, room)), None)
        if resident is None:
            resident = _Resident(wanted=wanted, room=room)
            self._residents.append(resident)
        _stop_waiting(resident)
        resident.users.add(user)
        try:
            async with resident.lock:
                resident.wanted = replace(resident.wanted, residency=wanted.residency)
                if resident.serving is not None and await resident.serving.is_alive():
                    return resident.serving
                await self._close(resident)
                await self._make_room(resident, room, wanted_next)
                resident.serving = await Serving.start(wanted, options, free=partial(self._free, room))
                return resident.serving
        except BaseException:
            self._leave(resident, user)
            raise

    async def _make_room(self, newcomer: _Resident, room: Room, wanted_next: WantedNext = _nobody_waits) -> None:
        """Unload idle targets until a new one fits: first what no job waits for, then the least recently used.

        The memory of each is free again before the new one is fitted into what is free. A pinned one stays unless a job
        needs the worker alone, and so does what the newcomer's pipeline keeps loaded.
        """
        digests = [each.wanted.digest for each in self._residents]
        urgent = list(await wanted_next(digests)) if not room.is_alone else []

        def order(resident: _Resident) -> tuple[int, float]:
            digest = resident.wanted.digest
            return -(urgent.index(digest) if digest in urgent else len(urgent)), resident.used_at

        kept = newcomer.wanted.residency.keeps
        clears = newcomer.wanted.residency.is_sequential or newcomer.wanted.ran_out is not None
        while idle := sorted((each for each in self._residents if each is not newcomer and not each.users), key=order):
            lacking = self._lacking(newcomer)
            victims = [
                each
                for each in idle
                if each.is_spoiled
                or (room.is_alone and (each.wanted.digest not in kept or each.wanted.digest == newcomer.wanted.digest))
                or (
                    not each.is_pinned
                    and each.wanted.digest not in kept
                    and (clears or len(self._residents) > MAX_RESIDENTS or lacking & set(each.room.key))
                )
            ]
            if not victims:
                return
            await self._unload(victims[0])

    def _lacking(self, newcomer: _Resident) -> set[int]:
        """Return the devices on which a new target does not fit beside the others."""
        lacking = set()
        for device in newcomer.room.devices:
            held = sum(each.room.reserved_bytes.get(device.no, 0) for each in self._residents)
            if held > device.memory_bytes:
                lacking.add(device.no)
        return lacking

    def release(self, user: UUID) -> None:
        """Note that a claim no longer uses its targets."""
        self._jobs.discard(user)
        for resident in [each for each in self._residents if user in each.users]:
            self._leave(resident, user)

    def leave_sequential(self, user: UUID) -> Sequence[str]:
        """Leave the targets that are to be unloaded after their work, and return their digests."""
        left = [each for each in self._residents if user in each.users and each.wanted.residency.is_sequential]
        for resident in left:
            self._leave(resident, user)
        return [resident.wanted.digest for resident in left]

    def _leave(self, resident: _Resident, user: UUID) -> None:
        resident.users.discard(user)
        resident.used_at = time.monotonic()
        if resident.users:
            return
        if resident.serving is None and resident in self._residents:
            self._residents.remove(resident)
        target = resident.wanted.target
        spec = target.environment if isinstance(target, ModelTarget) else None
        if isinstance(spec, RentedSpec):
            _stop_waiting(resident)
            wait = self._unload_after(resident, spec.max_idle_minutes * 60)
            resident.idle = asyncio.create_task(wait, name="idle machine")

    async def _unload_after(self, resident: _Resident, seconds: float) -> None:
        await asyncio.sleep(seconds)
        await self._unload(resident)

    async def discard(self, user: UUID) -> None:
        """Unload what a claim uses, because it is broken; what others use too is unloaded when they have left it."""
        for resident in [each for each in self._residents if user in each.users]:
            resident.users.discard(user)
            resident.is_spoiled = True
        for resident in [each for each in self._residents if each.is_spoiled and not each.users]:
            await self._unload(resident)

    async def close(self) -> None:
        """Unload everything, because the worker ends; nothing is loaded after that, so no memory is waited for."""
        for resident in list(self._residents):
            resident.users.clear()
            _stop_waiting(resident)
            async with resident.lock:
                await self._end(resident)

    async def _unload(self, resident: _Resident) -> Unloaded | None:
        if resident.idle is not asyncio.current_task():
            _stop_waiting(resident)
        async with resident.lock:
            if resident.users:  # a job has come for it meanwhile
                return None
            return await self._close(resident)

    async def _close(self, resident: _Resident) -> Unloaded:
        """End the engine of a target, and wait until its memory is free again."""
        gpus = [device.memory_bytes for device in resident.room.devices if device.kind == "gpu"]
        return await unload_measured(
            partial(self._end, resident),
            _held(resident),
            partial(self._free, resident.room),
            total=sum(gpus) if gpus else None,
        )

    async def _end(self, resident: _Resident) -> None:
        # The serving is forgotten after it has ended: if this is cancelled, the next call ends it.
        if resident.serving is not None:
            await resident.serving.close()
            resident.serving = None
        if not resident.users and resident in self._residents:
            self._residents.remove(resident)


def _held(resident: _Resident) -> int:
    """Return what a target holds of its devices; 0 where its engine has ended or runs elsewhere."""
    serving = resident.serving
    engine = serving.engine if serving is not None else None
    if engine is None or is_rented(engine) or not resident.room.devices:
        return 0
    gpus = [device.no for device in resident.room.devices if device.kind == "gpu"]
    return sum(resident.room.reserved_bytes.get(no, 0) for no in gpus) or private_bytes(engine.pid)


def _stop_waiting(resident: _Resident) -> None:
    if resident.idle is not None and resident.idle is not asyncio.current_task():
        resident.idle.cancel()
        resident.idle = None
