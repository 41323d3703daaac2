"""Exports asked for through the API: jobs with a lease of their own, because no scheduler places them."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from sqlalchemy import ARRAY, BigInteger, Column, Text, text
from sqlalchemy import Uuid as SqlUuid
from sqlmodel import Field, SQLModel

from vlmhyperbench.db.tables.columns import bigint_column, instant_column, now_column


class ExportRow(SQLModel, table=True):
    """One export of runs: queued, written by the process that claimed it, kept until it expires."""

    __tablename__ = "export"

    id: UUID = Field(primary_key=True)
    project_id: str = Field(index=True)
    run_ids: list[UUID] = Field(sa_column=Column(ARRAY(SqlUuid), nullable=False))
    format: str
    state: str = Field(default="QUEUED", sa_column_kwargs={"server_default": "QUEUED"})
    """`QUEUED`, `RUNNING`, `DONE`, `FAILED`, `CANCELLED` or `EXPIRED`."""
    done: int = Field(default=0, sa_type=BigInteger, sa_column_kwargs={"server_default": text("0")})
    """Answers that are written."""
    total: int | None = bigint_column()
    attempts: int = Field(default=0, sa_column_kwargs={"server_default": text("0")})
    claim_id: UUID | None = None
    """The fencing token: only its holder changes the row."""
    lease_until: datetime | None = instant_column()
    name: str | None = None
    storage_key: str | None = None
    sha256: str | None = None
    size_bytes: int | None = bigint_column()
    error: str | None = Field(default=None, sa_type=Text)
    created_by: str
    created_at: datetime = now_column()
    finished_at: datetime | None = instant_column()
    expires_at: datetime | None = instant_column()
