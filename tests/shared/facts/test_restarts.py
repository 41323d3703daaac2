"""A job that starts over whole each time is given up, whatever it committed of what is void."""

from __future__ import annotations

import pytest
from sqlalchemy import text

from tests.shared.domain.builders_of_jobs import run_spec
from tests.support.engine_room import EngineRoom
from vlmhyperbench.db import claim_phases
from vlmhyperbench.db.engine import Database
from vlmhyperbench.domain.outcomes import Failed
from vlmhyperbench.domain.states import JobState

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(("kind", "tries"), [("single_stream", 6), ("warmup", 3)])
async def test_a_job_whose_rows_are_void_each_time_is_given_up(fresh_database: Database, kind: str, tries: int) -> None:
    room = EngineRoom(fresh_database)
    _, [shard] = await room.shards(run_spec())
    worker_id = await room.add_worker()
    states = []
    for _ in range(tries):
        async with fresh_database.transaction() as session:
            await session.execute(text("UPDATE job SET not_before = NULL"))
        held = await room.take(shard.id, worker_id)
        async with fresh_database.transaction() as session:
            no = await claim_phases.open_of_claim(
                session,
                held.job.run_id,
                held.job.id,
                held.claim_id,
                kind=kind,
                params={},
                count=4,
                is_own=kind != "warmup",
            )
        await room.append(held, [0], phase=no)
        states.append(await room.finish(held, Failed(code="engine_lost", message="gone")))
    assert states == [JobState.READY] * (tries - 1) + [JobState.FAILED]


async def test_a_job_that_keeps_what_it_answered_is_tried_again_for_as_long(fresh_database: Database) -> None:
    room = EngineRoom(fresh_database)
    _, [shard] = await room.shards(run_spec(), samples=9)
    worker_id = await room.add_worker()
    for ordinal in range(8):
        async with fresh_database.transaction() as session:
            await session.execute(text("UPDATE job SET not_before = NULL"))
        held = await room.take(shard.id, worker_id)
        await room.append(held, [ordinal])
        assert await room.finish(held, Failed(code="engine_lost", message="gone")) is JobState.READY
