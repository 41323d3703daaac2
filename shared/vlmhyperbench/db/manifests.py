"""Sample manifests: stored by content hash, shared by all runs of the same dataset."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession

from vlmhyperbench.db.queries import fetch_exactly_one, fetch_one, table_of
from vlmhyperbench.db.tables import SampleManifestRow
from vlmhyperbench.db.views import SampleManifestView

_MANIFEST = table_of(SampleManifestRow)


async def add(
    session: AsyncSession,
    *,
    manifest_id: str,
    dataset_digest: str,
    storage_key: str,
    size_bytes: int,
    samples: int,
    unreadable: int,
    group_columns: Sequence[str],
) -> SampleManifestView:
    """Add a manifest, or return the existing one with the same content."""
    await session.execute(
        insert(_MANIFEST)
        .values(
            id=manifest_id,
            dataset_digest=dataset_digest,
            storage_key=storage_key,
            size_bytes=size_bytes,
            samples=samples,
            unreadable=unreadable,
            group_columns=list(group_columns),
        )
        .on_conflict_do_nothing()
    )
    return await fetch_exactly_one(session, SampleManifestView, select(_MANIFEST).where(_MANIFEST.c.id == manifest_id))


async def get(session: AsyncSession, manifest_id: str) -> SampleManifestView | None:
    """Read a manifest's row."""
    return await fetch_one(session, SampleManifestView, select(_MANIFEST).where(_MANIFEST.c.id == manifest_id))


async def of_dataset(session: AsyncSession, dataset_digest: str) -> SampleManifestView | None:
    """Read the newest manifest of a dataset spec."""
    return await fetch_one(
        session,
        SampleManifestView,
        select(_MANIFEST)
        .where(_MANIFEST.c.dataset_digest == dataset_digest)
        .order_by(_MANIFEST.c.created_at.desc(), _MANIFEST.c.id)
        .limit(1),
    )
