"""Jobs, claims, workers, devices and reservations."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import ARRAY, BigInteger, Column, ForeignKey, Index, Integer, String, text, true
from sqlalchemy import Uuid as SqlUuid
from sqlmodel import Field, SQLModel

from vlmhyperbench.db.tables.columns import bigint_column, instant_column, json_column, now_column


class JobRow(SQLModel, table=True):
    """A unit of work with one lease. `claim_id` is the fencing token of every write."""

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
        Index(
            "ix_job_shape",
            "kind",
            "project_id",
            "target_digest",
            "is_timed",
            text("priority DESC"),
            "created_at",
            "range_start",
            "id",
            postgresql_where=text("state = 'READY'"),
        ),
        Index(
            "ix_job_done",
            "target_digest",
            text("finished_at DESC"),
            postgresql_where=text("state = 'DONE' AND kind = 'GENERATE'"),
        ),
        Index("ix_job_worker", "worker_id", postgresql_where=text("state IN ('ASSIGNED', 'RUNNING')")),
    )

    id: UUID = Field(primary_key=True)
    kind: str
    """Kind of its step (`domain.steps`)."""
    scope: str
    """`run` or `experiment`: the kind of its owner."""
    run_id: UUID | None = Field(default=None, foreign_key="run.id", index=True)
    experiment_id: UUID | None = Field(default=None, foreign_key="experiment.id", index=True)
    project_id: str
    state: str
    needs: list[UUID] = Field(sa_column=Column(ARRAY(SqlUuid), nullable=False, server_default="{}"))
    needs_state: str = "DONE"
    """State that each needed job must have reached: `DONE`, `ENDED` (any terminal state) or `STARTED` (or DONE)."""
    phase: int | None = None
    range_start: int | None = bigint_column()
    range_end: int | None = bigint_column()
    """Ordinals [start, end) of a job that writes facts."""
    target_digest: str | None = None
    """Digest of the target that it asks; jobs with equal digests can use one loaded model."""
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
    """Outcome of the last claim: `{kind: complete | stopped | preempted | failed | cancelled, reason, at, …}`."""
    created_at: datetime = now_column()
    finished_at: datetime | None = instant_column()
    step: int
    """Number of its step in the run's graph."""
    counts: bool
    """Whether its rows are answers of the run."""
    is_timed: bool = Field(default=True, sa_column_kwargs={"server_default": true()})
    """Whether its speed counts, so that it is alone on its devices."""
    devices: int = Field(default=1, sa_column_kwargs={"server_default": "1"})
    """Number of devices of one worker that it needs; 0 if its engine runs elsewhere."""
    is_simulated: bool = Field(default=False, sa_column_kwargs={"server_default": text("false")})
    """Whether its engine is simulated, so that it may run on declared devices."""
    server: str | None = None
    """Host and port of the endpoint that it asks; None: it asks no engine, or one that the platform runs."""


class ClaimRow(SQLModel, table=True):
    """A claim of a job, with evidence that cannot be recovered later."""

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
    """The load generator's `EndLine`, with its own cost; the answers that the claim has measured, and their time."""
    resources: dict[str, Any] | None = json_column(nullable=True)
    """Peaks and means of the device samples over the measured window; the samples are an artifact."""
    anchor_monotonic_ns: int | None = bigint_column()
    anchor_wall_ns: int | None = bigint_column()
    measured_at: str | None = None
    """`engine`, `gateway` or `tunnel`: which URL was measured."""
    started_at: datetime = now_column()
    ended_at: datetime | None = instant_column()
    machine_id: str | None = None
    """Id of the kernel's boot: containers of a host share it, and its monotonic clock."""
    cores: list[int] | None = Field(default=None, sa_column=Column(ARRAY(Integer), nullable=True))
    """Cores on which its processes, including the engine's, could run."""
    gpus: list[str] | None = Field(default=None, sa_column=Column(ARRAY(String), nullable=True))
    """UUIDs of its worker's accelerators."""
    sending_from_ns: int | None = bigint_column()
    """Monotonic instant just before its first request; None if it sent none."""
    sending_until_ns: int | None = bigint_column()
    """Monotonic instant at which its last answer ended."""
    failure: dict[str, Any] | None = json_column(nullable=True)
    """`{code, message}` of a claim that failed, such as `oom`, `engine_exited`, `stalled` or `worker_died`."""
    environment: dict[str, Any] | None = json_column(nullable=True)
    """Where its engine ran: kind, key, Python, packages with versions, and the certificate of exactly that."""


class WorkerRow(SQLModel, table=True):
    """A worker: one supervisor and its doorbell. Each boot is a new row."""

    __tablename__ = "worker"
    __table_args__ = (Index("ix_worker_live", "kind", postgresql_where=text("state IN ('LIVE', 'DRAINING')")),)

    id: UUID = Field(primary_key=True)
    name: str
    kind: str
    """`inference`, `evaluation` or `reporting`."""
    queue: str
    """Name of its private queue."""
    host: str
    boot_id: UUID
    pid: int = Field(sa_type=Integer)
    state: str
    """`LIVE`, `DRAINING` or `GONE`."""
    slots: int
    """Maximum number of jobs at a time; an inference worker takes several only if they share its devices."""
    version: str
    resident: list[str] = Field(sa_column=Column(ARRAY(String), nullable=False, server_default="{}"))
    """Digests of the targets that are loaded now."""
    registered_at: datetime = now_column()
    last_seen_at: datetime = now_column()
    machine_id: str | None = None
    """Id of the kernel's boot."""
    cores: list[int] | None = Field(default=None, sa_column=Column(ARRAY(Integer), nullable=True))
    """Cores on which its processes may run."""
    is_declared: bool = Field(default=False, sa_column_kwargs={"server_default": text("false")})
    """Whether a file declares its devices and no hardware stands behind them."""


class DeviceRow(SQLModel, table=True):
    """A GPU of a worker, a MIG slice of one, or its CPU slot."""

    __tablename__ = "device"
    __table_args__ = (Index("ix_device_broken", "uuid", postgresql_where=text("state = 'BROKEN'")),)

    worker_id: UUID = Field(sa_column=Column(SqlUuid, ForeignKey("worker.id", ondelete="CASCADE"), primary_key=True))
    no: int = Field(primary_key=True, sa_column_kwargs={"autoincrement": False})
    kind: str
    """`gpu` or `cpu`."""
    uuid: str
    name: str
    memory_bytes: int = Field(sa_type=BigInteger)
    state: str = Field(default="OK", sa_column_kwargs={"server_default": "OK"})
    """`OK` or `BROKEN`: a faulty device gets no jobs until a person releases it."""
    state_reason: str | None = None
    state_by: str | None = None
    """Worker or person that changed the state."""
    state_since: datetime | None = instant_column()
    used_bytes: int | None = Field(default=None, sa_type=BigInteger)
    """Memory that all processes use; of a CPU slot, that of its machine."""
    util_percent: float | None = None
    read_at: datetime | None = instant_column()
    """When the worker has last read both."""


class ReservationRow(SQLModel, table=True):
    """The share of a device that an attempt holds; deleted when the job leaves ASSIGNED and RUNNING."""

    __tablename__ = "reservation"

    attempt_id: UUID = Field(primary_key=True)
    worker_id: UUID = Field(primary_key=True)
    device: int = Field(primary_key=True, sa_column_kwargs={"autoincrement": False})
    job_id: UUID = Field(foreign_key="job.id", index=True)
    bytes: int = Field(sa_type=BigInteger)
    is_exclusive: bool = True
    """Whether no other attempt may have a share."""
