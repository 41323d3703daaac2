"""Where the rows of runs are: a run without a row here is hot."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import BigInteger, Column, ForeignKey, Index, Text, false, text
from sqlalchemy import Uuid as SqlUuid
from sqlmodel import Field, SQLModel

from vlmhyperbench.db.tables.columns import bigint_column, instant_column, json_column


class RunTierRow(SQLModel, table=True):
    """The tier of a run, the files that hold its rows, and what stays in Postgres of them."""

    __tablename__ = "run_tier"
    __table_args__ = (Index("ix_run_tier_wanted", "wanted_at", postgresql_where=text("wanted IS NOT NULL")),)

    run_id: UUID = Field(sa_column=Column(SqlUuid, ForeignKey("run.id", ondelete="CASCADE"), primary_key=True))
    tier: str = Field(default="hot", sa_column_kwargs={"server_default": "hot"})
    """`hot`, `warm` or `cold` (`domain.tiers`)."""
    is_pinned: bool = Field(default=False, sa_column_kwargs={"server_default": false()})
    pinned_by: str | None = None
    rows: int = Field(default=0, sa_type=BigInteger, sa_column_kwargs={"server_default": "0"})
    """Rows that left the table of facts."""
    counts: list[dict[str, Any]] = json_column()
    """`{phase, status, failure, rows}` of these rows."""
    failures: list[dict[str, Any]] = json_column()
    """`{phase, error, error_code, http_status, failure, requests}` of these rows that failed."""
    facts_key: str | None = None
    """Parquet file of the rows; in a cold run a member of the archive."""
    facts_sha256: str | None = None
    facts_bytes: int | None = bigint_column()
    archive_key: str | None = None
    archive_sha256: str | None = None
    archive_bytes: int | None = bigint_column()
    has_loose_files: bool = Field(default=False, sa_column_kwargs={"server_default": false()})
    """Whether files of a cold run may still lie in storage beside the archive."""
    wanted: str | None = None
    """Tier that a user asked for."""
    wanted_by: str | None = None
    wanted_at: datetime | None = instant_column()
    error: str | None = Field(default=None, sa_type=Text)
    """Why the last move failed."""
    error_at: datetime | None = instant_column()
    moved_at: datetime | None = instant_column()
    restored_at: datetime | None = instant_column()
