"""The tally of a run has its measured and its reused rows, each once."""

from __future__ import annotations

from uuid import UUID

import pytest
from sqlalchemy import insert

from tests.shared.domain.builders_of_jobs import run_spec
from tests.support.engine_room import EngineRoom, Held
from vlmhyperbench.db import claims, facts, failures, phases, reuse, tallies
from vlmhyperbench.db.engine import Database
from vlmhyperbench.db.queries import table_of
from vlmhyperbench.db.tables import ReusedFactRow
from vlmhyperbench.db.tallies import Tally
from vlmhyperbench.domain.outcomes import Complete
from vlmhyperbench.domain.states import FactStatus, PhaseState
from vlmhyperbench_sdk.load import PhaseKind

pytestmark = pytest.mark.anyio


@pytest.fixture
def room(fresh_database: Database) -> EngineRoom:
    return EngineRoom(fresh_database)


async def tally(room: EngineRoom, *run_ids: UUID) -> dict[UUID, Tally]:
    async with room.database.transaction() as session:
        return await tallies.of_runs(session, run_ids)


async def answered(room: EngineRoom, ordinals: list[int], *, errors: int = 0) -> tuple[UUID, Held]:
    """Make a run of four samples, some of which are answered, the last ones with errors."""
    run, [shard] = await room.shards(samples=4)
    held = await room.take(shard.id, await room.add_worker())
    await room.append(held, ordinals)
    values = {"run": run.id, "first": len(ordinals) - errors}
    await room.execute("UPDATE fact SET status = 'error' WHERE run_id = :run AND ordinal >= :first", **values)
    await room.execute("UPDATE job SET failed = :errors WHERE id = :job", errors=errors, job=shard.id)
    return run.id, held


async def keep(
    room: EngineRoom, run_id: UUID, source: UUID, ordinals: list[int] | None = None, *, kind: PhaseKind = "accuracy"
) -> None:
    """Make a run reuse a phase of another run, or single rows of it."""
    async with room.database.transaction() as session:
        position = {"run_id": run_id, "phase": 9, "source_run_id": source, "source_phase": 1}
        if ordinals is None:
            counts = kind == "accuracy"
            whole = {"step": 1, "kind": kind, "counts": counts, "params": {}, "state": PhaseState.COMPLETE}
            await phases.add(session, run_id=run_id, no=9, **whole)
            await reuse.add_phase(session, run_id, 9, source_run_id=source, source_phase=1)
        else:
            measured = [await facts.get(session, source, 1, ordinal) for ordinal in ordinals]
            is_ok = {row.ordinal: row.status is FactStatus.OK for row in measured if row is not None}
            rows = [
                {**position, "ordinal": ordinal, "source_ordinal": ordinal, "is_ok": is_ok[ordinal]}
                for ordinal in ordinals
            ]
            await session.execute(insert(table_of(ReusedFactRow)), rows)


async def test_the_rows_of_all_shards_are_counted_and_those_of_other_runs_are_not(room: EngineRoom) -> None:
    run, shards = await room.shards(run_spec(samples_per_shard=2), samples=4)
    for shard in shards:
        await room.append(await room.take(shard.id, await room.add_worker()), [shard.range_start or 0])
    other, _ = await answered(room, [0, 1, 2], errors=1)
    assert await tally(room, run.id, other) == {run.id: Tally(done=2), other: Tally(done=3, failed=1)}
    assert await tally(room, other) == {other: Tally(done=3, failed=1)}
    assert await tally(room) == {}


async def test_rows_that_do_not_count_are_not_in_the_tally(room: EngineRoom) -> None:
    run_id, held = await answered(room, [0, 1])
    shards = claims.Shards(done=2, failed=0, total=4)
    async with room.database.transaction() as session:
        assert await claims.other_shards(session, run_id, UUID(int=0)) == shards
        assert (await claims.other_shards(session, run_id, held.job.id)).done == 0
    await room.execute("UPDATE job SET counts = false WHERE id = :id", id=held.job.id)
    assert await tally(room, run_id) == {}
    async with room.database.transaction() as session:
        assert (await claims.other_shards(session, run_id, UUID(int=0))).done == 0


async def test_jobs_that_write_no_facts_count_nothing(room: EngineRoom) -> None:
    run_id, held = await answered(room, [0, 1, 2, 3])
    await room.finish(held, Complete())
    await room.execute("UPDATE job SET done = 7, failed = 7 WHERE run_id = :run AND kind <> 'GENERATE'", run=run_id)
    assert await tally(room, run_id) == {run_id: Tally(done=4)}


async def test_a_reused_phase_counts_with_its_errors(room: EngineRoom) -> None:
    source, _ = await answered(room, [0, 1, 2], errors=2)
    child, _ = await room.shards(samples=4)
    await keep(room, child.id, source)
    assert await tally(room, child.id) == {child.id: Tally(done=3, failed=2)}


async def test_a_reused_phase_of_a_member_counts_neither_as_answers_nor_as_failures(room: EngineRoom) -> None:
    source, _ = await answered(room, [0, 1, 2], errors=2)
    child, _ = await room.shards(samples=4)
    await keep(room, child.id, source, kind="member")
    assert (await tally(room, child.id))[child.id].done == 0
    async with room.database.transaction() as session:
        counted = await failures.of_run(session, child.id)
    assert (counted.ok, list(counted.failures)) == (0, [])


async def test_reused_rows_count_in_addition_to_a_reused_phase(room: EngineRoom) -> None:
    parent, _ = await answered(room, [0, 1], errors=0)
    child, _ = await room.shards(samples=4)
    await keep(room, child.id, parent)
    older, _ = await answered(room, [0, 1, 2, 3], errors=1)
    await keep(room, child.id, older, [2, 3])
    assert await tally(room, child.id) == {child.id: Tally(done=4, failed=1)}


async def test_the_head_of_a_stream_has_its_last_event_and_whether_it_is_open(room: EngineRoom) -> None:
    run_id, _ = await answered(room, [0])
    async with room.database.transaction() as session:
        result = await tallies.heads(session, [run_id, UUID(int=0)])
    assert list(result) == [run_id]
    assert (result[run_id].seq, result[run_id].is_open, result[run_id].total) == (
        len(await room.events(run_id)),
        True,
        4,
    )
    await room.execute("UPDATE run SET finished_at = now() WHERE id = :id", id=run_id)
    async with room.database.transaction() as session:
        assert not (await tallies.heads(session, [run_id]))[run_id].is_open
