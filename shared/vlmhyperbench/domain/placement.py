"""Which worker takes a job, with its devices: pure, over what the database says is free."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from uuid import UUID

from vlmhyperbench.domain.ground import Ground
from vlmhyperbench.domain.steps import STEPS, StepKind


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceNow:
    """A device of a worker, as the reservations leave it."""

    no: int
    memory_bytes: int
    is_free: bool
    """Nobody reserves any of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerNow:
    """A live worker and what it could still take."""

    id: UUID
    kind: str
    queue: str
    slots: int
    busy: int
    """Jobs that are assigned to it or run on it."""
    resident: frozenset[str] = frozenset()
    """Digests of the targets that it holds loaded."""
    devices: tuple[DeviceNow, ...] = ()
    """Empty for workers of CPU jobs: there a slot is enough."""
    ground: Ground
    """What of its machine its inferences stand on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Inferring:
    """A worker that holds a job which sends requests, claimed or not, whether it is live or not."""

    worker_id: UUID
    ground: Ground


@dataclass(frozen=True, slots=True, kw_only=True)
class Reservation:
    """Bytes of one device; an exclusive one shares it with no other."""

    device: int
    bytes: int
    is_exclusive: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """Where a job goes."""

    worker_id: UUID
    queue: str
    reservations: tuple[Reservation, ...] = ()


def place(
    kind: StepKind, target_digest: str | None, workers: Iterable[WorkerNow], inferring: Collection[Inferring] = ()
) -> Placement | None:
    """Choose a worker with a free slot and free devices: one that holds the target loaded, then the least busy.

    Whatever is measured gets all devices of its worker, since its engine sees all of them, and ground that no other
    worker infers on: two inferences on one machine would time each other. None where nothing is free.
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
