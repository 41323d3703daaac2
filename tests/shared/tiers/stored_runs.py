"""Finished runs whose rows and chunks are stored, for tests of tiers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from uuid import UUID

import polars
from sqlalchemy import text

from tests.support.builders import Shard, add_run, add_shard, chunk_frame, new_fact, store_chunk
from vlmhyperbench.db import failures, reuse, tallies
from vlmhyperbench.db.appending import append
from vlmhyperbench.db.engine import AsyncSession, Database
from vlmhyperbench.db.failures import FailureCounts
from vlmhyperbench.db.results import ResultRow, Wanted
from vlmhyperbench.db.tallies import Tally
from vlmhyperbench.db.views import NewFact, ReusedFactView
from vlmhyperbench.domain.states import FactStatus
from vlmhyperbench.facts.pages import read_page
from vlmhyperbench.facts.read import read_facts
from vlmhyperbench.storage import Storage

ERRORS = {2: "timeout after 31 s", 5: "timeout after 7 s", 6: "bad \\N gateway, ÄÖ\t"}
"""Ordinal of a request that failed → its error."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Everything:
    """All that readers get of a run's rows."""

    facts: polars.DataFrame
    pages: list[list[ResultRow]]
    failures: FailureCounts
    tally: Tally


async def answered(
    database: Database, storage: Storage, folder: Path, *, rows: int = 9, chunks: int = 3, is_finished: bool = True
) -> Shard:
    """Make a run of one accuracy phase with a few failed requests, in several chunks."""
    async with database.transaction() as session:
        shard = await add_shard(session, run=await add_run(session), end=rows)
    for no in range(chunks):
        ordinals = list(range(no, rows, chunks))
        frame = chunk_frame([f"answer {ordinal}" for ordinal in ordinals], ordinals=ordinals)
        chunk = store_chunk(storage, folder, frame, run_id=shard.run.id, claim_id=shard.claim_id, no=no)
        facts = [_fact(ordinal, row) for row, ordinal in enumerate(ordinals)]
        async with database.transaction() as session:
            assert await append(session, job_id=shard.job_id, claim_id=shard.claim_id, chunk=chunk, rows=facts)
    if is_finished:
        await finish(database, shard.run.id)
    return shard


async def finish(database: Database, run_id: UUID) -> None:
    """End a run and its phases, as the scheduler does."""
    async with database.transaction() as session:
        await session.execute(text("UPDATE phase SET state = 'COMPLETE' WHERE run_id = :run"), {"run": run_id})
        await session.execute(
            text("UPDATE run SET state = 'SUCCEEDED', finished_at = now() WHERE id = :run"), {"run": run_id}
        )


async def reusing(
    database: Database, source: UUID, *, phase: bool, ordinals: dict[int, int], rows_of: UUID | None = None
) -> UUID:
    """Make a finished run that reuses a whole phase of another run, or single rows: own ordinal → its ordinal.

    `rows_of` is the run that measured the single rows, where that is another one.
    """
    async with database.transaction() as session:
        run = await add_run(session, parent_run_id=source)
        await add_shard(session, run=run, end=20)
        if phase:
            await reuse.add_phase(session, run.id, 1, source_run_id=source, source_phase=1)
        rows = [
            ReusedFactView(
                run_id=run.id,
                phase=1,
                ordinal=own,
                source_run_id=rows_of or source,
                source_phase=1,
                source_ordinal=ordinal,
                is_ok=ordinal not in ERRORS,
            )
            for own, ordinal in ordinals.items()
        ]
        await reuse.add_facts(session, rows)
    await finish(database, run.id)
    return run.id


async def everything(database: Database, storage: Storage, run_id: UUID) -> Everything:
    """Read a run by every way there is: all facts, every kind of page, failures and counts."""
    wanted = [
        Wanted(limit=4),
        Wanted(limit=2, after=(1, 3)),
        Wanted(limit=50, status=FactStatus.ERROR),
        Wanted(limit=3, outcome="answered"),
        Wanted(limit=50, outcome="model_failure"),
        Wanted(limit=50, outcome="infrastructure_failure"),
        Wanted(limit=50, samples=[1, 2, 8]),
        Wanted(limit=50, after=(1, 8)),
    ]
    pages = []
    for query in wanted:
        async with database.snapshot() as session:
            pages.append(await read_page(session, storage, run_id, query))
    async with database.transaction() as session:
        failed = await failures.of_run(session, run_id)
        tally = await _tally(session, run_id)
    return Everything(facts=await read_facts(database, storage, run_id), pages=pages, failures=failed, tally=tally)


def assert_equal(first: Everything, second: Everything) -> None:
    """Compare what two readings gave, down to the last value."""
    assert first.facts.equals(second.facts)
    assert first.facts.schema == second.facts.schema
    assert first.pages == second.pages
    assert (first.failures, first.tally) == (second.failures, second.tally)


async def count(database: Database, run_id: UUID) -> int:
    """Count the rows of a run that are in Postgres."""
    async with database.transaction() as session:
        result = await session.execute(text("SELECT count(*) FROM fact WHERE run_id = :run"), {"run": run_id})
        return int(result.scalar_one())


async def _tally(session: AsyncSession, run_id: UUID) -> Tally:
    return (await tallies.of_runs(session, [run_id])).get(run_id, Tally())


def _fact(ordinal: int, row: int) -> NewFact:
    error = ERRORS.get(ordinal)
    if error is None:
        return replace(new_fact(ordinal, row=row), tpot_ns=ordinal / 7, error_code="" if ordinal == 4 else None)
    failed = new_fact(ordinal, row=row, status=FactStatus.ERROR)
    return replace(failed, error=error, failure="infrastructure" if ordinal == 6 else "model", http_status=504)
