"""The scheduler's decisions about jobs: which worker gets which; which are refused, rung for or taken back. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TypeAlias
from uuid import UUID

from vlmhyperbench.domain.floor import Floor
from vlmhyperbench.domain.needs import UNKNOWN, MemoryNeed, Need, Shape
from vlmhyperbench.domain.paces import Pace
from vlmhyperbench.domain.packing import MAX_WORK, Piece, Shelf, best_order
from vlmhyperbench.domain.placement import DeviceNow, Inferring, Placement, WorkerNow
from vlmhyperbench.domain.steps import STEPS, StepKind
from vlmhyperbench.domain.unfit import why_unfit

MAX_ASSIGNED = 16
"""Maximum number of assignments of one decision, so that a tick is short; the next tick follows at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingJob:
    """A READY job whose needs are met; the window orders them by priority, fair share and age."""

    id: UUID
    kind: StepKind
    target_digest: str | None = None
    is_timed: bool = True
    devices: int = 1
    is_simulated: bool = False
    server: str | None = None
    experiment_id: UUID | None = None
    waited_s: float = 0.0
    """Time since it was added."""
    answers: int = 1
    """Number of answers that it still needs."""

    @property
    def is_packed(self) -> bool:
        """Whether it shares devices with others of its experiment, which may take each other's turns."""
        return not self.is_timed and self.experiment_id is not None and STEPS[self.kind].asks is not None

    def need(self, memory: Mapping[str, MemoryNeed]) -> Need:
        """Return what it needs, with the memory of its target if that is known."""
        return Need(
            kind=self.kind,
            target_digest=self.target_digest,
            is_timed=self.is_timed,
            devices=self.devices,
            is_simulated=self.is_simulated,
            server=self.server,
            memory=memory.get(self.target_digest or "", UNKNOWN),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningJob:
    """The share of a device that a job has which is assigned or runs."""

    worker_id: UUID
    device: int
    bytes: int
    target_digest: str | None
    answers: int
    """Number of answers that it still needs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignedJob:
    """A job that is assigned to a worker but not claimed yet."""

    id: UUID
    attempt_id: UUID
    worker_id: UUID
    queue: str
    assigned_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """The input of one decision, whose size SQL limits; `now` is the database's clock."""

    now: datetime
    waiting: tuple[WaitingJob, ...] = ()
    assigned: tuple[AssignedJob, ...] = ()
    workers: tuple[WorkerNow, ...] = ()
    """Only live workers."""
    inferring: tuple[Inferring, ...] = ()
    """Workers in any state, since one that drains or has died may still be sending requests."""
    known: tuple[WorkerNow, ...] = ()
    """Live workers and those that may come back: a job that none of them could ever take fails."""
    joined_s: float = math.inf
    """Time since the last of the known workers with devices has registered; after one, others may follow."""
    memory: Mapping[str, MemoryNeed] = field(default_factory=dict)
    """Digest of a target → the memory that it needs."""
    running: tuple[RunningJob, ...] = ()
    """What has a share of the devices now; only read where a job is waiting that is packed."""
    paces: Mapping[str, Pace] = field(default_factory=dict)
    """Digest of a target → what was measured of its jobs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Assign:
    """Assign a READY job to a worker."""

    job_id: UUID
    placement: Placement


@dataclass(frozen=True, slots=True, kw_only=True)
class Requeue:
    """Take an unclaimed job back."""

    job_id: UUID
    attempt_id: UUID


@dataclass(frozen=True, slots=True, kw_only=True)
class Ring:
    """Send the ring for an unclaimed job again."""

    job_id: UUID
    queue: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Refuse:
    """Fail a READY job that fits no known device."""

    job_id: UUID
    message: str


Decision: TypeAlias = Assign | Requeue | Ring | Refuse


def decide(
    window: Window, *, unclaimed_s: float, ring_again_s: float = 1.0, hold_s: float = 120.0, unfit_s: float = 30.0
) -> list[Decision]:
    """Assign waiting jobs, take back those unclaimed for too long or whose worker is gone, ring for the others.

    The first job that has no room and has waited for `hold_s` holds a worker: jobs after it in the window's order do
    not get its room, so that neither a gang nor a large model starves. Jobs of its own experiment that share devices
    still do: there is an end to them, and their order is the one in which all of them end soon. A job that fits no
    known device is refused once it has waited for `unfit_s` since the last worker has registered: a larger one may
    still come.
    """
    decisions: list[Decision] = []
    live = {worker.id: worker for worker in window.workers}
    for job in window.assigned:
        age, worker = window.now - job.assigned_at, live.get(job.worker_id)
        if worker is None or worker.drained is not None or age >= timedelta(seconds=unclaimed_s):
            decisions.append(Requeue(job_id=job.id, attempt_id=job.attempt_id))
        elif age >= timedelta(seconds=ring_again_s):
            decisions.append(Ring(job_id=job.id, queue=job.queue))
    floor = Floor(live.values(), window.inferring)
    without_room: set[Shape] = set()
    holding: WaitingJob | None = None
    is_held, assigned = False, 0
    for waiting in _packed_well(window):
        if holding is not None and not (waiting.is_packed and waiting.experiment_id == holding.experiment_id):
            floor.hold(holding.need(window.memory))
            holding = None
        need = waiting.need(window.memory)
        if need.shape in without_room:
            continue
        if assigned == MAX_ASSIGNED:
            break
        placement = floor.place(need)
        if placement is not None:
            decisions.append(Assign(job_id=waiting.id, placement=placement))
            assigned += 1
            continue
        without_room.add(need.shape)
        reason = why_unfit(need, window.known) if STEPS[waiting.kind].asks is not None else None
        if reason is not None:
            is_given_up = min(waiting.waited_s, window.joined_s) >= unfit_s
            decisions += [Refuse(job_id=waiting.id, message=reason)] if is_given_up else []
        elif STEPS[waiting.kind].asks is not None and not is_held and waiting.waited_s >= hold_s:
            if waiting.is_packed:
                is_held, holding = floor.can_hold(need), waiting
            else:
                is_held = floor.hold(need) is not None
    return decisions


def _packed_well(window: Window) -> list[WaitingJob]:
    """Return the waiting jobs in their order; those of one experiment that share devices so that they end soon.

    The jobs take each other's positions, so that all other jobs keep theirs.
    """
    ordered = list(window.waiting)
    places: dict[UUID, list[int]] = {}
    for no, job in enumerate(ordered):
        if job.is_packed and job.experiment_id is not None:
            places.setdefault(job.experiment_id, []).append(no)
    if not places:
        return ordered
    shelves, guess, bytes_of = _shelves(window), _guess(window), _bytes_of(window)
    for numbers in places.values():
        jobs = [ordered[no] for no in numbers]
        pieces = [Piece(bytes=bytes_of(job), duration_s=guess(job.target_digest).seconds(job.answers)) for job in jobs]
        order = best_order(pieces, shelves, max_work=MAX_WORK // len(places))
        for no, chosen in zip(numbers, order, strict=True):
            ordered[no] = jobs[chosen]
    return ordered


def _bytes_of(window: Window) -> Callable[[WaitingJob], int]:
    """Return what says how many bytes a job takes of the smallest device that has them, as placement reserves them."""
    kinds = {
        (device.name, device.memory_bytes, device.is_accelerator): device
        for worker in window.workers
        for device in worker.devices
    }
    by_size = sorted(kinds.values(), key=lambda device: device.memory_bytes)
    known: dict[Shape, int] = {}

    def bytes_of(job: WaitingJob) -> int:
        need = job.need(window.memory)
        if need.shape not in known:
            taken = [_taken(need, device) for device in by_size]
            fitting = [size for size, device in zip(taken, by_size, strict=True) if size <= device.memory_bytes]
            known[need.shape] = [*fitting, *taken[-1:], 0][0]
        return known[need.shape]

    return bytes_of


def _taken(need: Need, device: DeviceNow) -> int:
    needed = need.bytes_on(device)
    return device.memory_bytes if needed is None else needed


def _shelves(window: Window) -> list[Shelf]:
    guess = _guess(window)
    taken: dict[tuple[UUID, int], list[tuple[float, int]]] = {}
    for job in window.running:
        left_s = guess(job.target_digest).answer_s * job.answers
        taken.setdefault((job.worker_id, job.device), []).append((left_s, job.bytes))
    return [
        Shelf(
            bytes=max(0, device.memory_bytes - sum(size for _, size in device.pinned)),
            slots=worker.slots,
            running=tuple(taken.get((worker.id, device.no), ())),
        )
        for worker in window.workers
        if worker.drained is None
        for device in worker.devices
        if device.is_usable
    ]


def _guess(window: Window) -> Callable[[str | None], Pace]:
    """Return what says at which pace the jobs of a target go.

    A target that was never measured is assumed to need time by its bytes, as those do that were.
    """
    sizes = {digest: need.device_bytes or max(need.peaks.values(), default=0) for digest, need in window.memory.items()}
    known = [(pace, sizes[digest]) for digest, pace in window.paces.items() if sizes.get(digest)]
    total = sum(size for _, size in known)
    per_byte = Pace(answer_s=1.0)
    if known:
        per_byte = Pace(
            answer_s=sum(pace.answer_s for pace, _ in known) / total,
            start_s=sum(pace.start_s for pace, _ in known) / total,
        )

    def guess(digest: str | None) -> Pace:
        pace = window.paces.get(digest or "")
        return pace if pace is not None else per_byte.times(sizes.get(digest or "", 0))

    return guess
