"""Columns that several tables use: JSON, instants by the database's clock, 64-bit integers."""

from __future__ import annotations

from typing import Any

from sqlalchemy import BigInteger, Column, DateTime, func
from sqlalchemy.dialects.postgresql import JSONB
from sqlmodel import Field


def json_column(*, nullable: bool = False) -> Any:
    """Return a JSONB column; in a nullable one, None is stored as SQL NULL, not as the JSON null."""
    return Field(sa_column=Column(JSONB(none_as_null=nullable), nullable=nullable))


def now_column() -> Any:
    """Return a column of instants that the database sets when the row is written."""
    return Field(sa_column=Column(DateTime(timezone=True), nullable=False, server_default=func.now()))


def instant_column() -> Any:
    """Return a column of instants that may be unknown."""
    return Field(default=None, sa_column=Column(DateTime(timezone=True), nullable=True))


def bigint_column(*, nullable: bool = True, primary_key: bool = False) -> Any:
    """Return a column of 64-bit integers without autoincrement."""
    if primary_key:
        return Field(sa_column=Column(BigInteger, primary_key=True, autoincrement=False))
    return Field(default=None, sa_column=Column(BigInteger, nullable=nullable))
