"""State tables: `(state, event) -> state`. A transition that is not in a table is impossible."""

from __future__ import annotations

from collections.abc import Collection
from enum import StrEnum


class RunState(StrEnum):
    """States of a run; a terminal state never changes."""

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
    """Events that can change the state of a run."""

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
"""A run is RUNNING from the first claim of one of its jobs after INDEX."""


class ExperimentState(StrEnum):
    """States of an experiment, derived from those of its runs."""

    OPEN = "OPEN"
    DONE = "DONE"
    PARTIAL = "PARTIAL"
    CANCELLED = "CANCELLED"

    @property
    def is_terminal(self) -> bool:
        return self is not ExperimentState.OPEN


def experiment_state(runs: Collection[RunState]) -> ExperimentState:
    """Derive an experiment's state from those of its runs: OPEN while a run is open; DONE without runs."""
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
    """Events that can change the state of a job."""

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
"""`CLAIM` on RUNNING is a repeated claim with the same id; the repository compares the ids."""


class PhaseState(StrEnum):
    """States of a phase, whose requests are counted or voided together."""

    OPEN = "OPEN"
    COMPLETE = "COMPLETE"
    STOPPED = "STOPPED"
    VOID = "VOID"

    @property
    def is_terminal(self) -> bool:
        return self is not PhaseState.OPEN


class FactStatus(StrEnum):
    """Outcome of a request in its fact."""

    OK = "ok"
    ERROR = "error"
    QUARANTINED = "quarantined"
    """Used once samples that crash their engine are quarantined; nothing sets it yet."""


def next_run_state(state: RunState, event: RunEvent) -> RunState | None:
    """Return the state after an event, or None if the event does not apply."""
    return RUN_TABLE.get((state, event))
