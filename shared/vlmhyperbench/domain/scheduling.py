"""The scheduler's decisions: `decide` for jobs, `advance` for a run, and the budget of failures of a job. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TypeAlias
from uuid import UUID

from vlmhyperbench.domain.placement import Inferring, Placement, WorkerNow, place
from vlmhyperbench.domain.states import JobState, PhaseState, RunEvent, RunState
from vlmhyperbench.domain.steps import STEPS, StepKind

FAILS_WITHOUT_ROW = 3
"""Number of failures after which a job without a row is given up, and its run fails."""

FAILS_WITHOUT_PROGRESS = 6
"""Number of consecutive failures without a new row after which a job with rows is given up."""

MAX_BACKOFF_S = 300.0


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingJob:
    """A READY job whose needs are met; the window orders them by priority, fair share and age."""

    id: UUID
    kind: StepKind
    target_digest: str | None = None


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


Decision: TypeAlias = Assign | Requeue | Ring


def decide(window: Window, *, unclaimed_s: float, ring_again_s: float = 1.0) -> list[Decision]:
    """Assign waiting jobs, take back those unclaimed for too long or whose worker is gone, ring for the others."""
    decisions: list[Decision] = []
    live = {worker.id: worker for worker in window.workers}
    for job in window.assigned:
        age = window.now - job.assigned_at
        if job.worker_id not in live or age >= timedelta(seconds=unclaimed_s):
            decisions.append(Requeue(job_id=job.id, attempt_id=job.attempt_id))
        elif age >= timedelta(seconds=ring_again_s):
            decisions.append(Ring(job_id=job.id, queue=job.queue))
    inferring = list(window.inferring)
    full: set[StepKind] = set()
    for waiting in window.waiting:
        if waiting.kind in full:
            continue
        placement = place(waiting.kind, waiting.target_digest, live.values(), inferring)
        if placement is None:
            full.add(waiting.kind)
            continue
        decisions.append(Assign(job_id=waiting.id, placement=placement))
        taken = live[placement.worker_id]
        live[taken.id] = _occupied(taken, placement)
        if STEPS[waiting.kind].asks is not None:
            inferring.append(Inferring(worker_id=taken.id, ground=taken.ground))
    return decisions


def _occupied(worker: WorkerNow, placement: Placement) -> WorkerNow:
    taken = {reservation.device for reservation in placement.reservations}
    devices = tuple(replace(device, is_free=device.is_free and device.no not in taken) for device in worker.devices)
    return replace(worker, busy=worker.busy + 1, devices=devices)


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
