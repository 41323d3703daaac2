"""Registry entries made through the API: immutable versions, of which the newest of each name is in use."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import Text, false
from sqlmodel import Field, SQLModel

from vlmhyperbench.db.tables.columns import now_column


class RegistryEntryRow(SQLModel, table=True):
    """One version of an entry; rows are only added, an archived entry ends with a version that says so."""

    __tablename__ = "registry_entry"

    project_id: str = Field(primary_key=True)
    kind: str = Field(primary_key=True)
    name: str = Field(primary_key=True)
    revision: int = Field(primary_key=True, sa_column_kwargs={"autoincrement": False})
    """1, 2, 3 …: two writers of one revision conflict."""
    version: str
    """The entry's own version."""
    digest: str
    text: str = Field(sa_type=Text)
    """YAML as it was sent, with its comments."""
    is_archived: bool = Field(default=False, sa_column_kwargs={"server_default": false()})
    created_by: str
    created_at: datetime = now_column()
