"""Response bodies of workers."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from pydantic import Field

from vlmhyperbench.domain.states import JobState
from vlmhyperbench.domain.steps import StepKind
from vlmhyperbench.wire.base import Output


class Device(Output):
    """A GPU of a worker, a MIG slice of one, or its CPU slot."""

    no: int
    kind: str
    uuid: str
    name: str
    memory_bytes: int
    reserved_bytes: int = 0
    jobs: int = 0
    """Jobs that have a share of it."""
    state: str
    """`OK`, or `BROKEN`: quarantined, so that it gets no jobs until a person releases it."""
    state_reason: str | None = None
    state_by: str | None = None
    """Worker or person that changed the state."""
    state_since: datetime | None = None
    drained: str | None = None
    """Who drained it and why; null if it gets jobs."""
    used_bytes: int | None = None
    """Memory that all processes use now; of a CPU slot, that of its machine. Null where it is not known."""
    util_percent: float | None = None
    """Use of the device, or of all processors of a CPU slot's machine, in percent."""
    read_at: datetime | None = None
    """When its worker has last read both."""


class DeviceRelease(Output):
    """What a release from quarantine has changed."""

    uuid: str
    was_broken: bool
    """False: the device was not in quarantine."""


class Quarantine(Output):
    """A device that is or was in quarantine, and who has released it."""

    id: UUID
    device: str
    """UUID of the device."""
    device_name: str
    worker: str
    """Name of the worker that found the fault."""
    host: str
    reason: str
    since: datetime
    released_by: str | None
    released_at: datetime | None


class LoadedTarget(Output):
    """A target that a worker keeps loaded."""

    digest: str
    name: str | None
    """Name of its model; null if no run of the project has asked it, and nobody of the project has loaded it."""


class CurrentJob(Output):
    """A job that a worker holds now."""

    id: UUID
    kind: StepKind
    state: JobState
    run_id: UUID | None
    """Null for a job of an experiment itself, and of another project."""
    experiment_id: UUID | None
    name: str | None
    """Name of its run, or of its experiment; null if it is of another project."""
    done: int
    total: int | None
    """Rows that it writes; null if it writes no facts."""
    assigned_at: datetime | None


class Worker(Output):
    """A worker: one supervisor process and its doorbell."""

    id: UUID
    name: str
    kind: str
    queue: str
    host: str
    pid: int
    state: str
    is_stale: bool
    """Whether its heartbeat is overdue."""
    slots: int
    version: str
    resident: list[LoadedTarget] = Field(default_factory=list)
    """What is loaded now."""
    jobs: list[CurrentJob] = Field(default_factory=list)
    """What it does now."""
    devices: list[Device] = Field(default_factory=list)
    is_declared: bool
    """Whether a file declares its devices and no hardware stands behind them."""
    drained: str | None = None
    """Who drained it, or its machine, and why; null if it gets jobs."""
    registered_at: datetime
    last_seen_at: datetime
