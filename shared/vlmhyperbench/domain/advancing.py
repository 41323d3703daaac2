"""What follows for a run from the states of its jobs: expand it, close a step, wind it up, end it. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from vlmhyperbench.domain.states import JobState, PhaseState, RunEvent, RunState
from vlmhyperbench.domain.steps import STEPS, StepKind


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
