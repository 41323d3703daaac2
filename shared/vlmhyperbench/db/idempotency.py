"""Idempotency keys: a repeated key returns the resource of its first use, unless the body differs."""

from __future__ import annotations

from typing import Any, Literal
from uuid import UUID

from sqlalchemy import Row, Select, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession

from vlmhyperbench.db.queries import table_of
from vlmhyperbench.db.tables import IdempotencyKeyRow
from vlmhyperbench.errors import Conflict

_KEY = table_of(IdempotencyKeyRow)


async def known(session: AsyncSession, *, principal: str, key: str, body_sha256: str) -> UUID | None:
    """Return the id of the resource that was created with a key; None if the key was not used.

    Raises:
        Conflict: the key was used with another body.
    """
    row = (await session.execute(_row(principal, key))).one_or_none()
    return None if row is None else _resource_of(row, body_sha256)


async def claim(
    session: AsyncSession,
    *,
    principal: str,
    key: str,
    body_sha256: str,
    resource: Literal["run", "experiment"],
    resource_id: UUID,
) -> UUID:
    """Claim a key for the resource that this transaction creates; return its id, or that of the key's first resource.

    A second request with the same key waits here until the transaction of the first one has ended.

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
        return resource_id
    return _resource_of((await session.execute(_row(principal, key))).one(), body_sha256)


def _row(principal: str, key: str) -> Select[Any]:
    return select(_KEY).where(_KEY.c.principal == principal, _KEY.c.key == key)


def _resource_of(row: Row[Any], body_sha256: str) -> UUID:
    if row.body_sha256 != body_sha256:
        raise Conflict(
            "This idempotency key was used with another body.",
            cure="Send a new key, or the body of the first request.",
            code="idempotency_conflict",
        )
    resource_id: UUID = row.resource_id
    return resource_id
