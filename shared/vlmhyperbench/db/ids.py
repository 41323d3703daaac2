"""What there is under an id of which only the first digits are known."""

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
    """One thing with an id."""

    kind: NamedKind
    id: UUID
    name: str


async def between(
    session: AsyncSession, first: UUID, last: UUID, *, project_id: str, kinds: Collection[NamedKind], limit: int
) -> list[Named]:
    """Find a project's things whose ids lie between two, the newest first."""
    values = {"first": first, "last": last, "project": project_id, "kinds": list(kinds), "limit": limit}
    found = await session.execute(text(_BETWEEN), values)
    return [Named(kind=row.kind, id=row.id, name=row.name) for row in found]


_BETWEEN = " UNION ALL ".join(
    f"SELECT '{kind}' AS kind, id, name, created_at FROM {kind} "  # noqa: S608 - the names stand above
    f"WHERE '{kind}' = ANY(:kinds) AND project_id = :project AND id BETWEEN :first AND :last"
    for kind in KINDS
)
_BETWEEN += " ORDER BY created_at DESC, id LIMIT :limit"
