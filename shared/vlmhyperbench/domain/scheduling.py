"""What the scheduler does next: `decide` for jobs that wait, `advance` for a run, and the budget of failures. Pure."""

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
"""A job that fails so often before its first row cannot start: its run fails with the reason."""

FAILS_WITHOUT_PROGRESS = 6
"""A job that has rows is given up after so many failures in a row in which it got no further."""

MAX_BACKOFF_S = 300.0


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingJob:
    """A READY job whose needs are met, in the order of the window: priority, fair share, age."""

    id: UUID
    kind: StepKind
    target_digest: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignedJob:
    """A job that was given to a worker and is not claimed yet."""

    id: UUID
    attempt_id: UUID
    worker_id: UUID
    queue: str
    assigned_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """What one decision looks at; SQL bounds it. `now` is the database's clock."""

    now: datetime
    waiting: tuple[WaitingJob, ...] = ()
    assigned: tuple[AssignedJob, ...] = ()
    workers: tuple[WorkerNow, ...] = ()
    """Live ones only."""
    inferring: tuple[Inferring, ...] = ()
    """Workers in any state count: one that drains or has died may still be sending."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Assign:
    """Give a READY job to a worker."""

    job_id: UUID
    placement: Placement


@dataclass(frozen=True, slots=True, kw_only=True)
class Requeue:
    """Take an unclaimed job back."""

    job_id: UUID
    attempt_id: UUID


@dataclass(frozen=True, slots=True, kw_only=True)
class Ring:
    """Ring again for a job that is still unclaimed."""

    job_id: UUID
    queue: str


Decision: TypeAlias = Assign | Requeue | Ring


def decide(window: Window, *, unclaimed_s: float, ring_again_s: float = 1.0) -> list[Decision]:
    """Place what waits, take back what nobody claimed in time (or whose worker is gone), ring for the rest."""
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
    """Cancelling was asked for."""
    reason: str | None = None
    """Set while the run is failing: the first reason stays."""
    is_stopping: bool = False
    """Its stop rule said that enough is known."""
    keeps_errors: bool = False
    """A counting row that it keeps is an error, however the run ended that measured it; known once no job is open."""


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
    """Cancel what is READY or ASSIGNED; `reason` marks a run that is failing, so that RUNNING claims see it."""

    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """The run ends."""

    event: RunEvent
    reason: str | None = None


Action: TypeAlias = Expand | StopWaiting | CloseStep | CancelWaiting | End


def advance(run: RunNow, jobs: Sequence[JobNow]) -> list[Action]:
    """Say what a run's jobs mean for the run, in order; nothing for a run that has ended."""
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
        has_errors = run.keeps_errors or any(job.failed for job in shards) or any(map(_is_lost, own))
        actions.append(End(event=RunEvent.END_PARTIAL if has_errors else RunEvent.SUCCEED))
    return actions


def _is_over(job: JobNow) -> bool:
    """Whether a job keeps its run open no longer."""
    return job.state is JobState.DONE or (STEPS[job.kind].is_optional and job.state.is_terminal)


def _is_lost(job: JobNow) -> bool:
    """Whether a job failed whose run goes on without its rows."""
    return job.state is JobState.FAILED and STEPS[job.kind].is_optional


def _phase_after(jobs: Sequence[JobNow]) -> PhaseState:
    """Say what the phase of a step is once its jobs have ended: it counts as a whole, or not at all."""
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
    """Say whether a failed job ends here; `fails` counts this failure and those since it last got further."""
    return is_permanent or fails >= (FAILS_WITHOUT_PROGRESS if done else FAILS_WITHOUT_ROW)


def backoff_s(fails: int, draw: float) -> float:
    """Return the pause before the next try: `draw` in [0, 1) of 5·2^fails seconds, at most 300 s.

    The first failure has none: a worker that died is no fault of the job, and recovery stays within its bound.
    """
    return 0.0 if fails <= 1 else draw * min(MAX_BACKOFF_S, 5.0 * 2.0**fails)
