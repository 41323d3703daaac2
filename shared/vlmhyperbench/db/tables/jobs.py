"""Jobs, claims, workers, devices and reservations: who does what, and under which fence."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import ARRAY, BigInteger, Column, ForeignKey, Index, Integer, String, text
from sqlalchemy import Uuid as SqlUuid
from sqlmodel import Field, SQLModel

from vlmhyperbench.db.tables.columns import bigint_column, instant_column, json_column, now_column


class JobRow(SQLModel, table=True):
    """One unit of work with one lease. `claim_id` is the fencing token of every write."""

    __tablename__ = "job"
    __table_args__ = (
        Index(
            "ix_job_ready",
            "kind",
            "project_id",
            text("priority DESC"),
            "created_at",
            "range_start",
            "id",
            postgresql_where=text("state = 'READY'"),
        ),
        Index("ix_job_worker", "worker_id", postgresql_where=text("state IN ('ASSIGNED', 'RUNNING')")),
    )

    id: UUID = Field(primary_key=True)
    kind: str
    """Kind of its step: `domain.steps` says what that is."""
    scope: str
    """`run` or `experiment`: whose job it is."""
    run_id: UUID | None = Field(default=None, foreign_key="run.id", index=True)
    experiment_id: UUID | None = Field(default=None, foreign_key="experiment.id", index=True)
    project_id: str
    state: str
    needs: list[UUID] = Field(sa_column=Column(ARRAY(SqlUuid), nullable=False, server_default="{}"))
    needs_state: str = "DONE"
    """`DONE`: every needed job is DONE; `ENDED`: every needed job is terminal (an experiment's report)."""
    phase: int | None = None
    range_start: int | None = bigint_column()
    range_end: int | None = bigint_column()
    """Ordinals [start, end) of a job that writes facts."""
    target_digest: str | None = None
    """Digest of the run's target: jobs with equal ones can use one loaded model."""
    params: dict[str, Any] = json_column()
    priority: int = 0
    attempt_id: UUID | None = None
    attempts: int = 0
    claim_id: UUID | None = None
    worker_id: UUID | None = Field(default=None, foreign_key="worker.id")
    assigned_at: datetime | None = instant_column()
    lease_until: datetime | None = instant_column()
    not_before: datetime | None = instant_column()
    fails: int = 0
    done: int = Field(default=0, sa_type=BigInteger)
    failed: int = Field(default=0, sa_type=BigInteger)
    outcome: dict[str, Any] | None = json_column(nullable=True)
    """Of a terminal job: `{kind: complete | stopped | failed | cancelled, reason, at, …}`."""
    created_at: datetime = now_column()
    finished_at: datetime | None = instant_column()
    step: int
    """Number of its step in the run's graph."""
    counts: bool
    """Its rows are answers of the run."""


class ClaimRow(SQLModel, table=True):
    """What cannot be recovered later, once per claim."""

    __tablename__ = "claim"
    __table_args__ = (
        Index("ix_claim_machine", "machine_id", "started_at", postgresql_where=text("sending_from_ns IS NOT NULL")),
    )

    id: UUID = Field(primary_key=True)
    job_id: UUID = Field(foreign_key="job.id", index=True)
    run_id: UUID | None = Field(default=None, index=True)
    attempt_id: UUID
    worker_id: UUID = Field(foreign_key="worker.id")
    host: str
    boot_id: UUID
    machine: dict[str, Any] = json_column()
    """CPU, memory, kernel, devices."""
    engine: dict[str, Any] | None = json_column(nullable=True)
    """`EngineIdentity`: name, version, argv, packages, weights' hashes, properties."""
    packages: dict[str, Any] = json_column()
    """Distribution → version in the claiming process."""
    client: dict[str, Any] | None = json_column(nullable=True)
    """The load generator's `EndLine`: what measuring itself cost."""
    resources: dict[str, Any] | None = json_column(nullable=True)
    """Peaks and means of the device samples over the measured window; the samples are an artifact."""
    anchor_monotonic_ns: int | None = bigint_column()
    anchor_wall_ns: int | None = bigint_column()
    measured_at: str | None = None
    """`engine` or `gateway`: which URL was measured."""
    started_at: datetime = now_column()
    ended_at: datetime | None = instant_column()
    machine_id: str | None = None
    """Boot of the kernel that it ran on: containers of a host share it, and its monotonic clock."""
    cores: list[int] | None = Field(default=None, sa_column=Column(ARRAY(Integer), nullable=True))
    """Cores that its processes could run on, the engine's too."""
    gpus: list[str] | None = Field(default=None, sa_column=Column(ARRAY(String), nullable=True))
    """UUIDs of its worker's accelerators."""
    sending_from_ns: int | None = bigint_column()
    """Monotonic instant just before its first request; None where it sent none."""
    sending_until_ns: int | None = bigint_column()
    """Monotonic instant of the last end of an answer."""


class WorkerRow(SQLModel, table=True):
    """A worker: one supervisor and its doorbell. A new boot is a new row."""

    __tablename__ = "worker"
    __table_args__ = (Index("ix_worker_live", "kind", postgresql_where=text("state IN ('LIVE', 'DRAINING')")),)

    id: UUID = Field(primary_key=True)
    name: str
    kind: str
    """`inference`, `evaluation` or `reporting`."""
    queue: str
    """Its private queue."""
    host: str
    boot_id: UUID
    pid: int = Field(sa_type=Integer)
    state: str
    """`LIVE`, `DRAINING` or `GONE`."""
    slots: int
    """Jobs at once; an inference worker takes one, on all of its devices."""
    version: str
    resident: list[str] = Field(sa_column=Column(ARRAY(String), nullable=False, server_default="{}"))
    """Target digests that are loaded now."""
    registered_at: datetime = now_column()
    last_seen_at: datetime = now_column()
    machine_id: str | None = None
    """Boot of the kernel that it runs on."""
    cores: list[int] | None = Field(default=None, sa_column=Column(ARRAY(Integer), nullable=True))
    """Cores that its processes may run on."""


class DeviceRow(SQLModel, table=True):
    """A GPU of a worker, or its one CPU slot."""

    __tablename__ = "device"

    worker_id: UUID = Field(sa_column=Column(SqlUuid, ForeignKey("worker.id", ondelete="CASCADE"), primary_key=True))
    no: int = Field(primary_key=True, sa_column_kwargs={"autoincrement": False})
    kind: str
    """`gpu` or `cpu`."""
    uuid: str
    name: str
    memory_bytes: int = Field(sa_type=BigInteger)


class ReservationRow(SQLModel, table=True):
    """What an attempt holds on a device; freed when the job leaves ASSIGNED and RUNNING."""

    __tablename__ = "reservation"

    attempt_id: UUID = Field(primary_key=True)
    worker_id: UUID = Field(primary_key=True)
    device: int = Field(primary_key=True, sa_column_kwargs={"autoincrement": False})
    job_id: UUID = Field(foreign_key="job.id", index=True)
    bytes: int = Field(sa_type=BigInteger)
    """All that the device has: less is used once jobs are placed by their memory."""
    is_exclusive: bool = True
    """Always so; used once several jobs share a device."""
