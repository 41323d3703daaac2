"""The numbers of the whole platform: jobs that wait, and jobs for which a worker is of use."""

from __future__ import annotations

import pytest

from tests.support.engine_room import EngineRoom
from vlmhyperbench.db import platform_numbers
from vlmhyperbench.db.engine import Database
from vlmhyperbench.domain.outcomes import Failed
from vlmhyperbench.monitoring.numbers import find

pytestmark = pytest.mark.anyio


async def _of_inference(room: EngineRoom) -> dict[str, float]:
    async with room.database.transaction() as session:
        numbers = await platform_numbers.read(session, stale_s=30, lease_s=15)
    names = ("queue_depth", "queue_jobs")
    return {name: number.value for name in names for number in find(numbers, name, kind="inference")}


async def test_a_job_counts_as_work_until_it_has_ended_and_as_waiting_until_it_is_assigned(
    fresh_database: Database,
) -> None:
    room = EngineRoom(fresh_database)
    before = await _of_inference(room)
    assert before == {"queue_depth": 0, "queue_jobs": 0}
    _, [shard] = await room.shards()
    assert await _of_inference(room) == {"queue_depth": 1, "queue_jobs": 1}
    held = await room.take(shard.id, await room.add_worker())
    assert await _of_inference(room) == {"queue_depth": 0, "queue_jobs": 1}
    await room.finish(held, Failed(code="x", message="It cannot be done.", permanent=True))
    assert await _of_inference(room) == {"queue_depth": 0, "queue_jobs": 0}
