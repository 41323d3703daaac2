"""A zombie is a worker that lost or ended its claim and does not know it. It writes nothing."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from uuid import uuid4

import pytest

from tests.shared.domain.builders_of_jobs import run_spec
from tests.support.engine_room import EngineRoom
from vlmhyperbench.db import artifacts, claims, events, finishing
from vlmhyperbench.db.claims import ClaimRecord
from vlmhyperbench.db.views import NewChunk, NewFact
from vlmhyperbench.domain.outcomes import Complete, Failed, Outcome, Preempted
from vlmhyperbench.domain.states import FactStatus, JobState, PhaseState
from vlmhyperbench.errors import Fenced
from vlmhyperbench.facts.sealing import chunk_key
from vlmhyperbench.runtime import Runtime
from vlmhyperbench.worker.children import CpuChildren
from vlmhyperbench.worker.claims import ClaimedJob, WorkerContext

pytestmark = pytest.mark.anyio

Write = Callable[[ClaimedJob], Awaitable[object]]
SAMPLES = 3
SHA = "0" * 64
TABLES = ("artifact", "chunk", "claim", "event", "fact", "job", "phase", "reservation", "run")


async def claimed(room: EngineRoom, runtime: Runtime) -> ClaimedJob:
    """Claim a shard, open a phase under the claim and write a first row."""
    _, [shard] = await room.shards(run_spec(metrics=(), reports=()), samples=SAMPLES)
    worker_id = await room.add_worker(devices=1)
    attempt = await room.assign(shard.id, worker_id, device=0)
    assert attempt is not None
    held = await room.claim(shard.id, attempt, worker_id)
    assert held is not None
    context = WorkerContext(
        worker_id=worker_id, boot_id=uuid4(), name="w", runtime=runtime, settings=runtime.settings, label={}
    )
    job = ClaimedJob(held.job, claim_id=held.claim_id, context=context, cpu=CpuChildren())
    assert await job.open_phase("warmup", params={}, count=1, is_own=False) == WARMUP
    await append(job, 0)
    return job


WARMUP = 2


async def append(job: ClaimedJob, ordinal: int = 1) -> object:
    key = chunk_key(job.run_id, job.claim_id, 1, ordinal)
    chunk = NewChunk(phase=1, no=ordinal, storage_key=key, sha256=SHA, size_bytes=1, rows=1)
    row = NewFact(ordinal=ordinal, row=0, sample=ordinal, status=FactStatus.OK, request_sha256=SHA)
    return await job.append(chunk, [row])


async def add_artifact(job: ClaimedJob) -> None:
    async with job.transaction() as session:
        await artifacts.add(
            session,
            project_id=job.job.project_id,
            claim_id=job.claim_id,
            kind="resources",
            name="resources.parquet",
            media_type="application/octet-stream",
            storage_key=f"runs/{job.run_id}/{job.claim_id}",
            sha256=SHA,
            size_bytes=1,
            run_id=job.run_id,
        )


async def add_event(job: ClaimedJob) -> None:
    async with job.transaction() as session:
        await events.append(session, stream_id=job.stream_id, type="artifact.ready", data={})


async def open_phase(job: ClaimedJob) -> int:
    return await job.open_phase("baseline", params={}, count=1, is_own=False)


async def open_measured_phase(job: ClaimedJob) -> int:
    return await job.open_phase("single_stream", params={}, count=SAMPLES)


async def close_phase(job: ClaimedJob) -> None:
    await job.close_phase(WARMUP, PhaseState.COMPLETE, count=1)


async def record(job: ClaimedJob) -> None:
    await job.record_claim(ClaimRecord(engine={"name": "zombie"}, machine={"cpu": 1}, sending_until_ns=5, cores=[7]))


async def renew(job: ClaimedJob) -> object:
    async with job.runtime.database.transaction() as session:
        return _held(await claims.renew(session, job_id=job.job.id, claim_id=job.claim_id, lease_s=30))


def finish(outcome: Outcome) -> Write:
    async def write(job: ClaimedJob) -> object:
        async with job.runtime.database.transaction() as session:
            ended = await finishing.finish(session, job_id=job.job.id, claim_id=job.claim_id, outcome=outcome, draw=0.0)
        return _held(ended)

    return write


def _held(result: object) -> object:
    """Raise the same error as `ClaimedJob` if the claim is lost."""
    if result is None:
        raise Fenced("The claim is lost.")
    return result


WRITES: dict[str, Write] = {
    "rows": append,
    "an artifact": add_artifact,
    "an event": add_event,
    "a phase": open_phase,
    "the phase of the job": open_measured_phase,
    "the end of its phase": close_phase,
    "evidence": record,
    "the lease": renew,
    "an end": finish(Complete()),
    "a failure": finish(Failed(code="x", message="x", permanent=True)),
    "a preemption": finish(Preempted()),
}
writes = pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)


async def everything(room: EngineRoom) -> dict[str, object]:
    """Return a digest of each table that a worker writes."""
    return {
        name: await room.scalar(f"SELECT md5(string_agg(one::text, '|' ORDER BY one::text)) FROM {name} one")
        for name in TABLES
    }


@writes
async def test_a_held_claim_can_write(room: EngineRoom, runtime: Runtime, write: Write) -> None:
    job = await claimed(room, runtime)
    before = await everything(room)
    await write(job)
    assert await everything(room) != before


@writes
async def test_a_claim_that_was_lost_to_another_writes_nothing(
    room: EngineRoom, runtime: Runtime, write: Write
) -> None:
    zombie = await claimed(room, runtime)
    await room.let_lease_expire(zombie.job.id)
    await room.reap()
    successor = await room.take(zombie.job.id, await room.add_worker())
    before = await everything(room)
    with pytest.raises(Fenced):
        await write(zombie)
    assert await everything(room) == before
    await room.append(successor, list(range(1, SAMPLES)))
    assert await room.finish(successor, Complete()) is JobState.DONE


@writes
@pytest.mark.parametrize("state", [JobState.DONE, JobState.FAILED, JobState.CANCELLED])
async def test_a_claim_that_has_ended_writes_nothing(
    room: EngineRoom, runtime: Runtime, write: Write, state: JobState
) -> None:
    job = await claimed(room, runtime)
    for ordinal in range(1, SAMPLES):
        await append(job, ordinal)
    if state is JobState.CANCELLED:
        await room.cancel(job.run_id)
    outcome = Failed(code="x", message="x", permanent=True) if state is JobState.FAILED else Complete()
    if state is JobState.CANCELLED:
        outcome = Preempted()
    await finish(outcome)(job)
    assert (await room.job(job.job.id)).state is state
    before = await everything(room)
    with pytest.raises(Fenced):
        await write(job)
    assert await everything(room) == before
