"""Files that a claim leaves beside its answers: stored first, then referenced behind the fence."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Literal

from vlmhyperbench.db import artifacts
from vlmhyperbench.db.engine import AsyncSession
from vlmhyperbench.worker.claims import ClaimedJob


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimFile:
    """A file of which every claim may leave one."""

    kind: Literal["resources", "reuse"]
    suffix: str
    media_type: str


RESOURCES = ClaimFile(kind="resources", suffix="parquet", media_type="application/vnd.apache.parquet")
REUSE = ClaimFile(kind="reuse", suffix="jsonl", media_type="application/x-ndjson")


@asynccontextmanager
async def keep_file(job: ClaimedJob, file: ClaimFile, data: bytes) -> AsyncIterator[AsyncSession]:
    """Store a file of a claim and yield the transaction that references it; what goes with it is written there too.

    Raises:
        Unavailable: storage is full or away.
        Fenced: the claim is lost; nothing was written.
    """
    key = f"runs/{job.run_id}/{file.kind}/{job.claim_id}.{file.suffix}"
    stored = await asyncio.to_thread(job.runtime.storage.put, key, data, media_type=file.media_type)
    async with job.transaction() as session:
        yield session
        await artifacts.add(
            session,
            project_id=job.job.project_id,
            run_id=job.run_id,
            claim_id=job.claim_id,
            kind=file.kind,
            name=f"{file.kind}-{job.claim_id}.{file.suffix}",
            media_type=file.media_type,
            storage_key=stored.key,
            sha256=stored.sha256,
            size_bytes=stored.size_bytes,
        )
