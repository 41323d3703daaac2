"""Builders of specs and rows with defaults: a test names only what it is about."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import polars
from sqlalchemy import insert
from sqlalchemy.ext.asyncio import AsyncSession

from vlmhyperbench.db import phases, runs, workers
from vlmhyperbench.db.engine import Database
from vlmhyperbench.db.queries import table_of
from vlmhyperbench.db.tables import JobRow
from vlmhyperbench.db.views import NewChunk, NewFact, RunView
from vlmhyperbench.domain.specs import DatasetSpec, EndpointTarget, MetricSpec, PromptSpec, RunSpec
from vlmhyperbench.domain.states import FactStatus, JobState
from vlmhyperbench.domain.steps import StepKind, WorkerKind
from vlmhyperbench.facts.schema import polars_schema, write_chunk
from vlmhyperbench.facts.sealing import chunk_key
from vlmhyperbench.storage import Storage
from vlmhyperbench_sdk.load import PhaseKind

PROJECT = "default"
SHA = "a" * 64


def run_spec(*, model_name: str = "tiny", seed: int = 0) -> RunSpec:
    """Make a small valid spec."""
    return RunSpec(
        target=EndpointTarget(endpoint="http://127.0.0.1:9/v1", model_name=model_name),
        task="document-qa",
        task_version="1.0.0",
        dataset=DatasetSpec(name="documents", version="1.0.0", type="synthetic_documents", seed=seed),
        prompt=PromptSpec(name="plain", version="1.0.0"),
        metrics=(MetricSpec(name="exact_match", profile="default", version="1.0.0", class_path="exact_match"),),
    )


async def add_run(
    session: AsyncSession,
    *,
    name: str = "run",
    spec: RunSpec | None = None,
    project_id: str = PROJECT,
    experiment_id: UUID | None = None,
    parent_run_id: UUID | None = None,
    position: int = 0,
) -> RunView:
    """Add a QUEUED run."""
    return await runs.add(
        session,
        project_id=project_id,
        created_by="tester",
        name=name,
        spec=spec or run_spec(),
        experiment_id=experiment_id,
        parent_run_id=parent_run_id,
        position=position,
    )


async def add_worker(session: AsyncSession, *, name: str = "worker", kind: WorkerKind = "inference") -> UUID:
    """Register a worker with one CPU slot."""
    worker_id = uuid4()
    await workers.register(
        session,
        worker_id=worker_id,
        name=f"{name}-{worker_id}",
        kind=kind,
        queue=f"{kind}.{worker_id}",
        host="host",
        boot_id=uuid4(),
        pid=1,
        slots=1,
        version="0.1.0",
        devices=[workers.NewDevice(no=0, kind="cpu", uuid="cpu", name="CPU", memory_bytes=1)],
    )
    return worker_id


@dataclass(frozen=True, slots=True, kw_only=True)
class Shard:
    """A RUNNING GENERATE job with its claim, on an open accuracy phase."""

    run: RunView
    job_id: UUID
    claim_id: UUID
    phase: int


async def add_shard(
    session: AsyncSession,
    *,
    run: RunView | None = None,
    phase: int = 1,
    kind: PhaseKind = "accuracy",
    start: int = 0,
    end: int = 100,
    state: JobState = JobState.RUNNING,
    step: StepKind = StepKind.GENERATE,
    params: Mapping[str, str] | None = None,
) -> Shard:
    """Add a shard that a worker has claimed; the phase is opened where it does not exist."""
    owner = run or await add_run(session)
    if await phases.get(session, owner.id, phase) is None:
        await phases.add(
            session, run_id=owner.id, no=phase, step=1, kind=kind, counts=True, params=dict(params or {}), count=end
        )
    worker_id = await add_worker(session)
    job_id, claim_id = uuid4(), uuid4()
    await session.execute(
        insert(table_of(JobRow)).values(
            id=job_id,
            kind=step.value,
            step=1,
            counts=True,
            scope="run",
            run_id=owner.id,
            project_id=owner.project_id,
            state=state.value,
            needs=[],
            needs_state="DONE",
            phase=phase,
            range_start=start,
            range_end=end,
            target_digest=owner.pinned_spec().target_digest,
            params=dict(params or {}),
            priority=0,
            attempt_id=uuid4(),
            attempts=1,
            claim_id=claim_id,
            worker_id=worker_id,
            lease_until=datetime.now(UTC) + timedelta(seconds=30),
            fails=0,
            done=0,
            failed=0,
        )
    )
    return Shard(run=owner, job_id=job_id, claim_id=claim_id, phase=phase)


def new_fact(ordinal: int, *, row: int = 0, status: FactStatus = FactStatus.OK, sample: int | None = None) -> NewFact:
    """Make the narrow row of one request that took 20 ms."""
    return NewFact(
        ordinal=ordinal,
        row=row,
        sample=ordinal if sample is None else sample,
        status=status,
        request_sha256=SHA,
        failure=None if status is FactStatus.OK else "model",
        error_code=None if status is FactStatus.OK else "timeout",
        finish_reason="stop",
        scheduled_ns=0,
        sent_ns=0,
        queue_ns=0,
        ttft_user_ns=10_000_000,
        ttft_service_ns=10_000_000,
        tpot_ns=1_000_000.0,
        latency_ns=20_000_000,
        stream_end_ns=21_000_000,
        completion_tokens=11,
        token_source="usage",
    )


def chunk_frame(
    texts: list[str], *, ordinals: list[int] | None = None, phase: int = 1, events: int = 2
) -> polars.DataFrame:
    """Make a chunk's frame: one answered request per text, each with so many token events."""
    schema = polars_schema()
    empty: dict[str, object] = {name: [] if "List" in str(kind) else None for name, kind in schema.items()}
    rows = []
    for place, content in enumerate(texts):
        ordinal = place if ordinals is None else ordinals[place]
        rows.append(
            empty
            | {
                "phase": phase,
                "ordinal": ordinal,
                "sample": ordinal,
                "repeat": 0,
                "turn": 0,
                "member": 0,
                "stream": 0,
                "scheduled_ns": 0,
                "status": "ok",
                "tries": 1,
                "request_sha256": SHA,
                "text": content,
                "event_ns": [10 * (no + 1) for no in range(events)],
                "event_tokens": [1] * events,
                "event_kind": ["content"] * events,
                "user_prompt": "What?",
            }
        )
    return polars.DataFrame(rows, schema=schema)


