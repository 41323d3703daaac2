"""Choose the worker and the devices of a job, by the memory that its devices have left. Pure.

A job whose speed counts is alone on its devices, and nothing else infers on ground that is not apart from its own, or
asks the server that it asks. All other jobs are packed: they share a device as long as their bytes fit. The devices of
a job are always of one worker.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from uuid import UUID

from vlmhyperbench.domain.ground import Ground
from vlmhyperbench.domain.needs import Need
from vlmhyperbench.domain.steps import STEPS


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceNow:
    """A device of a worker, with its current reservations."""

    no: int
    memory_bytes: int
    reserved_bytes: int = 0
    jobs: int = 0
    """Number of its reservations."""
    is_exclusive: bool = False
    """Whether one of them excludes all others."""
    name: str = ""
    """Name of its model; devices of one name need the same memory for the same target."""
    is_accelerator: bool = True
    """False: it is the processor of the machine, with the machine's memory."""
    uuid: str = ""
    drained: str | None = None
    """Who drained it and why: it finishes what runs and gets nothing new, until a person resumes it; None: nobody."""
    is_broken: bool = False
    is_declared: bool = False
    """Whether no hardware stands behind it; then only simulated engines run on it, if it is an accelerator."""
    pinned: tuple[tuple[str, int], ...] = ()
    """Digest and bytes of each idle target that its worker keeps loaded; only a job that is alone unloads it."""

    @property
    def is_usable(self) -> bool:
        """Whether it may get jobs."""
        return self.drained is None and not self.is_broken

    def left_bytes(self, need: Need) -> int:
        """Return the bytes that a job may have now; for one that is alone, or that uses it, a pinned model has none."""
        left = self.memory_bytes - self.reserved_bytes
        if not self.pinned or need.is_timed or need.bytes_on(self) is None:
            return left
        return left - sum(size for digest, size in self.pinned if digest != need.target_digest)


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerNow:
    """A worker with its current load."""

    id: UUID
    kind: str
    queue: str
    slots: int
    busy: int
    """Number of jobs that are assigned to it or run on it."""
    resident: frozenset[str] = frozenset()
    """Digests of the targets that it has loaded."""
    devices: tuple[DeviceNow, ...] = ()
    """Empty for workers of CPU jobs, which only need a slot."""
    ground: Ground
    """Machine, accelerators and cores of its inferences."""
    name: str = ""
    host: str = ""
    drained: str | None = None
    """Who drained it, or its machine, and why; None: nobody."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Inferring:
    """A worker, live or not, with an assigned or running job that sends requests."""

    worker_id: UUID
    ground: Ground
    is_timed: bool = True
    servers: frozenset[str] = frozenset()
    """The servers that it asks, of those that the platform does not run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reservation:
    """Reserved bytes of one device; an exclusive reservation excludes all others."""

    device: int
    bytes: int
    is_exclusive: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """The worker of a job, with the reserved devices."""

    worker_id: UUID
    queue: str
    reservations: tuple[Reservation, ...] = ()


def place(need: Need, workers: Iterable[WorkerNow], inferring: Collection[Inferring] = ()) -> Placement | None:
    """Choose a worker for one job; None if none has room now.

    It is one with the target loaded, then the one with most memory left, then the least busy: what shares a device
    also shares its speed, so devices are filled evenly.
    """
    ranked = (
        (rank(need, worker, reservations), worker, reservations)
        for worker in workers
        if worker.kind == STEPS[need.kind].worker
        and (reservations := reserve(need, worker)) is not None
        and is_undisturbed(need, worker, inferring)
    )
    best = min(ranked, key=lambda candidate: candidate[0], default=None)
    return None if best is None else Placement(worker_id=best[1].id, queue=best[1].queue, reservations=best[2])


Rank = tuple[bool, int, int, str, UUID]


