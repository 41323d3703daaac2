"""Saved views: the filters of a page under a name, for one principal of a project."""

from __future__ import annotations

from sqlalchemy import delete, func, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession

from vlmhyperbench.db.queries import fetch_all, table_of
from vlmhyperbench.db.tables import SavedViewRow
from vlmhyperbench.db.views import SavedViewView, view_of

_VIEW = table_of(SavedViewRow)


async def of_principal(session: AsyncSession, project_id: str, principal: str, *, page: str) -> list[SavedViewView]:
    """Read the views of a page, by name."""
    statement = select(_VIEW).where(
        _VIEW.c.project_id == project_id, _VIEW.c.principal == principal, _VIEW.c.page == page
    )
    return await fetch_all(session, SavedViewView, statement.order_by(_VIEW.c.name))


async def save(
    session: AsyncSession, project_id: str, principal: str, *, page: str, name: str, search: str
) -> SavedViewView:
    """Add a view, or replace the filters of the one with this name."""
    own = {"project_id": project_id, "principal": principal, "page": page, "name": name}
    saved = await session.execute(
        insert(_VIEW)
        .values(**own, search=search)
        .on_conflict_do_update(index_elements=list(own), set_={"search": search, "saved_at": func.now()})
        .returning(*_VIEW.c)
    )
    return view_of(SavedViewView, saved.one())


async def remove(session: AsyncSession, project_id: str, principal: str, *, page: str, name: str) -> bool:
    """Remove a view and return whether there was one."""
    removed = await session.execute(
        delete(_VIEW)
        .where(
            _VIEW.c.project_id == project_id,
            _VIEW.c.principal == principal,
            _VIEW.c.page == page,
            _VIEW.c.name == name,
        )
        .returning(_VIEW.c.name)
    )
    return removed.one_or_none() is not None
