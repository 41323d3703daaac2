"""A retune: the wanted requests in flight are in the run's row, in its events, and in what a worker reads of it."""

from __future__ import annotations

import pytest

from tests.support.builders import add_run, new_fact, open_shard, unstored_chunk
from tests.support.engine_room import EngineRoom
from vlmhyperbench.db import events, runs
from vlmhyperbench.db.appending import append
from vlmhyperbench.db.engine import Database

pytestmark = pytest.mark.anyio


async def test_each_change_is_an_event_with_who_and_when_and_the_newest_holds(database: Database) -> None:
    async with database.transaction() as session:
        run = await add_run(session)
    for in_flight in (9, 9, 2):
        async with database.transaction() as session:
            changed = await runs.retune(session, run.id, in_flight=in_flight, by="ann")
    assert changed is not None
    assert changed.in_flight == 2
    async with database.transaction() as session:
        retuned = [event for event in await events.after(session, run.id, 0) if event.type == "run.retuned"]
    assert [(event.data["before"], event.data["in_flight"], event.data["by"]) for event in retuned] == [
        (4, 9, "ann"),
        (9, 2, "ann"),
    ]
    assert [change["at"] for change in changed.retunes or ()] == [event.data["at"] for event in retuned]


async def test_a_run_that_has_ended_stays_as_it_is(room: EngineRoom) -> None:
    run, _ = await room.shards()
    await room.execute("UPDATE run SET finished_at = now() WHERE id = :id", id=run.id)
    async with room.database.transaction() as session:
        changed = await runs.retune(session, run.id, in_flight=9, by="ann")
    assert changed is not None
    assert changed.retunes is None


async def test_a_worker_learns_of_it_when_it_renews_and_when_it_appends(database: Database) -> None:
    shard = await open_shard(database)
    for no, in_flight in enumerate((None, 9)):
        async with database.transaction() as session:
            if in_flight is not None:
                await runs.retune(session, shard.run.id, in_flight=in_flight, by="ann")
            chunk, rows = unstored_chunk(shard, no=no), [new_fact(no)]
            appended = await append(session, job_id=shard.job_id, claim_id=shard.claim_id, chunk=chunk, rows=rows)
        assert appended is not None
        assert appended.in_flight == in_flight


async def test_a_renewal_says_how_many_requests_the_run_wants_in_flight(room: EngineRoom) -> None:
    run, [shard] = await room.shards()
    held = await room.take(shard.id, await room.add_worker())
    async with room.database.transaction() as session:
        await runs.retune(session, run.id, in_flight=12, by="ann")
    renewed = await room.renew(held)
    assert renewed is not None
    assert renewed.in_flight == 12


@pytest.fixture
def room(database: Database) -> EngineRoom:
    return EngineRoom(database)
