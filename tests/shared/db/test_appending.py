from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any
from uuid import uuid4

import pytest
from sqlalchemy import text

from tests.support.builders import Shard, add_shard, new_fact, open_shard, unstored_chunk
from tests.support.processes import PATIENCE_S
from vlmhyperbench.db import chunks, facts, jobs, reuse, runs
from vlmhyperbench.db.appending import Appended, append
from vlmhyperbench.db.engine import Database
from vlmhyperbench.db.views import NewChunk, NewFact, ReusedFactView
from vlmhyperbench.domain.states import FactStatus, JobState
from vlmhyperbench.errors import Conflict, InvalidInput

pytestmark = pytest.mark.anyio


async def _append(
    database: Database, shard: Shard, chunk: NewChunk, rows: list[NewFact], **other: Any
) -> Appended | None:
    async with database.transaction() as session:
        return await append(
            session, **{"job_id": shard.job_id, "claim_id": shard.claim_id, "chunk": chunk, "rows": rows, **other}
        )


async def _facts(database: Database, shard: Shard) -> list[tuple[int, str]]:
    async with database.transaction() as session:
        rows = await session.execute(
            text("SELECT ordinal, status FROM fact WHERE run_id = :run ORDER BY phase, ordinal"), {"run": shard.run.id}
        )
        return [(row.ordinal, row.status) for row in rows]


async def test_a_chunk_is_committed_with_its_rows_counts_and_lease(database: Database) -> None:
    shard = await open_shard(database)
    async with database.transaction() as session:
        await session.execute(text("UPDATE job SET fails = 2, lease_until = now()"))
    rows = [new_fact(3), new_fact(4, row=1, status=FactStatus.ERROR)]
    appended = await _append(database, shard, unstored_chunk(shard, rows=2), rows, lease_s=3600.0)
    assert appended == Appended(done=2, failed=1, cancel_requested=False)
    async with database.transaction() as session:
        fact = await facts.get(session, shard.run.id, 1, 4)
        assert fact is not None
        assert (fact.claim_id, fact.chunk, fact.row) == (shard.claim_id, 0, 1)
        assert (fact.status, fact.failure, fact.tpot_ns) == (FactStatus.ERROR, "model", 1_000_000.0)
        assert [chunk.rows for chunk in await chunks.of_run(session, shard.run.id)] == [2]
        job = await jobs.get(session, shard.job_id)
        assert job is not None
        assert (job.done, job.failed, job.fails) == (2, 1, 0)
        left = await session.execute(
            text("SELECT extract(epoch FROM lease_until - now()) FROM job WHERE id = :id"), {"id": shard.job_id}
        )
        assert 3000 < left.scalar_one() <= 3600


async def test_the_same_chunk_twice_changes_nothing(database: Database) -> None:
    shard = await open_shard(database)
    chunk, rows = unstored_chunk(shard, rows=2), [new_fact(0), new_fact(1, row=1)]
    first = await _append(database, shard, chunk, rows)
    again = await _append(database, shard, chunk, rows)
    assert first == Appended(done=2, failed=0, cancel_requested=False)
    assert again == Appended(done=2, failed=0, cancel_requested=False)


async def test_rows_that_exist_stay_as_they_are(database: Database) -> None:
    shard = await open_shard(database)
    await _append(database, shard, unstored_chunk(shard), [new_fact(0)])
    doubled = [new_fact(0, status=FactStatus.ERROR), new_fact(1, row=1), new_fact(1, row=2)]
    appended = await _append(database, shard, unstored_chunk(shard, no=1, rows=3), doubled)
    assert appended == Appended(done=2, failed=0, cancel_requested=False)
    assert await _facts(database, shard) == [(0, "ok"), (1, "ok")]


async def test_a_wrong_claim_is_fenced_and_writes_nothing(database: Database) -> None:
    shard = await open_shard(database)
    assert await _append(database, shard, unstored_chunk(shard), [new_fact(0)], claim_id=uuid4()) is None
    assert await _facts(database, shard) == []


@pytest.mark.parametrize(
    "state", [JobState.READY, JobState.ASSIGNED, JobState.DONE, JobState.FAILED, JobState.CANCELLED]
)
async def test_a_job_that_no_longer_runs_is_fenced(database: Database, state: JobState) -> None:
    async with database.transaction() as session:
        shard = await add_shard(session, state=state)
    assert await _append(database, shard, unstored_chunk(shard), [new_fact(0)]) is None
    assert await _facts(database, shard) == []


async def test_an_expired_lease_that_was_not_reaped_still_holds(database: Database) -> None:
    shard = await open_shard(database)
    async with database.transaction() as session:
        await session.execute(
            text("UPDATE job SET lease_until = now() - interval '1 hour' WHERE id = :id"), {"id": shard.job_id}
        )
    assert await _append(database, shard, unstored_chunk(shard), [new_fact(0)]) is not None


async def test_the_worker_learns_of_a_cancellation(database: Database) -> None:
    shard = await open_shard(database)
    async with database.transaction() as session:
        await runs.request_cancel(session, shard.run.id)
    appended = await _append(database, shard, unstored_chunk(shard), [new_fact(0)])
    assert appended is not None
    assert appended.cancel_requested


