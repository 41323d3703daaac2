"""Every table. Rows of these classes stay inside `vlmhyperbench.db`; repositories return frozen dataclasses.

`run_id` leads every large primary key, and no foreign key points onto fact rows: they will be partitioned.
Instants are `timestamptz` by the database's clock; durations and monotonic instants are integers of nanoseconds.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import ARRAY, BigInteger, Column, DateTime, Float, ForeignKey, Index, Integer, String, Text, func, text
from sqlalchemy import Uuid as SqlUuid
from sqlalchemy.dialects.postgresql import JSONB
from sqlmodel import Field, SQLModel


def _json(*, nullable: bool = False) -> Any:
    return Field(sa_column=Column(JSONB, nullable=nullable))


def _now() -> Any:
    return Field(sa_column=Column(DateTime(timezone=True), nullable=False, server_default=func.now()))


def _instant() -> Any:
    return Field(default=None, sa_column=Column(DateTime(timezone=True), nullable=True))


def _bigint(*, nullable: bool = True, primary_key: bool = False) -> Any:
    if primary_key:
        return Field(sa_column=Column(BigInteger, primary_key=True, autoincrement=False))
    return Field(default=None, sa_column=Column(BigInteger, nullable=nullable))


class ExperimentRow(SQLModel, table=True):
    """A matrix that expands to runs."""

    __tablename__ = "experiment"

    id: UUID = Field(primary_key=True)
    project_id: str = Field(index=True)
    created_by: str
    name: str
    spec: dict[str, Any] = _json()
    spec_digest: str
    state: str
    event_seq: int = Field(default=0, sa_type=BigInteger)
    cancel_requested_at: datetime | None = _instant()
    created_at: datetime = _now()
    finished_at: datetime | None = _instant()


class RunRow(SQLModel, table=True):
    """One target, one task, one scenario. `is_dirty` asks the scheduler to advance it."""

    __tablename__ = "run"
    __table_args__ = (
        Index("ix_run_project_created", "project_id", "created_at", "id"),
        Index("ix_run_dirty", "id", postgresql_where=text("is_dirty")),
        Index("ix_run_open", "state", postgresql_where=text("finished_at IS NULL")),
    )

    id: UUID = Field(primary_key=True)
    experiment_id: UUID | None = Field(default=None, foreign_key="experiment.id", index=True)
    parent_run_id: UUID | None = Field(default=None, foreign_key="run.id", index=True)
    project_id: str
    created_by: str
    name: str
    position: int = 0
    """Place in the experiment's matrix; the first is the baseline of a comparison."""
    spec: dict[str, Any] = _json()
    spec_digest: str = Field(index=True)
    state: str
    reason: str | None = Field(default=None, sa_type=Text)
    priority: int = 0
    is_paused: bool = False
    is_dirty: bool = True
    cancel_requested_at: datetime | None = _instant()
    event_seq: int = Field(default=0, sa_type=BigInteger)
    manifest_id: str | None = Field(default=None, foreign_key="sample_manifest.id")
    total: int | None = _bigint()
    """Requests of the accuracy phase, or of the timed one: known once the run is INDEXED."""
    created_at: datetime = _now()
    started_at: datetime | None = _instant()
    finished_at: datetime | None = _instant()


class IdempotencyKeyRow(SQLModel, table=True):
    """A key is scoped by who sent it: the same key and body answer the same id, another body is a conflict."""

    __tablename__ = "idempotency_key"

    principal: str = Field(primary_key=True)
    key: str = Field(primary_key=True)
    body_sha256: str
    resource: str
    """`run` or `experiment`."""
    resource_id: UUID
    created_at: datetime = _now()


class SampleManifestRow(SQLModel, table=True):
    """A sample manifest, stored by content (id = SHA-256 of the stored file) and shared by runs."""

    __tablename__ = "sample_manifest"

    id: str = Field(primary_key=True)
    dataset_digest: str = Field(index=True)
    storage_key: str
    size_bytes: int = Field(sa_type=BigInteger)
    samples: int = Field(sa_type=BigInteger)
    unreadable: int = Field(sa_type=BigInteger)
    """Samples whose image is no image: they become error rows."""
    group_columns: list[str] = Field(sa_column=Column(ARRAY(String), nullable=False))
    created_at: datetime = _now()


class PhaseRow(SQLModel, table=True):
    """A part of a run whose requests count, or are void, together."""

    __tablename__ = "phase"

    run_id: UUID = Field(primary_key=True, foreign_key="run.id")
    no: int = Field(primary_key=True, sa_column_kwargs={"autoincrement": False})
    kind: str
    params: dict[str, Any] = _json()
    state: str
    claim_id: UUID | None = None
    """The claim that measures it; None for an accuracy phase, which all shards share."""
    count: int | None = _bigint()
    opened_at: datetime = _now()
    closed_at: datetime | None = _instant()


