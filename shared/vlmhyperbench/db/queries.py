"""Helpers of all repositories: tables as Core objects, rows as views, keyset pagination."""

from __future__ import annotations

from datetime import datetime
from typing import Any, NamedTuple, TypeVar
from uuid import UUID

from sqlalchemy import Executable, Select, Table, tuple_
from sqlalchemy.ext.asyncio import AsyncSession
from sqlmodel import SQLModel

from vlmhyperbench.db.tables import metadata
from vlmhyperbench.db.views import View, view_of

V = TypeVar("V", bound=View)

PAGE_ROWS = 1000
"""Maximum length of a page."""


class PageKey(NamedTuple):
    """Position of the last row of a page that is listed newest first; the next page begins after it."""

    created_at: datetime
    id: UUID


def table_of(row: type[SQLModel]) -> Table:
    """Return the Core table of a row class; statements on it bypass the session's cached entities."""
    return metadata.tables[str(row.__tablename__)]


async def fetch_one(session: AsyncSession, kind: type[V], statement: Executable) -> V | None:
    """Run a statement that returns at most one row, and copy the row."""
    row = (await session.execute(statement)).one_or_none()
    return None if row is None else view_of(kind, row)


async def fetch_exactly_one(session: AsyncSession, kind: type[V], statement: Executable) -> V:
    """Read a row that this transaction has written."""
    return view_of(kind, (await session.execute(statement)).one())


async def fetch_all(session: AsyncSession, kind: type[V], statement: Executable) -> list[V]:
    """Run a statement and copy every row."""
    return [view_of(kind, row) for row in await session.execute(statement)]


def newest_first(statement: Select[Any], table: Table, after: PageKey | None, limit: int) -> Select[Any]:
    """Order rows of a table from the newest to the oldest, and limit them to the page that begins after a key."""
    created_at, row_id = table.c.created_at, table.c.id
    if after is not None:
        statement = statement.where(tuple_(created_at, row_id) < (after.created_at, after.id))
    return statement.order_by(created_at.desc(), row_id.desc()).limit(page_size(limit))


def page_size(limit: int) -> int:
    """Limit a page's length to 1 … `PAGE_ROWS`."""
    return max(1, min(limit, PAGE_ROWS))
