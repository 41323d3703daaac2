"""The scheduler's decisions: `decide` for jobs, `advance` for a run, and the budget of failures of a job. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TypeAlias
from uuid import UUID

from vlmhyperbench.domain.floor import Floor
from vlmhyperbench.domain.needs import UNKNOWN, MemoryNeed, Need, Shape
from vlmhyperbench.domain.packing import MAX_WORK, Piece, Shelf, best_order
from vlmhyperbench.domain.placement import Inferring, Placement, WorkerNow
from vlmhyperbench.domain.states import JobState, PhaseState, RunEvent, RunState
from vlmhyperbench.domain.steps import STEPS, StepKind
from vlmhyperbench.domain.unfit import why_unfit

FAILS_WITHOUT_ROW = 3
"""Number of failures after which a job without a row is given up, and its run fails."""

FAILS_WITHOUT_PROGRESS = 6
"""Number of consecutive failures without a new row after which a job with rows is given up."""

MAX_BACKOFF_S = 300.0

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
    """Live workers and those seen a short time ago: a job that none of them could ever take fails."""
    memory: Mapping[str, MemoryNeed] = field(default_factory=dict)
    """Digest of a target → the memory that it needs."""
    running: tuple[RunningJob, ...] = ()
    """What has a share of the devices now; only read where a job is waiting that is packed."""
    paces: Mapping[str, float] = field(default_factory=dict)
    """Digest of a target → measured seconds of an answer."""


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
    known device is refused once it has waited for `unfit_s`, in which a larger device may register.
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
            decisions += [Refuse(job_id=waiting.id, message=reason)] if waiting.waited_s >= unfit_s else []
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
    shelves, guess_s = _shelves(window), _guess(window)
    for numbers in places.values():
        jobs = [ordered[no] for no in numbers]
        pieces = [
            Piece(
                bytes=job.need(window.memory).memory.device_bytes or 0,
                duration_s=guess_s(job.target_digest, job.answers),
            )
            for job in jobs
        ]
        order = best_order(pieces, shelves, max_work=MAX_WORK // len(places))
        for no, chosen in zip(numbers, order, strict=True):
            ordered[no] = jobs[chosen]
    return ordered


def _shelves(window: Window) -> list[Shelf]:
    guess_s = _guess(window)
    taken: dict[tuple[UUID, int], list[tuple[float, int]]] = {}
    for job in window.running:
        left_s = guess_s(job.target_digest, job.answers)
        taken.setdefault((job.worker_id, job.device), []).append((left_s, job.bytes))
    return [
        Shelf(bytes=device.memory_bytes, slots=worker.slots, running=tuple(taken.get((worker.id, device.no), ())))
        for worker in window.workers
        if worker.drained is None
        for device in worker.devices
        if device.is_usable
    ]


def _guess(window: Window) -> Callable[[str | None, int], float]:
    """Return what says how long a target needs for some answers, in seconds.

    A target that was never measured is assumed to need time by its bytes, as those do that were.
    """
    sizes = {digest: need.device_bytes or 0 for digest, need in window.memory.items()}
    known = [(pace, sizes[digest]) for digest, pace in window.paces.items() if sizes.get(digest)]
    per_byte = sum(pace for pace, _ in known) / sum(size for _, size in known) if known else 1.0

    def guess_s(digest: str | None, answers: int) -> float:
        pace = window.paces.get(digest or "")
        return answers * (pace if pace is not None else per_byte * sizes.get(digest or "", 0))

    return guess_s


@dataclass(frozen=True, slots=True, kw_only=True)
class RunNow:
    """A run as `advance` sees it."""

    state: RunState
    is_cancelled: bool = False
    """Its cancellation was requested."""
    reason: str | None = None
    """The first reason why the run is failing; None while it is not."""
    is_stopping: bool = False
    """Its stop rule has decided."""
    reuses_errors: bool = False
    """A counting row that it reuses is an error; only determined once no job is open."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobNow:
    """A job of a run (or the shared INDEX of its experiment) as `advance` sees it."""

    kind: StepKind
    step: int
    """Number of its step in the run's graph."""
    state: JobState
    is_shared: bool = False
    failed: int = 0
    """Rows that are errors."""
    is_stopped: bool = False
    message: str | None = None
    """Why it failed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Expand:
    """Read what INDEX found and add the phases and the remaining jobs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StopWaiting:
    """End the shards that are READY or ASSIGNED: enough is known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CloseStep:
    """Every job of a step has ended: close the phases that the scheduler opened for it."""

    no: int
    state: PhaseState


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelWaiting:
    """Cancel the READY and ASSIGNED jobs; `reason` is stored for a failing run, so that running claims see it."""

    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """End the run."""

    event: RunEvent
    reason: str | None = None


Action: TypeAlias = Expand | StopWaiting | CloseStep | CancelWaiting | End


def advance(run: RunNow, jobs: Sequence[JobNow]) -> list[Action]:
    """Return the actions that follow from the states of a run's jobs, in order; none for a run that has ended."""
    if run.state.is_terminal:
        return []
    own = [job for job in jobs if not job.is_shared]
    reason = run.reason or _failure(jobs)
    if run.is_cancelled or reason is not None:
        return _wind_up(run, own, reason)
    if run.state is RunState.QUEUED:
        indexed = any(STEPS[job.kind].expands and job.state is JobState.DONE for job in jobs)
        return [Expand()] if indexed else []
    actions: list[Action] = []
    shards = [job for job in own if STEPS[job.kind].counts]
    if run.is_stopping and any(job.state in {JobState.READY, JobState.ASSIGNED} for job in shards):
        actions.append(StopWaiting())
    for no in sorted({job.step for job in own if STEPS[job.kind].writes_facts}):
        of_step = [job for job in own if job.step == no]
        if all(map(_is_over, of_step)):
            actions.append(CloseStep(no=no, state=_phase_after(of_step)))
    if run.state is RunState.RUNNING and all(_is_over(job) for job in own):
        has_errors = run.reuses_errors or any(job.failed for job in shards) or any(map(_is_lost, own))
        actions.append(End(event=RunEvent.END_PARTIAL if has_errors else RunEvent.SUCCEED))
    return actions


