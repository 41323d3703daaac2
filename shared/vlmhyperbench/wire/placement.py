"""Bodies about drained workers, devices and machines, and about plans on paper."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal
from uuid import UUID

from pydantic import Field

from vlmhyperbench.wire.base import Input, Label, Output
from vlmhyperbench.wire.runs import ExperimentRef

Scope = Literal["worker", "device", "machine"]
Reason = Annotated[str, Field(min_length=1, max_length=500)]


class ResumeRequest(Input):
    """Request to resume what is drained."""

    scope: Scope
    name: Label
    """Name, queue or id of a worker, UUID of a device, or host of a machine."""


class DrainRequest(ResumeRequest):
    """Request to drain a worker, a device or a machine: it finishes what runs and gets nothing new."""

    reason: Reason


class Drain(Output):
    """What is or was drained, by whom and why."""

    id: UUID
    scope: Scope
    name: str
    """Queue of the worker, UUID of the device, or host."""
    reason: str
    drained_by: str
    drained_at: datetime
    resumed_by: str | None
    resumed_at: datetime | None


Gibibytes = Annotated[float, Field(gt=0, le=100_000)]


class DeclaredWorker(Input):
    """A worker that does not exist, for a plan: its devices by their memory."""

    name: Label
    devices_gib: Annotated[tuple[Gibibytes, ...], Field(min_length=1, max_length=64)]
    device_name: Label | None = None
    """Name of its devices, as the driver reports it: what was measured on such a one replaces estimates of memory."""


class PlanRequest(Input):
    """Request to say where an experiment would run, on the live workers or on declared ones. Nothing is created."""

    experiment: ExperimentRef
    workers: Annotated[tuple[DeclaredWorker, ...], Field(max_length=1000)] = ()


class PlannedPlacement(Output):
    """Where and when a job would run; None where that is not known."""

    run: str
    worker: str
    devices: list[int]
    """Numbers of the worker's devices; empty if the engine runs elsewhere."""
    bytes_each: int | None
    """Bytes that it would reserve of each."""
    is_alone: bool
    starts_s: float | None
    ends_s: float | None


class PlannedRefusal(Output):
    """A job that fits no device."""

    run: str
    reason: str


class Plan(Output):
    """A plan on paper."""

    is_declared: bool
    """Whether it is for workers that do not exist."""
    placements: list[PlannedPlacement]
    refused: list[PlannedRefusal]
    waiting: list[str]
    """Runs whose jobs would wait for ever."""
    makespan_s: float | None
    """Time until the last job ends; None if a duration is not known."""
    shortest_s: float | None
    """The same if every answer takes as long as in the fastest job of its run's model and task that was measured."""
    longest_s: float | None
    """The same if every answer takes as long as in the slowest one."""
    unknown: list[str]
    """Runs whose duration is not known, because nothing like them has finished yet."""
    judged: list[str]
    """Runs whose answers judges are asked about too, which neither placements nor times have."""