async def test_a_reused_row_is_not_measured_again(database: Database) -> None:
    source, shard = await open_shard(database), await open_shard(database)
    async with database.transaction() as session:
        await reuse.add_facts(
            session,
            [
                ReusedFactView(
                    run_id=shard.run.id,
                    phase=1,
                    ordinal=0,
                    source_run_id=source.run.id,
                    source_phase=1,
                    source_ordinal=0,
                    is_ok=True,
                )
            ],
        )
    appended = await _append(database, shard, unstored_chunk(shard, rows=2), [new_fact(0), new_fact(1, row=1)])
    assert appended == Appended(done=1, failed=0, cancel_requested=False)
    assert await _facts(database, shard) == [(1, "ok")]


async def test_rows_of_another_phase_do_not_count_as_the_jobs_own(database: Database) -> None:
    async with database.transaction() as session:
        shard = await add_shard(session)
        await add_shard(session, run=shard.run, phase=2, kind="warmup")
    chunk = unstored_chunk(shard)
    warmup = NewChunk(phase=2, no=0, storage_key="x", sha256=chunk.sha256, size_bytes=1, rows=1)
    appended = await _append(database, shard, warmup, [new_fact(500)])
    assert appended == Appended(done=0, failed=0, cancel_requested=False)
    assert await _facts(database, shard) == [(500, "ok")]


async def test_an_ordinal_outside_the_range_is_refused(database: Database) -> None:
    shard = await open_shard(database, end=10)
    with pytest.raises(InvalidInput, match="Ordinal 10 "):
        await _append(database, shard, unstored_chunk(shard), [new_fact(9), new_fact(10)])
    assert await _facts(database, shard) == []


@pytest.mark.parametrize("state", ["COMPLETE", "STOPPED", "VOID"])
async def test_a_closed_phase_takes_no_rows(database: Database, state: str) -> None:
    shard = await open_shard(database)
    async with database.transaction() as session:
        await session.execute(
            text("UPDATE phase SET state = :state WHERE run_id = :run"), {"state": state, "run": shard.run.id}
        )
    with pytest.raises(Conflict, match=state):
        await _append(database, shard, unstored_chunk(shard), [new_fact(0)])


async def test_a_phase_of_another_claim_takes_no_rows(database: Database) -> None:
    shard = await open_shard(database)
    async with database.transaction() as session:
        await session.execute(
            text("UPDATE phase SET claim_id = :claim WHERE run_id = :run"), {"claim": uuid4(), "run": shard.run.id}
        )
    with pytest.raises(Conflict):
        await _append(database, shard, unstored_chunk(shard), [new_fact(0)])


async def test_a_number_of_a_chunk_is_used_once(database: Database) -> None:
    shard = await open_shard(database)
    await _append(database, shard, unstored_chunk(shard), [new_fact(0)])
    with pytest.raises(Conflict, match="chunk 1-0"):
        await _append(database, shard, unstored_chunk(shard, sha256="b" * 64), [new_fact(1)])
    assert await _facts(database, shard) == [(0, "ok")]


async def test_a_number_that_is_not_finite_is_refused(database: Database) -> None:
    shard = await open_shard(database)
    with pytest.raises(InvalidInput, match="finite"):
        await _append(database, shard, unstored_chunk(shard), [replace(new_fact(0), tpot_ns=float("nan"))])


async def test_chunks_that_are_appended_at_once_count_every_row_once(database: Database) -> None:
    shard = await open_shard(database, end=80)

    async def one(no: int) -> Appended | None:
        rows = [new_fact(ordinal, row=row) for row, ordinal in enumerate(range(no * 10, no * 10 + 15)) if ordinal < 80]
        return await _append(database, shard, unstored_chunk(shard, no=no, rows=len(rows)), rows)

    results = await asyncio.gather(*(one(no) for no in range(8)))
    assert max(result.done for result in results if result) == 80
    assert [ordinal for ordinal, _ in await _facts(database, shard)] == list(range(80))


async def test_closing_a_phase_waits_for_rows_that_are_being_appended(database: Database) -> None:
    shard = await open_shard(database)
    closing = asyncio.Event()

    async def close() -> int:
        await closing.wait()
        async with database.transaction() as session:
            await session.execute(text("UPDATE phase SET state = 'STOPPED' WHERE run_id = :run"), {"run": shard.run.id})
            counted = await session.execute(
                text("SELECT count(*) FROM fact WHERE run_id = :run"), {"run": shard.run.id}
            )
            return int(counted.scalar_one())

    async with asyncio.TaskGroup() as group:
        closed = group.create_task(close())
        async with database.transaction() as session:
            await append(
                session,
                job_id=shard.job_id,
                claim_id=shard.claim_id,
                chunk=unstored_chunk(shard),
                rows=[new_fact(0)],
            )
            closing.set()
            await _until_blocked(database)
    assert closed.result() == 1


async def _until_blocked(database: Database) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while True:
            async with database.transaction() as session:
                waiting = await session.execute(text("SELECT count(*) FROM pg_locks WHERE NOT granted"))
                if waiting.scalar_one():
                    return
