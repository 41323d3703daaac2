"""Facts, what is kept of other runs, chunks and measures: the large tables, `run_id` first."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import BigInteger, Float, Index, text
from sqlmodel import Field, SQLModel

from vlmhyperbench.db.tables.columns import bigint_column, json_column, now_column


class FactRow(SQLModel, table=True):
    """The row of one request: immutable, exactly one per (run, phase, ordinal). Payloads are in its chunk."""

    __tablename__ = "fact"
    __table_args__ = (
        Index("ix_fact_request", "request_sha256", postgresql_where=text("status = 'ok' AND origin = 'live'")),
    )

    run_id: UUID = Field(primary_key=True)
    phase: int = Field(primary_key=True, sa_column_kwargs={"autoincrement": False})
    ordinal: int = bigint_column(primary_key=True)
    sample: int = bigint_column(nullable=False)
    """Index in the sample manifest."""
    repeat: int = 0
    turn: int = 0
    member: int = 0
    """Which model of a pipeline answered; always 0: used once there are pipelines."""
    stream: int = 0
    status: str
    """`ok`, `error` or `quarantined`."""
    origin: str = "live"
    """`live`, `cached` or `imported`."""
    failure: str | None = None
    """Of an error: `model` counts against the model, `infrastructure` never does."""
    error_code: str | None = None
    error: str | None = None
    """What the server said of an error, bounded, without secrets and control characters (`domain.causes`)."""
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
    ordinal: int = bigint_column(primary_key=True)
    source_run_id: UUID
    source_phase: int
    source_ordinal: int = bigint_column(nullable=False)


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
    created_at: datetime = now_column()


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
    metrics: list[dict[str, Any]] = json_column()
    """Identity of every metric inside: name, profile, version, extractor, package."""
    environment: str
    """Metric environment: digest of the packages that computed it."""
    evaluation_id: str | None = Field(default=None, index=True)
    """Short id of the evaluation identity, whose components are in `metrics`."""
    fingerprint: str | None = None
    """Of the stage: a rerun with an equal one keeps the file. None where a source has no version."""
    created_at: datetime = now_column()
