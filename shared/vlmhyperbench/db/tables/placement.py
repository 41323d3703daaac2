"""What targets need of devices, and what is drained or in quarantine."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import ARRAY, BigInteger, Boolean, CheckConstraint, Column, Index, String, text
from sqlmodel import Field, SQLModel

from vlmhyperbench.db.tables.columns import instant_column, json_column, now_column


class MemoryEstimateRow(SQLModel, table=True):
    """The memory that a target's adapter estimates; the last estimate counts."""

    __tablename__ = "memory_estimate"

    target_digest: str = Field(primary_key=True)
    device_bytes: int = Field(sa_type=BigInteger)
    """Memory of accelerators, on all devices of the target together."""
    host_bytes: int = Field(sa_type=BigInteger)
    device_share: float | None = None
    """Share of an accelerator that the engine takes whatever it needs."""
    knobs: list[str] = Field(sa_column=Column(ARRAY(String), nullable=False, server_default="{}"))
    """Parameters of the engine that change the need."""
    min_device_bytes: int | None = Field(default=None, sa_type=BigInteger)
    min_host_bytes: int | None = Field(default=None, sa_type=BigInteger)
    """What the smallest load without a loss of quality needs."""
    estimated_at: datetime = now_column()


class MemoryPeakRow(SQLModel, table=True):
    """The most memory that a loaded target has used, on one of its devices; it corrects the estimate."""

    __tablename__ = "memory_peak"

    target_digest: str = Field(primary_key=True)
    """Digest of weights, engine and parameters, to which the length of the context belongs."""
    device_name: str = Field(primary_key=True)
    """Name of the device's model."""
    bytes: int = Field(sa_type=BigInteger)
    measured_at: datetime = now_column()


class DrainRow(SQLModel, table=True):
    """A worker, a device or a machine that gets no new jobs, until a person resumes it; old rows are the record."""

    __tablename__ = "drain"
    __table_args__ = (
        Index("ix_drain_open", "scope", "name", unique=True, postgresql_where=text("resumed_at IS NULL")),
    )

    id: UUID = Field(primary_key=True)
    scope: str
    """`worker`, `device` or `machine`."""
    name: str
    """Queue of the worker, UUID of the device, or host: each is the same after a restart."""
    reason: str
    drained_by: str
    drained_at: datetime = now_column()
    resumed_by: str | None = None
    resumed_at: datetime | None = instant_column()


class HeldModelRow(SQLModel, table=True):
    """A model that a user has asked to load or to unload, and what a worker has made of it."""

    __tablename__ = "held_model"
    __table_args__ = (
        CheckConstraint("wanted IN ('loaded', 'unloaded')", name="held_model_wanted"),
        CheckConstraint("state IN ('waiting', 'loading', 'loaded', 'unloaded', 'error')", name="held_model_state"),
    )

    project_id: str = Field(primary_key=True)
    name: str = Field(primary_key=True)
    target: dict[str, Any] = json_column()
    """The pinned target, as a run of the model without further parameters has it."""
    target_digest: str
    wanted: str
    state: str
    reason: str | None = None
    shortage: dict[str, Any] | None = json_column(nullable=True)
    """What memory it lacked, where its load was refused for that."""
    worker_id: UUID | None = None
    """The worker that has it, or had it last."""
    is_pinned: bool = Field(sa_column=Column(Boolean, nullable=False, server_default="false"))
    """Whether it is unloaded last, and loaded again when its worker has nothing else to do."""
    asked_by: str
    asked_at: datetime = now_column()
    changed_at: datetime = now_column()


class QuarantineRow(SQLModel, table=True):
    """A device that a worker found faulty, until a person releases it; old rows are the record."""

    __tablename__ = "quarantine"
    __table_args__ = (Index("ix_quarantine_open", "device", unique=True, postgresql_where=text("released_at IS NULL")),)

    id: UUID = Field(primary_key=True, sa_column_kwargs={"server_default": text("gen_random_uuid()")})
    device: str
    """UUID of the device."""
    device_name: str
    worker: str
    """Name of the worker that found the fault."""
    host: str
    reason: str
    since: datetime = now_column()
    released_by: str | None = None
    released_at: datetime | None = instant_column()