class JobRow(SQLModel, table=True):
    """One unit of work with one lease. `claim_id` is the fencing token of every write."""

    __tablename__ = "job"
    __table_args__ = (
        Index(
            "ix_job_open",
            "state",
            "priority",
            "created_at",
            postgresql_where=text("state IN ('READY', 'ASSIGNED', 'RUNNING')"),
        ),
        Index("ix_job_worker", "worker_id", postgresql_where=text("state IN ('ASSIGNED', 'RUNNING')")),
    )

    id: UUID = Field(primary_key=True)
    kind: str
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
    range_start: int | None = _bigint()
    range_end: int | None = _bigint()
    """Ordinals [start, end) of a GENERATE shard."""
    target_digest: str | None = None
    """Digest of the run's target: jobs with equal ones can use one loaded model."""
    params: dict[str, Any] = _json()
    priority: int = 0
    attempt_id: UUID | None = None
    attempts: int = 0
    claim_id: UUID | None = None
    worker_id: UUID | None = Field(default=None, foreign_key="worker.id")
    assigned_at: datetime | None = _instant()
    lease_until: datetime | None = _instant()
    not_before: datetime | None = _instant()
    fails: int = 0
    done: int = Field(default=0, sa_type=BigInteger)
    failed: int = Field(default=0, sa_type=BigInteger)
    outcome: dict[str, Any] | None = _json(nullable=True)
    """Of a terminal job: `{kind: complete | stopped | failed | cancelled, reason, at, …}`."""
    created_at: datetime = _now()
    finished_at: datetime | None = _instant()


class ClaimRow(SQLModel, table=True):
    """What cannot be recovered later, once per claim."""

    __tablename__ = "claim"

    id: UUID = Field(primary_key=True)
    job_id: UUID = Field(foreign_key="job.id", index=True)
    run_id: UUID | None = Field(default=None, index=True)
    attempt_id: UUID
    worker_id: UUID = Field(foreign_key="worker.id")
    host: str
    boot_id: UUID
    machine: dict[str, Any] = _json()
    """CPU, memory, kernel, devices."""
    engine: dict[str, Any] | None = _json(nullable=True)
    """`EngineIdentity`: name, version, argv, packages, weights' hashes, properties."""
    packages: dict[str, Any] = _json()
    """Distribution → version in the claiming process."""
    client: dict[str, Any] | None = _json(nullable=True)
    """The load generator's `EndLine`: what measuring itself cost."""
    anchor_monotonic_ns: int | None = _bigint()
    anchor_wall_ns: int | None = _bigint()
    measured_at: str | None = None
    """`engine` or `gateway`: which URL was measured."""
    started_at: datetime = _now()
    ended_at: datetime | None = _instant()


class FactRow(SQLModel, table=True):
    """The row of one request: immutable, exactly one per (run, phase, ordinal). Payloads are in its chunk."""

    __tablename__ = "fact"

    run_id: UUID = Field(primary_key=True)
    phase: int = Field(primary_key=True, sa_column_kwargs={"autoincrement": False})
    ordinal: int = _bigint(primary_key=True)
    sample: int = _bigint(nullable=False)
    """Index in the sample manifest."""
    repeat: int = 0
    turn: int = 0
    member: int = 0
    stream: int = 0
    status: str
    """`ok`, `error` or `quarantined`."""
    origin: str = "live"
    """`live`, `cached` or `imported`."""
    failure: str | None = None
    """Of an error: `model` counts against the model, `infrastructure` never does."""
    error_code: str | None = None
    http_status: int | None = None
    finish_reason: str | None = None
    tries: int = 1
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    token_source: str | None = None
    scheduled_ns: int | None = _bigint()
    sent_ns: int | None = _bigint()
    queue_ns: int | None = _bigint()
    ttft_user_ns: int | None = _bigint()
    ttft_service_ns: int | None = _bigint()
    tpot_ns: float | None = Field(default=None, sa_type=Float)
    latency_ns: int | None = _bigint()
    stream_end_ns: int | None = _bigint()
    request_sha256: str
    text_sha256: str | None = None
    claim_id: UUID
    chunk: int
    row: int
    """Place in the chunk (run, claim, phase, chunk)."""


class KeptPhaseRow(SQLModel, table=True):
    """A child run's phase that is, as a whole, a phase of another run."""

    __tablename__ = "kept_phase"

    run_id: UUID = Field(primary_key=True)
    phase: int = Field(primary_key=True, sa_column_kwargs={"autoincrement": False})
    source_run_id: UUID = Field(foreign_key="run.id", index=True)
    source_phase: int


