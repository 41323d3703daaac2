"""What lists of runs show and are filtered by: a small row per run with its labels, and the views that people save."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import ARRAY, Column, String, Text, text
from sqlmodel import Field, SQLModel

from vlmhyperbench.db.tables.columns import instant_column, json_column, now_column


class RunListingRow(SQLModel, table=True):
    """The row of a run in lists: written with the run, completed with its summary, labelled by people."""

    __tablename__ = "run_listing"

    run_id: UUID = Field(primary_key=True, foreign_key="run.id", ondelete="CASCADE")
    project_id: str = Field(index=True)
    target: str
    model: str
    backend: str
    task: str
    dataset: str
    scenario: str
    columns: dict[str, Any] = json_column()
    """Flat numbers and words of its summary (`summaries.columns`); empty until there is one."""
    tags: list[str] = Field(sa_column=Column(ARRAY(String), nullable=False, server_default=text("'{}'")))
    note: str = Field(default="", sa_type=Text)
    labelled_by: str | None = None
    labelled_at: datetime | None = instant_column()


class SavedViewRow(SQLModel, table=True):
    """A page's filters under a name, for the principal that saved it."""

    __tablename__ = "saved_view"

    project_id: str = Field(primary_key=True)
    principal: str = Field(primary_key=True)
    page: str = Field(primary_key=True)
    name: str = Field(primary_key=True)
    search: str = Field(sa_type=Text)
    """Query of the page's address, without `?`."""
    saved_at: datetime = now_column()
