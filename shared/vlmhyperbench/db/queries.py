"""What repositories share: tables as Core objects, statements to views, keyset pages."""

from __future__ import annotations

from datetime import datetime
from typing import Any, NamedTuple, TypeVar
from uuid import UUID

from sqlalchemy import Column, ColumnElement, Executable, Table, tuple_
from sqlalchemy.ext.asyncio import AsyncSession
from sqlmodel import SQLModel

from vlmhyperbench.db.tables import metadata
from vlmhyperbench.db.views import View, view_of

V = TypeVar("V", bound=View)

PAGE_ROWS = 1000
"""No page is longer, whatever is asked for."""


class PageKey(NamedTuple):
    """The last row of a page of things that are listed newest first: the next page begins after it."""

    created_at: datetime
    id: UUID


def table_of(row: type[SQLModel]) -> Table:
    """Return the Core table of a row class: statements on it never meet stale entities of the session."""
    return metadata.tables[str(row.__tablename__)]


async def fetch_one(session: AsyncSession, kind: type[V], statement: Executable) -> V | None:
    """Run a statement that gives at most one row, and copy it."""
    row = (await session.execute(statement)).one_or_none()
    return None if row is None else view_of(kind, row)


async def fetch_all(session: AsyncSession, kind: type[V], statement: Executable) -> list[V]:
    """Run a statement and copy every row."""
    return [view_of(kind, row) for row in await session.execute(statement)]


def after_key(created_at: Column[Any], row_id: Column[Any], key: PageKey | None) -> ColumnElement[bool] | None:
    """Return the condition of the page after `key`, newest first; None on the first page."""
    return None if key is None else tuple_(created_at, row_id) < (key.created_at, key.id)


def page_size(limit: int) -> int:
    """Clamp a page's length."""
    return max(1, min(limit, PAGE_ROWS))
