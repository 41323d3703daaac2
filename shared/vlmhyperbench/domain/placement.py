"""Choose the worker and the devices of a job, from the free slots and devices that the database has. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from uuid import UUID

from vlmhyperbench.domain.ground import Ground
from vlmhyperbench.domain.steps import STEPS, StepKind


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceNow:
    """A device of a worker, with its current reservations."""

    no: int
    memory_bytes: int
    is_free: bool
    """Whether it has no reservation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerNow:
    """A live worker with its current load."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Inferring:
    """A worker, live or not, with an assigned or running job that sends requests."""

    worker_id: UUID
    ground: Ground


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


def place(
    kind: StepKind, target_digest: str | None, workers: Iterable[WorkerNow], inferring: Collection[Inferring] = ()
) -> Placement | None:
    """Choose a worker with a free slot and free devices: one with the target loaded, then the least busy; else None.

    A job reserves all devices of its worker, since its engine sees all of them. A job that sends requests also needs
    ground apart from that of all other inferences, since two inferences on one machine would slow each other down.
    """
    fitting = [worker for worker in workers if worker.kind == STEPS[kind].worker and _has_room(worker)]
    if STEPS[kind].asks is not None:
        fitting = [worker for worker in fitting if _is_undisturbed(worker, inferring)]
    if not fitting:
        return None
    best = min(fitting, key=lambda worker: (target_digest not in worker.resident, worker.busy, worker.queue, worker.id))
    return Placement(worker_id=best.id, queue=best.queue, reservations=_reserve(best))


def _has_room(worker: WorkerNow) -> bool:
    return worker.busy < worker.slots and all(device.is_free for device in worker.devices)


def _is_undisturbed(worker: WorkerNow, inferring: Iterable[Inferring]) -> bool:
    return all(other.worker_id == worker.id or other.ground.is_apart_from(worker.ground) for other in inferring)


def _reserve(worker: WorkerNow) -> tuple[Reservation, ...]:
    return tuple(Reservation(device=device.no, bytes=device.memory_bytes) for device in worker.devices)
