"""Copies of jobs, claims, workers, devices and reservations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import ClassVar
from uuid import UUID

from vlmhyperbench.domain.states import JobState
from vlmhyperbench.domain.steps import StepKind
from vlmhyperbench_sdk.types import JsonObject


@dataclass(frozen=True, slots=True, kw_only=True)
class JobView:
    """A unit of work with one lease."""

    ENUMS: ClassVar[Mapping[str, type[StrEnum]]] = {"kind": StepKind, "state": JobState}

    id: UUID
    kind: StepKind
    scope: str
    run_id: UUID | None
    experiment_id: UUID | None
    project_id: str
    state: JobState
    needs: tuple[UUID, ...]
    needs_state: str
    phase: int | None
    range_start: int | None
    range_end: int | None
    target_digest: str | None
    params: JsonObject
    priority: int
    attempt_id: UUID | None
    attempts: int
    claim_id: UUID | None
    worker_id: UUID | None
    assigned_at: datetime | None
    lease_until: datetime | None
    not_before: datetime | None
    fails: int
    done: int
    failed: int
    outcome: JsonObject | None
    created_at: datetime
    finished_at: datetime | None
    step: int
    counts: bool
    is_timed: bool
    devices: int
    is_simulated: bool
    server: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CurrentJobView:
    """A job that a worker holds now. One of another project has neither ids of its owner nor a name."""

    ENUMS: ClassVar[Mapping[str, type[StrEnum]]] = {"kind": StepKind, "state": JobState}

    id: UUID
    worker_id: UUID
    kind: StepKind
    state: JobState
    run_id: UUID | None
    experiment_id: UUID | None
    """Set with a run too, if the run belongs to it."""
    name: str | None
    """Name of the run, or of the experiment that it is a job of."""
    done: int
    total: int | None
    """Rows that it writes; None if it writes no facts."""
    assigned_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimView:
    """A claim of a job, with evidence that cannot be recovered later."""

    ENUMS: ClassVar[Mapping[str, type[StrEnum]]] = {}

    id: UUID
    job_id: UUID
    run_id: UUID | None
    attempt_id: UUID
    worker_id: UUID
    host: str
    boot_id: UUID
    machine: JsonObject
    engine: JsonObject | None
    packages: JsonObject
    client: JsonObject | None
    resources: JsonObject | None
    anchor_monotonic_ns: int | None
    anchor_wall_ns: int | None
    measured_at: str | None
    started_at: datetime
    ended_at: datetime | None
    machine_id: str | None
    cores: tuple[int, ...] | None
    gpus: tuple[str, ...] | None
    sending_from_ns: int | None
    sending_until_ns: int | None
    failure: JsonObject | None
    environment: JsonObject | None


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerView:
    """A worker: one supervisor and its doorbell."""

    ENUMS: ClassVar[Mapping[str, type[StrEnum]]] = {}

    id: UUID
    name: str
    kind: str
    queue: str
    host: str
    boot_id: UUID
    pid: int
    state: str
    slots: int
    version: str
    resident: tuple[str, ...]
    registered_at: datetime
    last_seen_at: datetime
    machine_id: str | None
    cores: tuple[int, ...] | None
    is_declared: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceView:
    """A GPU of a worker, a MIG slice of one, or its CPU slot."""

    ENUMS: ClassVar[Mapping[str, type[StrEnum]]] = {}

    worker_id: UUID
    no: int
    kind: str
    uuid: str
    name: str
    memory_bytes: int
    state: str
    state_reason: str | None
    state_by: str | None
    state_since: datetime | None
    used_bytes: int | None
    util_percent: float | None
    read_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReservationView:
    """The share of a device that an attempt holds."""

    ENUMS: ClassVar[Mapping[str, type[StrEnum]]] = {}

    attempt_id: UUID
    worker_id: UUID
    device: int
    job_id: UUID
    bytes: int
    is_exclusive: bool
