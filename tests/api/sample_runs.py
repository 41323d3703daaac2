"""Runs with samples, answers and scores in storage, as workers leave them."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Sequence
from pathlib import Path
from uuid import UUID

import polars
from sqlalchemy import update
from sqlalchemy.ext.asyncio import AsyncSession

from tests.api.conftest import Served
from tests.support.builders import Shard, add_run, add_shard, chunk_frame, new_fact, run_spec, store_chunk
from vlmhyperbench.data import manifest
from vlmhyperbench.data.images import ImageInfo
from vlmhyperbench.data.manifest import ManifestSample
from vlmhyperbench.db import manifests, measures, runs
from vlmhyperbench.db.appending import append
from vlmhyperbench.db.queries import table_of
from vlmhyperbench.db.tables import RunRow
from vlmhyperbench.domain.specs import MetricSpec
from vlmhyperbench.domain.states import FactStatus

KINDS = ("receipt", "invoice", "passport")
IMAGE = ImageInfo(
    sha256=hashlib.sha256(b"picture").hexdigest(), media_type="image/png", width=4, height=2, size_bytes=7
)


async def answered_run(
    api: Served,
    folder: Path,
    answers: Sequence[str | None],
    *,
    right: Sequence[bool],
    project: str = "default",
    events: int = 2,
    later: int = 0,
) -> UUID:
    """Make a run whose sample n was answered with text n, or failed where that is None; `later` more are not yet."""
    async with api.database.transaction() as session:
        metric = MetricSpec(name="exact_match", profile="v1", version="1.0.0", class_path="exact_match")
        spec = run_spec().model_copy(update={"metrics": (metric,)})
        run = await add_run(session, spec=spec, project_id=project)
        shard = await add_shard(session, run=run, end=len(answers))
        await _add_manifest(session, api, shard, len(answers) + later)
        texts = [text or "" for text in answers]
        chunk = store_chunk(
            api.storage, folder, chunk_frame(texts, events=events), run_id=run.id, claim_id=shard.claim_id, no=0
        )
        rows = [
            new_fact(number, row=number, status=FactStatus.OK if text is not None else FactStatus.ERROR)
            for number, text in enumerate(answers)
        ]
        await append(session, job_id=shard.job_id, claim_id=shard.claim_id, chunk=chunk, rows=rows)
        await _add_measures(session, api, shard, answers, right)
    return run.id


async def answer_more(api: Served, folder: Path, run_id: UUID, answers: Sequence[str], *, first: int) -> None:
    """Add the answers of another shard of a run, from the sample `first` on."""
    ordinals = [first + place for place in range(len(answers))]
    async with api.database.transaction() as session:
        run = await runs.get(session, run_id)
        shard = await add_shard(session, run=run, start=first, end=first + len(answers))
        frame = chunk_frame(list(answers), ordinals=ordinals)
        chunk = store_chunk(api.storage, folder, frame, run_id=run_id, claim_id=shard.claim_id, no=0)
        rows = [new_fact(ordinal, row=place) for place, ordinal in enumerate(ordinals)]
        await append(session, job_id=shard.job_id, claim_id=shard.claim_id, chunk=chunk, rows=rows)


async def _add_manifest(session: AsyncSession, api: Served, shard: Shard, samples: int) -> None:
    asked = [
        ManifestSample(
            index=number,
            key=f"key-{number}",
            question=f"question {number}?",
            references=(f"reference {number}",),
            images=(IMAGE,),
            metadata={"doc_class": KINDS[number % 3], "boxes": [[0, 0, 1, 1]]},
        )
        for number in range(samples)
    ]
    api.storage.put(IMAGE.storage_key, b"picture")
    manifest_id, data = manifest.write(asked)
    stored = api.storage.put(manifest.manifest_key(manifest_id), data)
    await manifests.add(
        session,
        manifest_id=manifest_id,
        dataset_digest="d",
        storage_key=stored.key,
        size_bytes=stored.size_bytes,
        samples=samples,
        unreadable=0,
        group_columns=["doc_class"],
    )
    run = table_of(RunRow)
    await session.execute(update(run).where(run.c.id == shard.run.id).values(manifest_id=manifest_id, total=samples))


async def _add_measures(
    session: AsyncSession, api: Served, shard: Shard, answers: Sequence[str | None], right: Sequence[bool]
) -> None:
    count, buffer = len(answers), io.BytesIO()
    values = [float(is_right) if text is not None else None for text, is_right in zip(answers, right, strict=True)]
    frame = polars.DataFrame(
        {
            "phase": [1] * count,
            "ordinal": range(count),
            "field": [None] * count,
            "extractor": ["text@1"] * count,
            "outcome": ["scored" if value is not None else "infrastructure_failure" for value in values],
            "value": values,
            "reason": [None if value is not None else "it failed" for value in values],
            "is_invalid": [False] * count,
            "stat.matched": [value or 0.0 for value in values],
        },
        schema_overrides={"phase": polars.Int32, "field": polars.String, "reason": polars.String},
    )
    frame.write_parquet(buffer)
    stored = api.storage.put(f"runs/{shard.run.id}/measures/{shard.claim_id}/0.parquet", buffer.getvalue())
    identity = {"name": "exact_match", "profile": "v1", "version": "1.0.0", "extractor": "text@1"}
    await measures.add(
        session,
        run_id=shard.run.id,
        claim_id=shard.claim_id,
        no=0,
        job_id=shard.job_id,
        storage_key=stored.key,
        sha256=stored.sha256,
        size_bytes=stored.size_bytes,
        rows=count,
        metrics=[identity],
        environment="e",
        evaluation_id="e0123456789ab",
        fingerprint=None,
    )
