"""The large tables: facts, reused facts and phases, chunks and measures."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import BigInteger, Float, Index, text
from sqlmodel import Field, SQLModel

from vlmhyperbench.db.tables.columns import bigint_column, json_column, now_column


class FactRow(SQLModel, table=True):
    """The row of one request: immutable, exactly one per (run, phase, ordinal). Its payload is in its chunk."""

    __tablename__ = "fact"
    __table_args__ = (
        Index("ix_fact_request", "request_sha256", postgresql_where=text("status = 'ok' AND origin = 'live'")),
        {"postgresql_partition_by": "HASH (run_id)"},
    )

    run_id: UUID = Field(primary_key=True)
    phase: int = Field(primary_key=True, sa_column_kwargs={"autoincrement": False})
    ordinal: int = bigint_column(primary_key=True)
    sample: int = bigint_column(nullable=False)
    """Index in the sample manifest."""
    repeat: int = 0
    turn: int = 0
    member: int = 0
    """Always 0: a pipeline's models have a phase each."""
    stream: int = 0
    status: str
    """`ok`, `error` or `quarantined`."""
    origin: str = "live"
    """`live`, `cached`, `imported` or `combined` (of a pipeline; its latency is that of the critical path)."""
    failure: str | None = None
    """Kind of an error: `model` counts against the model, `infrastructure` never does."""
    error_code: str | None = None
    error: str | None = None
    """The server's error message, bounded, without secrets and control characters (`domain.causes`)."""
    http_status: int | None = None
    finish_reason: str | None = None
    tries: int = 1
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    token_source: str | None = None
    scheduled_ns: int | None = bigint_column()
    sent_ns: int | None = bigint_column()
    queue_ns: int | None = bigint_column()
    ttft_user_ns: int | None = bigint_column()
    ttft_service_ns: int | None = bigint_column()
    tpot_ns: float | None = Field(default=None, sa_type=Float)
    latency_ns: int | None = bigint_column()
    stream_end_ns: int | None = bigint_column()
    request_sha256: str
    claim_id: UUID
    chunk: int
    row: int
    """Row in the file of the chunk (run, claim, phase, chunk)."""


class ReusedPhaseRow(SQLModel, table=True):
    """A phase whose rows are, as a whole, those of a phase of another run."""

    __tablename__ = "reused_phase"

    run_id: UUID = Field(primary_key=True)
    phase: int = Field(primary_key=True, sa_column_kwargs={"autoincrement": False})
    source_run_id: UUID = Field(foreign_key="run.id", index=True)
    source_phase: int
    rows: int = Field(sa_type=BigInteger)
    """Number of rows of the source phase, which is closed."""
    failed: int = Field(sa_type=BigInteger)
    """Number of those rows that are not `ok`."""


class ReusedFactRow(SQLModel, table=True):
    """A single row that a run reuses; the source is always the row that was measured, never another reference."""

    __tablename__ = "reused_fact"
    __table_args__ = (Index("ix_reused_fact_source", "source_run_id"),)

    run_id: UUID = Field(primary_key=True)
    phase: int = Field(primary_key=True, sa_column_kwargs={"autoincrement": False})
    ordinal: int = bigint_column(primary_key=True)
    source_run_id: UUID
    source_phase: int
    source_ordinal: int = bigint_column(nullable=False)
    is_ok: bool
    """Whether the row's status is `ok`."""


class ChunkRow(SQLModel, table=True):
    """The manifest of one Parquet file in storage, which has the payloads of rows that were appended together."""

    __tablename__ = "chunk"

    run_id: UUID = Field(primary_key=True)
    claim_id: UUID = Field(primary_key=True)
    phase: int = Field(primary_key=True, sa_column_kwargs={"autoincrement": False})
    no: int = Field(primary_key=True, sa_column_kwargs={"autoincrement": False})
    storage_key: str
    sha256: str
    size_bytes: int = Field(sa_type=BigInteger)
    rows: int
    created_at: datetime = now_column()


class MeasureManifestRow(SQLModel, table=True):
    """The manifest of one Parquet file of measures, keyed by the claim that wrote it."""

    __tablename__ = "measure_manifest"

    run_id: UUID = Field(primary_key=True)
    claim_id: UUID = Field(primary_key=True)
    no: int = Field(primary_key=True, sa_column_kwargs={"autoincrement": False})
    job_id: UUID = Field(foreign_key="job.id")
    storage_key: str
    sha256: str
    size_bytes: int = Field(sa_type=BigInteger)
    rows: int = Field(sa_type=BigInteger)
    metrics: list[dict[str, Any]] = json_column()
    """Identity of each metric in the file: name, profile, version, extractor, package."""
    environment: str
    """Digest of the packages that computed the measures."""
    evaluation_id: str | None = Field(default=None, index=True)
    """Short id of the evaluation identity, whose components are in `metrics`."""
    fingerprint: str | None = None
    """Stage fingerprint: a rerun with an equal one reuses the file. None if a source has no version."""
    created_at: datetime = now_column()
