"""Files that a claim leaves beside its answers: stored first, then referenced behind the fence."""

from __future__ import annotations

import asyncio

from vlmhyperbench.db import artifacts
from vlmhyperbench.db.artifacts import ArtifactKind
from vlmhyperbench.db.engine import AsyncSession
from vlmhyperbench.storage import Stored
from vlmhyperbench.worker.claims import ClaimedJob

PARQUET = "application/vnd.apache.parquet"
JSON_LINES = "application/x-ndjson"


async def store(job: ClaimedJob, key: str, data: bytes, *, media_type: str) -> Stored:
    """Store a file of a run; the key contains the claim.

    Raises:
        Unavailable: storage is full or away.
    """
    return await asyncio.to_thread(job.runtime.storage.put, f"runs/{job.run_id}/{key}", data, media_type=media_type)


async def add(
    session: AsyncSession, job: ClaimedJob, stored: Stored, *, kind: ArtifactKind, name: str, media_type: str
) -> None:
    """Reference a stored file; the caller holds the job by its claim."""
    await artifacts.add(
        session,
        project_id=job.job.project_id,
        run_id=job.run_id,
        claim_id=job.claim_id,
        kind=kind,
        name=name,
        media_type=media_type,
        storage_key=stored.key,
        sha256=stored.sha256,
        size_bytes=stored.size_bytes,
    )