class KeptFactRow(SQLModel, table=True):
    """A single row that a child run keeps: always the row that was measured, never another reference."""

    __tablename__ = "kept_fact"
    __table_args__ = (Index("ix_kept_fact_source", "source_run_id"),)

    run_id: UUID = Field(primary_key=True)
    phase: int = Field(primary_key=True, sa_column_kwargs={"autoincrement": False})
    ordinal: int = _bigint(primary_key=True)
    source_run_id: UUID
    source_phase: int
    source_ordinal: int = _bigint(nullable=False)


class ChunkRow(SQLModel, table=True):
    """The fenced manifest of payloads: what was appended at once, as one Parquet file in storage."""

    __tablename__ = "chunk"

    run_id: UUID = Field(primary_key=True)
    claim_id: UUID = Field(primary_key=True)
    phase: int = Field(primary_key=True, sa_column_kwargs={"autoincrement": False})
    no: int = Field(primary_key=True, sa_column_kwargs={"autoincrement": False})
    storage_key: str
    sha256: str
    size_bytes: int = Field(sa_type=BigInteger)
    rows: int
    created_at: datetime = _now()


class MeasureManifestRow(SQLModel, table=True):
    """One Parquet file of measures, keyed by the claim that wrote it."""

    __tablename__ = "measure_manifest"

    run_id: UUID = Field(primary_key=True)
    claim_id: UUID = Field(primary_key=True)
    no: int = Field(primary_key=True, sa_column_kwargs={"autoincrement": False})
    job_id: UUID = Field(foreign_key="job.id")
    storage_key: str
    sha256: str
    size_bytes: int = Field(sa_type=BigInteger)
    rows: int = Field(sa_type=BigInteger)
    metrics: list[dict[str, Any]] = _json()
    """Identity of every metric inside: name, profile, version, extractor, package."""
    environment: str
    """Metric environment: digest of the packages that computed it."""
    created_at: datetime = _now()


class ArtifactRow(SQLModel, table=True):
    """A file that a run or an experiment produced: a report, a table, a log."""

    __tablename__ = "artifact"

    id: UUID = Field(primary_key=True)
    project_id: str
    run_id: UUID | None = Field(default=None, foreign_key="run.id", index=True)
    experiment_id: UUID | None = Field(default=None, foreign_key="experiment.id", index=True)
    claim_id: UUID
    kind: str
    """`report`, `table`, `log` or `resources`."""
    name: str
    """File name as a user sees it, `report.html`."""
    media_type: str
    storage_key: str
    sha256: str
    size_bytes: int = Field(sa_type=BigInteger)
    created_at: datetime = _now()


class EventRow(SQLModel, table=True):
    """Durable events. A stream is a run (or an experiment, for its own few); `seq` is gapless in it."""

    __tablename__ = "event"

    stream_id: UUID = Field(primary_key=True)
    seq: int = _bigint(primary_key=True)
    id: UUID
    ts: datetime = _now()
    type: str
    project_id: str
    experiment_id: UUID | None = None
    run_id: UUID | None = None
    job_id: UUID | None = None
    stage: str | None = None
    data: dict[str, Any] = _json()


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
    """Jobs at once; an inference worker has one per device."""
    version: str
    labels: dict[str, Any] = _json()
    resident: list[str] = Field(sa_column=Column(ARRAY(String), nullable=False, server_default="{}"))
    """Target digests that are loaded now."""
    registered_at: datetime = _now()
    last_seen_at: datetime = _now()


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
    state: str = "OK"
    """`OK`, `DRAINED` or `BROKEN`."""


class ReservationRow(SQLModel, table=True):
    """What an attempt holds on a device; freed when the job leaves ASSIGNED and RUNNING."""

    __tablename__ = "reservation"

    attempt_id: UUID = Field(primary_key=True)
    worker_id: UUID = Field(primary_key=True)
    device: int = Field(primary_key=True, sa_column_kwargs={"autoincrement": False})
    job_id: UUID = Field(foreign_key="job.id", index=True)
    bytes: int = Field(sa_type=BigInteger)
    is_exclusive: bool = True


class ApiKeyRow(SQLModel, table=True):
    """An API key: the secret itself is shown once and never stored."""

    __tablename__ = "api_key"

    prefix: str = Field(primary_key=True)
    hmac_sha256: str
    principal: str = Field(index=True)
    project_id: str
    scopes: list[str] = Field(sa_column=Column(ARRAY(String), nullable=False))
    created_at: datetime = _now()
    expires_at: datetime | None = _instant()
    revoked_at: datetime | None = _instant()