def _is_over(job: JobNow) -> bool:
    """Return whether a job no longer keeps its run open."""
    return job.state is JobState.DONE or (STEPS[job.kind].is_optional and job.state.is_terminal)


def _is_lost(job: JobNow) -> bool:
    """Return whether a job failed without failing its run, which continues without its rows."""
    return job.state is JobState.FAILED and STEPS[job.kind].is_optional


def _phase_after(jobs: Sequence[JobNow]) -> PhaseState:
    """Return the state of a step's phase once its jobs have ended; a phase counts as a whole or not at all."""
    if any(job.state is not JobState.DONE for job in jobs):
        return PhaseState.VOID
    return PhaseState.STOPPED if any(job.is_stopped for job in jobs) else PhaseState.COMPLETE


def _wind_up(run: RunNow, own: Sequence[JobNow], reason: str | None) -> list[Action]:
    actions: list[Action] = [CancelWaiting(reason=None if run.is_cancelled else reason)]
    if not any(job.state is JobState.RUNNING for job in own):
        event = RunEvent.CANCEL if run.is_cancelled else RunEvent.FAIL
        actions.append(End(event=event, reason=None if run.is_cancelled else reason))
    return actions


def _failure(jobs: Sequence[JobNow]) -> str | None:
    failed = next((job for job in jobs if job.state is JobState.FAILED and not _is_lost(job)), None)
    if failed is not None:
        return f"{STEPS[failed.kind].stage}: {failed.message or 'failed'}"
    lost = any(job.is_shared and job.state is JobState.CANCELLED for job in jobs)
    return "index: the shared index job was cancelled" if lost else None


def is_given_up(*, fails: int, done: int, is_permanent: bool = False) -> bool:
    """Return whether a failed job is given up; `fails` is the number of failures since its last new row."""
    return is_permanent or fails >= (FAILS_WITHOUT_PROGRESS if done else FAILS_WITHOUT_ROW)


def backoff_s(fails: int, draw: float) -> float:
    """Return the pause before the next try: the share `draw` in [0, 1) of 5·2^fails seconds, at most 300 s.

    There is no pause after the first failure, which is most often that of a worker that died.
    """
    return 0.0 if fails <= 1 else draw * min(MAX_BACKOFF_S, 5.0 * 2.0**fails)
