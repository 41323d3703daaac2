"""Durable events: their names, and the envelope that clients get."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Literal
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field, JsonValue


class EventType(StrEnum):
    """The types of events, named in the past tense."""

    EXPERIMENT_OPENED = "experiment.opened"
    EXPERIMENT_DONE = "experiment.done"
    EXPERIMENT_PARTIAL = "experiment.partial"
    EXPERIMENT_CANCELLED = "experiment.cancelled"
    RUN_QUEUED = "run.queued"
    RUN_INDEXED = "run.indexed"
    RUN_RUNNING = "run.running"
    RUN_SUCCEEDED = "run.succeeded"
    RUN_PARTIAL = "run.partial"
    RUN_FAILED = "run.failed"
    RUN_CANCELLED = "run.cancelled"
    RUN_CANCEL_REQUESTED = "run.cancel_requested"
    RUN_STOP_REQUESTED = "run.stop_requested"
    RUN_PAUSED = "run.paused"
    RUN_RESUMED = "run.resumed"
    RUN_RETUNED = "run.retuned"
    RUN_MOVED = "run.moved"
    JOB_ASSIGNED = "job.assigned"
    JOB_CLAIMED = "job.claimed"
    JOB_REQUEUED = "job.requeued"
    JOB_DONE = "job.done"
    JOB_FAILED = "job.failed"
    JOB_CANCELLED = "job.cancelled"
    PHASE_OPENED = "phase.opened"
    PHASE_COMPLETE = "phase.complete"
    PHASE_STOPPED = "phase.stopped"
    PHASE_VOID = "phase.void"
    ARTIFACT_READY = "artifact.ready"
    REPORT_INCOMPLETE = "report.incomplete"
    ALERT_RAISED = "alert.raised"


class Event(BaseModel):
    """An event of the stream of a run or an experiment, in which `seq` has no gaps."""

    model_config = ConfigDict(extra="forbid", frozen=True, from_attributes=True)

    v: Literal[1] = 1
    id: UUID
    seq: int = Field(ge=1)
    ts: datetime
    type: str
    """An `EventType`; readers ignore types that they do not know."""
    experiment_id: UUID | None = None
    run_id: UUID | None = None
    job_id: UUID | None = None
    stage: str | None = None
    data: dict[str, JsonValue] = Field(default_factory=dict)

    @property
    def stream_id(self) -> UUID | None:
        """The run, or the experiment of an event that belongs to no run."""
        return self.run_id or self.experiment_id