def rank(need: Need, worker: WorkerNow, reservations: Iterable[Reservation]) -> Rank:
    """Return the order of workers that have room for a job; the first one gets it.

    It never falls while jobs are added to the worker, which `Floor` relies on.
    """
    taken = {reservation.device for reservation in reservations}
    used = sum(device.reserved_bytes for device in worker.devices if device.no in taken)
    return need.target_digest not in worker.resident, used, worker.busy, worker.queue, worker.id


def reserve(need: Need, worker: WorkerNow) -> tuple[Reservation, ...] | None:
    """Return what a job would reserve on a worker; None if it has no free slot, or no room on its devices."""
    if worker.busy >= worker.slots or worker.drained is not None:
        return None
    if STEPS[need.kind].asks is None or need.devices == 0 or not worker.devices:
        return ()
    if need.devices == 1 == len(worker.devices):  # most workers: hundreds of them are asked in a tick
        only = worker.devices[0]
        held = _reserve(need, only) if only.is_usable else None
        return None if held is None else (held,)
    fitting = [
        (device.reserved_bytes, device.no, reservation)
        for device in worker.devices
        if device.is_usable and (reservation := _reserve(need, device)) is not None
    ]
    if len(fitting) < need.devices:
        return None
    return tuple(reservation for _, _, reservation in sorted(fitting, key=lambda item: item[:2])[: need.devices])


def _reserve(need: Need, device: DeviceNow) -> Reservation | None:
    if device.is_declared and device.is_accelerator and not need.is_simulated:
        return None
    needed = need.bytes_on(device)
    is_alone = need.is_timed or needed is None
    if device.is_exclusive or (is_alone and device.jobs):
        return None
    taken = device.memory_bytes if needed is None else needed
    if taken > device.left_bytes(need):
        return None
    return Reservation(device=device.no, bytes=taken, is_exclusive=is_alone)


def is_undisturbed(need: Need, worker: WorkerNow, inferring: Iterable[Inferring]) -> bool:
    """Return whether a job on this worker, and what already infers, cannot spoil each other's times."""
    if STEPS[need.kind].asks is None:
        return True
    return all(
        not (need.is_timed or other.is_timed)
        or (other.ground.is_apart_from(worker.ground) and need.server not in other.servers)
        for other in inferring
    )


def could_hold(need: Need, worker: WorkerNow) -> bool:
    """Return whether a worker could take a job if it were idle, with every device in order and no model pinned."""
    devices = tuple(replace(device, is_broken=False) for device in worker.devices)
    whole = idle(resumed(unpinned(replace(worker, devices=devices))))
    return worker.kind == STEPS[need.kind].worker and reserve(need, whole) is not None


def resumed(worker: WorkerNow) -> WorkerNow:
    """Return a worker as it is when neither it nor a device of it is drained."""
    return replace(worker, drained=None, devices=tuple(replace(device, drained=None) for device in worker.devices))


def unpinned(worker: WorkerNow) -> WorkerNow:
    """Return a worker as it is when no model is pinned."""
    return replace(worker, devices=tuple(replace(device, pinned=()) for device in worker.devices))


def idle(worker: WorkerNow) -> WorkerNow:
    """Return a worker as it is when nothing runs on it; pinned models stay."""
    devices = tuple(replace(device, reserved_bytes=0, jobs=0, is_exclusive=False) for device in worker.devices)
    return replace(worker, busy=0, slots=max(worker.slots, 1), devices=devices)


def occupied(worker: WorkerNow, placement: Placement) -> WorkerNow:
    """Return a worker after it has got a job."""
    taken = {reservation.device: reservation for reservation in placement.reservations}
    devices = tuple(
        replace(
            device,
            reserved_bytes=device.reserved_bytes + reservation.bytes,
            jobs=device.jobs + 1,
            is_exclusive=reservation.is_exclusive,
        )
        if (reservation := taken.get(device.no)) is not None
        else device
        for device in worker.devices
    )
    return replace(worker, busy=worker.busy + 1, devices=devices)