def store_chunk(
    storage: Storage,
    folder: Path,
    frame: polars.DataFrame,
    *,
    run_id: UUID,
    claim_id: UUID,
    phase: int = 1,
    no: int = 0,
) -> NewChunk:
    """Write a chunk to storage as a sink does."""
    path = folder / f"{uuid4()}.parquet"
    write_chunk(frame, path)
    stored = storage.put(chunk_key(run_id, claim_id, phase, no), path)
    return NewChunk(
        phase=phase,
        no=no,
        storage_key=stored.key,
        sha256=stored.sha256,
        size_bytes=stored.size_bytes,
        rows=frame.height,
    )


def unstored_chunk(shard: Shard, *, no: int = 0, rows: int = 1, sha256: str = SHA) -> NewChunk:
    """Make the manifest of a chunk that nobody will read."""
    key = chunk_key(shard.run.id, shard.claim_id, shard.phase, no)
    return NewChunk(phase=shard.phase, no=no, storage_key=key, sha256=sha256, size_bytes=1, rows=rows)


async def open_shard(database: Database, *, end: int = 100) -> Shard:
    """Add a shard in a transaction of its own."""
    async with database.transaction() as session:
        return await add_shard(session, end=end)


def shown_run(**changes: object) -> dict[str, Any]:
    """Return a run as the API shows it in a list, finished and without a report."""
    fields: dict[str, Any] = {
        "id": "1f0c3a9e-0000-4000-8000-000000000001",
        "experiment_id": None,
        "parent_run_id": None,
        "name": "mine",
        "state": "SUCCEEDED",
        "reason": None,
        "target": "m",
        "task": "t",
        "scenario": "offline",
        "spec_digest": "0" * 64,
        "priority": 0,
        "is_paused": False,
        "is_cancelling": False,
        "stopping": None,
        "total": 10,
        "done": 10,
        "failed": 1,
        "event_seq": 1,
        "created_by": "me",
        "created_at": "2026-01-01T00:00:00Z",
        "started_at": None,
        "finished_at": "2026-01-01T00:00:00Z",
    }
    return fields | changes
