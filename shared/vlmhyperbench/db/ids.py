"""Look up runs, experiments and artifacts by the first digits of their ids."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import get_args
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncSession

from vlmhyperbench.domain.short_ids import NamedKind

KINDS: tuple[NamedKind, ...] = get_args(NamedKind)


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """A run, experiment or artifact."""

    kind: NamedKind
    id: UUID
    name: str


async def between(
    session: AsyncSession, first: UUID, last: UUID, *, project_id: str, kinds: Collection[NamedKind], limit: int
) -> list[Named]:
    """Read what a project has with ids from `first` to `last`, newest first."""
    values = {"first": first, "last": last, "project": project_id, "kinds": list(kinds), "limit": limit}
    rows = await session.execute(text(_BETWEEN), values)
    return [Named(kind=row.kind, id=row.id, name=row.name) for row in rows]


_BETWEEN = " UNION ALL ".join(
    f"SELECT '{kind}' AS kind, id, name, created_at FROM {kind} "  # noqa: S608 - consists of the literal `NamedKind`
    f"WHERE '{kind}' = ANY(:kinds) AND project_id = :project AND id BETWEEN :first AND :last"
    for kind in KINDS
)
_BETWEEN += " ORDER BY created_at DESC, id LIMIT :limit"
