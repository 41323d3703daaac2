"""State tables: `(state, event) -> state`, in one place. What is not in a table cannot happen."""

from __future__ import annotations

from collections.abc import Collection
from enum import StrEnum


class RunState(StrEnum):
    """States of a run; terminal ones are immutable."""

    QUEUED = "QUEUED"
    INDEXED = "INDEXED"
    RUNNING = "RUNNING"
    SUCCEEDED = "SUCCEEDED"
    PARTIAL = "PARTIAL"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"

    @property
    def is_terminal(self) -> bool:
        return self in {RunState.SUCCEEDED, RunState.PARTIAL, RunState.FAILED, RunState.CANCELLED}


class RunEvent(StrEnum):
    """What can happen to a run."""

    INDEX = "index"
    START = "start"
    SUCCEED = "succeed"
    END_PARTIAL = "end_partial"
    FAIL = "fail"
    CANCEL = "cancel"


RUN_TABLE: dict[tuple[RunState, RunEvent], RunState] = {
    (RunState.QUEUED, RunEvent.INDEX): RunState.INDEXED,
    (RunState.QUEUED, RunEvent.FAIL): RunState.FAILED,
    (RunState.QUEUED, RunEvent.CANCEL): RunState.CANCELLED,
    (RunState.INDEXED, RunEvent.START): RunState.RUNNING,
    (RunState.INDEXED, RunEvent.FAIL): RunState.FAILED,
    (RunState.INDEXED, RunEvent.CANCEL): RunState.CANCELLED,
    (RunState.RUNNING, RunEvent.SUCCEED): RunState.SUCCEEDED,
    (RunState.RUNNING, RunEvent.END_PARTIAL): RunState.PARTIAL,
    (RunState.RUNNING, RunEvent.FAIL): RunState.FAILED,
    (RunState.RUNNING, RunEvent.CANCEL): RunState.CANCELLED,
}
"""A run is RUNNING from the first claim of a job of its own after INDEX."""


class ExperimentState(StrEnum):
    """Derived from an experiment's runs."""

    OPEN = "OPEN"
    DONE = "DONE"
    PARTIAL = "PARTIAL"
    CANCELLED = "CANCELLED"

    @property
    def is_terminal(self) -> bool:
        return self is not ExperimentState.OPEN


def experiment_state(runs: Collection[RunState]) -> ExperimentState:
    """Derive an experiment's state from its runs: OPEN while one of them is; an experiment without runs is DONE."""
    if not all(state.is_terminal for state in runs):
        return ExperimentState.OPEN
    if all(state is RunState.SUCCEEDED for state in runs):
        return ExperimentState.DONE
    if all(state is RunState.CANCELLED for state in runs):
        return ExperimentState.CANCELLED
    return ExperimentState.PARTIAL


class JobState(StrEnum):
    """States of a job."""

    READY = "READY"
    ASSIGNED = "ASSIGNED"
    RUNNING = "RUNNING"
    DONE = "DONE"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"

    @property
    def is_terminal(self) -> bool:
        return self in {JobState.DONE, JobState.FAILED, JobState.CANCELLED}


class JobEvent(StrEnum):
    """What can happen to a job."""

    ASSIGN = "assign"
    UNCLAIMED = "unclaimed"
    CLAIM = "claim"
    LEASE_EXPIRED = "lease_expired"
    PREEMPT = "preempt"
    CRASH = "crash"
    COMPLETE = "complete"
    STOP = "stop"
    FAIL = "fail"
    CANCEL = "cancel"


JOB_TABLE: dict[tuple[JobState, JobEvent], JobState] = {
    (JobState.READY, JobEvent.ASSIGN): JobState.ASSIGNED,
    (JobState.READY, JobEvent.STOP): JobState.DONE,
    (JobState.READY, JobEvent.FAIL): JobState.FAILED,
    (JobState.READY, JobEvent.CANCEL): JobState.CANCELLED,
    (JobState.ASSIGNED, JobEvent.UNCLAIMED): JobState.READY,
    (JobState.ASSIGNED, JobEvent.CLAIM): JobState.RUNNING,
    (JobState.ASSIGNED, JobEvent.STOP): JobState.DONE,
    (JobState.ASSIGNED, JobEvent.CANCEL): JobState.CANCELLED,
    (JobState.RUNNING, JobEvent.CLAIM): JobState.RUNNING,
    (JobState.RUNNING, JobEvent.LEASE_EXPIRED): JobState.READY,
    (JobState.RUNNING, JobEvent.PREEMPT): JobState.READY,
    (JobState.RUNNING, JobEvent.CRASH): JobState.READY,
    (JobState.RUNNING, JobEvent.COMPLETE): JobState.DONE,
    (JobState.RUNNING, JobEvent.STOP): JobState.DONE,
    (JobState.RUNNING, JobEvent.FAIL): JobState.FAILED,
    (JobState.RUNNING, JobEvent.CANCEL): JobState.CANCELLED,
}
"""`CLAIM` on RUNNING is the same claim taken again after a lost answer; the repository compares the claim."""


class PhaseState(StrEnum):
    """States of a phase; a phase counts or is void as a whole."""

    OPEN = "OPEN"
    COMPLETE = "COMPLETE"
    STOPPED = "STOPPED"
    VOID = "VOID"

    @property
    def is_terminal(self) -> bool:
        return self is not PhaseState.OPEN


class FactStatus(StrEnum):
    """What a fact says of its request."""

    OK = "ok"
    ERROR = "error"
    QUARANTINED = "quarantined"
    """Used by the quarantine of samples that kill their engine, once there is one; nothing sets it yet."""


def next_run_state(state: RunState, event: RunEvent) -> RunState | None:
    """Return the state after an event, or None where the event does not apply."""
    return RUN_TABLE.get((state, event))


def next_job_state(state: JobState, event: JobEvent) -> JobState | None:
    """Return the state after an event, or None where the event does not apply."""
    return JOB_TABLE.get((state, event))
