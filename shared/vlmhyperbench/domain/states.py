"""State tables: `(state, event) -> state`, in one place. What is not in a table cannot happen."""

from __future__ import annotations

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


class ExperimentState(StrEnum):
    """Derived from an experiment's runs."""

    OPEN = "OPEN"
    DONE = "DONE"
    PARTIAL = "PARTIAL"
    CANCELLED = "CANCELLED"

    @property
    def is_terminal(self) -> bool:
        return self is not ExperimentState.OPEN


class JobKind(StrEnum):
    """Kinds of work; a worker takes the kinds of its service."""

    INDEX = "INDEX"
    GENERATE = "GENERATE"
    SCORE = "SCORE"
    REPORT = "REPORT"


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


class FactStatus(StrEnum):
    """What a fact says of its request."""

    OK = "ok"
    ERROR = "error"
    QUARANTINED = "quarantined"


class Stage(StrEnum):
    """What the user sees of a job's kind."""

    INDEX = "index"
    INFERENCE = "inference"
    EVALUATION = "evaluation"
    REPORT = "report"


STAGE_OF: dict[JobKind, Stage] = {
    JobKind.INDEX: Stage.INDEX,
    JobKind.GENERATE: Stage.INFERENCE,
    JobKind.SCORE: Stage.EVALUATION,
    JobKind.REPORT: Stage.REPORT,
}


def next_job_state(state: JobState, event: JobEvent) -> JobState | None:
    """Return the state after an event, or None where the event does not apply."""
    return JOB_TABLE.get((state, event))
