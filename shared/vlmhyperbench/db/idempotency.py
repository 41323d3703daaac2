"""Idempotency keys: the same key and body answer with the same thing, another body is a conflict."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal
from uuid import UUID

from sqlalchemy import select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession

from vlmhyperbench.db.queries import table_of
from vlmhyperbench.db.tables import IdempotencyKeyRow
from vlmhyperbench.errors import Conflict

_KEY = table_of(IdempotencyKeyRow)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyClaim:
    """What a key stands for; `is_new` says that this transaction took it, and must now make the thing."""

    resource: str
    resource_id: UUID
    is_new: bool


async def claim(
    session: AsyncSession,
    *,
    principal: str,
    key: str,
    body_sha256: str,
    resource: Literal["run", "experiment"],
    resource_id: UUID,
) -> KeyClaim:
    """Take a key for a thing that this transaction is about to make, or learn what it was taken for before.

    A second request with the same key waits here until the first one's transaction has ended.

    Raises:
        Conflict: the key was used with another body.
    """
    taken = await session.execute(
        insert(_KEY)
        .values(principal=principal, key=key, body_sha256=body_sha256, resource=resource, resource_id=resource_id)
        .on_conflict_do_nothing()
        .returning(_KEY.c.resource_id)
    )
    if taken.one_or_none() is not None:
        return KeyClaim(resource=resource, resource_id=resource_id, is_new=True)
    known = (await session.execute(select(_KEY).where(_KEY.c.principal == principal, _KEY.c.key == key))).one()
    if known.body_sha256 != body_sha256:
        raise Conflict(
            "This idempotency key was used with another body.",
            cure="Send a new key, or the body of the first request.",
            code="idempotency_conflict",
        )
    return KeyClaim(resource=known.resource, resource_id=known.resource_id, is_new=False)
