"""Registry entries made through the API: versions are added and read, never changed."""

from __future__ import annotations

from sqlalchemy import ColumnElement, func, select
from sqlalchemy.dialects.postgresql import distinct_on, insert
from sqlalchemy.ext.asyncio import AsyncSession

from vlmhyperbench.db.queries import fetch_all, fetch_one, table_of
from vlmhyperbench.db.tables import RegistryEntryRow
from vlmhyperbench.db.views import RegistryEntryView

_ENTRY = table_of(RegistryEntryRow)


async def add(
    session: AsyncSession,
    *,
    project_id: str,
    kind: str,
    name: str,
    revision: int,
    version: str,
    digest: str,
    text: str,
    created_by: str,
    is_archived: bool = False,
) -> RegistryEntryView | None:
    """Add a version; None if another writer has added this revision before."""
    statement = insert(_ENTRY).values(
        project_id=project_id,
        kind=kind,
        name=name,
        revision=revision,
        version=version,
        digest=digest,
        text=text,
        is_archived=is_archived,
        created_by=created_by,
    )
    return await fetch_one(session, RegistryEntryView, statement.on_conflict_do_nothing().returning(*_ENTRY.c))


async def newest(session: AsyncSession, project_id: str, kind: str, name: str) -> RegistryEntryView | None:
    """Read the newest version of an entry; None if there is none."""
    statement = select(_ENTRY).where(*_is(project_id, kind, name)).order_by(_ENTRY.c.revision.desc()).limit(1)
    return await fetch_one(session, RegistryEntryView, statement)


async def at(
    session: AsyncSession, project_id: str, kind: str, name: str, *, revision: int
) -> RegistryEntryView | None:
    """Read one version of an entry; None if there is none."""
    statement = select(_ENTRY).where(*_is(project_id, kind, name), _ENTRY.c.revision == revision)
    return await fetch_one(session, RegistryEntryView, statement)


async def versions(session: AsyncSession, project_id: str, kind: str, name: str) -> list[RegistryEntryView]:
    """Read all versions of an entry, newest first."""
    statement = select(_ENTRY).where(*_is(project_id, kind, name)).order_by(_ENTRY.c.revision.desc())
    return await fetch_all(session, RegistryEntryView, statement)


async def current(session: AsyncSession, project_id: str) -> list[RegistryEntryView]:
    """Read the newest version of every entry of a project, archived ones too."""
    statement = (
        select(_ENTRY)
        .ext(distinct_on(_ENTRY.c.kind, _ENTRY.c.name))
        .where(_ENTRY.c.project_id == project_id)
        .order_by(_ENTRY.c.kind, _ENTRY.c.name, _ENTRY.c.revision.desc())
    )
    return await fetch_all(session, RegistryEntryView, statement)


async def count(session: AsyncSession, project_id: str) -> int:
    """Count the versions of a project: rows are only added, so an equal count means that nothing has changed."""
    counted = await session.scalar(select(func.count()).select_from(_ENTRY).where(_ENTRY.c.project_id == project_id))
    return counted or 0


def _is(project_id: str, kind: str, name: str) -> tuple[ColumnElement[bool], ...]:
    return (_ENTRY.c.project_id == project_id, _ENTRY.c.kind == kind, _ENTRY.c.name == name)
