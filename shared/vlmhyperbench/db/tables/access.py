"""Who may join, and who may no longer: tokens of workers on other machines, sessions of browsers that were ended."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import Column, DateTime
from sqlmodel import Field, SQLModel

from vlmhyperbench.db.tables.columns import instant_column, now_column


class JoinTokenRow(SQLModel, table=True):
    """A token that lets workers join a limited number of times; the secret itself is shown once and never stored."""

    __tablename__ = "join_token"

    prefix: str = Field(primary_key=True)
    hmac_sha256: str
    kind: str | None = None
    """The only kind of workers that may join with it; None: any."""
    created_by: str
    created_at: datetime = now_column()
    expires_at: datetime = Field(sa_column=Column(DateTime(timezone=True), nullable=False))
    max_uses: int
    uses: int = Field(default=0, sa_column_kwargs={"server_default": "0"})
    revoked_at: datetime | None = instant_column()
    revoked_by: str | None = None
    account: str | None = None
    """Account of the workers that have joined with it: `own`, until it is `ended`, or `shared`; None: none has."""
    redis_sha256: str | None = None
    """Hash of the password of its user in Redis, which may lose its users."""


class EndedSessionRow(SQLModel, table=True):
    """A browser's session that was ended before it expired; it is kept until then."""

    __tablename__ = "ended_session"

    nonce: str = Field(primary_key=True)
    expires_at: datetime = Field(sa_column=Column(DateTime(timezone=True), nullable=False))
