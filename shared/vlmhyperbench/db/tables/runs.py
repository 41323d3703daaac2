"""Experiments, runs, their phases, events, artifacts and manifests."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import ARRAY, BigInteger, Column, Index, String, Text, text
from sqlmodel import Field, SQLModel

from vlmhyperbench.db.tables.columns import bigint_column, instant_column, json_column, now_column


class ExperimentRow(SQLModel, table=True):
    """A matrix that expands to runs."""

    __tablename__ = "experiment"

    id: UUID = Field(primary_key=True)
    project_id: str = Field(index=True)
    created_by: str
    name: str
    spec: dict[str, Any] = json_column()
    spec_digest: str
    traceparent: str | None = None
    """As that of a run."""
    state: str
    event_seq: int = Field(default=0, sa_type=BigInteger)
    cancel_requested_at: datetime | None = instant_column()
    created_at: datetime = now_column()
    finished_at: datetime | None = instant_column()


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
    """Index in the experiment's matrix; the first run is the baseline of a comparison."""
    spec: dict[str, Any] = json_column()
    spec_digest: str = Field(index=True)
    origins: dict[str, Any] | None = json_column(nullable=True)
    """Path of a value of the spec → where it was written (`registry.origins`); None for runs before this was stored."""
    traceparent: str | None = None
    """The W3C header of the request that submitted it; None: it had none, and the run's trace has the run's own id."""
    state: str
    reason: str | None = Field(default=None, sa_type=Text)
    priority: int = 0
    is_paused: bool = False
    is_dirty: bool = True
    cancel_requested_at: datetime | None = instant_column()
    stop_decision: dict[str, Any] | None = json_column(nullable=True)
    """Decision of the stop rule, once it is certain: `{rule, state, samples, of, answers, unscored, low, high, …}`."""
    retunes: list[dict[str, Any]] | None = json_column(nullable=True)
    """Changes of the requests in flight, `[{in_flight, before, by, at}]`, oldest first; None: there were none."""
    headline: dict[str, Any] | None = json_column(nullable=True)
    """Scores of the newest report, as lists of runs show them (`wire.runs.Headline`)."""
    event_seq: int = Field(default=0, sa_type=BigInteger)
    manifest_id: str | None = Field(default=None, foreign_key="sample_manifest.id")
    examples_id: str | None = Field(default=None, foreign_key="sample_manifest.id")
    """Samples that stand before every question as answered ones, in their order; None: the prompt has no examples."""
    total: int | None = bigint_column()
    """Number of requests of the accuracy phase or the timed phase; known once the run is INDEXED."""
    created_at: datetime = now_column()
    started_at: datetime | None = instant_column()
    finished_at: datetime | None = instant_column()


class IdempotencyKeyRow(SQLModel, table=True):
    """An idempotency key of a principal, with the hash of the body and the resource that was created with it."""

    __tablename__ = "idempotency_key"

    principal: str = Field(primary_key=True)
    key: str = Field(primary_key=True)
    body_sha256: str
    resource: str
    """`run` or `experiment`."""
    resource_id: UUID
    created_at: datetime = now_column()


class SampleManifestRow(SQLModel, table=True):
    """A sample manifest, stored by content hash (id = SHA-256 of the stored file) and shared by runs."""

    __tablename__ = "sample_manifest"

    id: str = Field(primary_key=True)
    dataset_digest: str = Field(index=True)
    storage_key: str
    size_bytes: int = Field(sa_type=BigInteger)
    samples: int = Field(sa_type=BigInteger)
    unreadable: int = Field(sa_type=BigInteger)
    """Number of samples that cannot be asked, as their image or text is not readable; they become error rows."""
    group_columns: list[str] = Field(sa_column=Column(ARRAY(String), nullable=False))
    created_at: datetime = now_column()


class PhaseRow(SQLModel, table=True):
    """A part of a run whose requests are counted or voided together."""

    __tablename__ = "phase"

    run_id: UUID = Field(primary_key=True, foreign_key="run.id")
    no: int = Field(primary_key=True, sa_column_kwargs={"autoincrement": False})
    kind: str
    params: dict[str, Any] = json_column()
    state: str
    claim_id: UUID | None = None
    """The claim that measures it; None for a phase that all shards share."""
    count: int | None = bigint_column()
    opened_at: datetime = now_column()
    closed_at: datetime | None = instant_column()
    step: int
    """Number of its step in the run's graph."""
    counts: bool
    """Whether its rows are answers of the run."""


class EventRow(SQLModel, table=True):
    """A durable event. A stream is a run or an experiment; `seq` has no gaps in a stream."""

    __tablename__ = "event"
    __table_args__ = (Index("ix_event_alert", "ts", postgresql_where=text("type = 'alert.raised'")),)

    stream_id: UUID = Field(primary_key=True)
    seq: int = bigint_column(primary_key=True)
    id: UUID
    ts: datetime = now_column()
    type: str
    project_id: str
    experiment_id: UUID | None = None
    run_id: UUID | None = None
    job_id: UUID | None = None
    stage: str | None = None
    data: dict[str, Any] = json_column()


class ArtifactRow(SQLModel, table=True):
    """A file that a run or an experiment produced: a report, a table, a log."""

    __tablename__ = "artifact"

    id: UUID = Field(primary_key=True)
    project_id: str
    run_id: UUID | None = Field(default=None, foreign_key="run.id", index=True)
    experiment_id: UUID | None = Field(default=None, foreign_key="experiment.id", index=True)
    claim_id: UUID
    kind: str
    """`report`, `summary`, `manifest`, `table`, `log`, `resources` or `reuse`."""
    name: str
    """File name as users see it, such as `report.html`."""
    media_type: str
    storage_key: str
    sha256: str
    size_bytes: int = Field(sa_type=BigInteger)
    created_at: datetime = now_column()


class ApiKeyRow(SQLModel, table=True):
    """An API key; the secret itself is shown once and never stored."""

    __tablename__ = "api_key"

    prefix: str = Field(primary_key=True)
    hmac_sha256: str
    principal: str = Field(index=True)
    project_id: str
    scopes: list[str] = Field(sa_column=Column(ARRAY(String), nullable=False))
    created_at: datetime = now_column()
    expires_at: datetime | None = instant_column()
    revoked_at: datetime | None = instant_column()
    created_by: str | None = None
    """Principal that made it; None for the keys of the stack itself."""
    revoked_by: str | None = None
