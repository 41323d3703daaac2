"""A claim closes the phases that it opened, the scheduler those of the run."""

from __future__ import annotations

from uuid import UUID

import pytest

from tests.shared.domain.builders_of_jobs import run_spec
from tests.support.engine_room import EngineRoom, Held
from vlmhyperbench.db import claim_phases
from vlmhyperbench.db.engine import Database
from vlmhyperbench.domain.outcomes import Complete, Preempted
from vlmhyperbench.domain.states import PhaseState
from vlmhyperbench.errors import Conflict

pytestmark = pytest.mark.anyio


@pytest.fixture
def room(fresh_database: Database) -> EngineRoom:
    return EngineRoom(fresh_database)


async def open_warmup(room: EngineRoom, held: Held) -> int:
    async with room.database.transaction() as session:
        return await claim_phases.open_of_claim(
            session, run_of(held), held.job.id, held.claim_id, kind="warmup", params={}, count=2, is_own=False
        )


def run_of(held: Held) -> UUID:
    assert held.job.run_id is not None
    return held.job.run_id


async def two_shards(room: EngineRoom) -> tuple[Held, Held]:
    """Claim both shards of a run; each claim has an open warm-up, phases 2 and 3."""
    _, shards = await room.shards(run_spec(samples_per_shard=2), samples=4)
    held = [await room.take(shard.id, await room.add_worker()) for shard in shards]
    assert [await open_warmup(room, claim) for claim in held] == [2, 3]
    return held[0], held[1]


async def states(room: EngineRoom, held: Held) -> object:
    return await room.scalar("SELECT array_agg(state ORDER BY no) FROM phase WHERE run_id = :run", run=held.job.run_id)


async def close(room: EngineRoom, held: Held, no: int, state: PhaseState = PhaseState.COMPLETE) -> None:
    async with room.database.transaction() as session:
        await claim_phases.close_phase(session, run_of(held), held.claim_id, no=no, state=state)


async def test_a_claim_closes_no_phase_of_another_and_none_of_the_run(room: EngineRoom) -> None:
    first, _ = await two_shards(room)
    for no in (1, 3, 9):
        with pytest.raises(Conflict):
            await close(room, first, no)
    assert await states(room, first) == ["OPEN", "OPEN", "OPEN"]
    await close(room, first, 2)
    assert await states(room, first) == ["OPEN", "COMPLETE", "OPEN"]


async def test_a_closed_phase_keeps_its_state(room: EngineRoom) -> None:
    first, _ = await two_shards(room)
    await close(room, first, 2)
    with pytest.raises(Conflict):
        await close(room, first, 2, PhaseState.VOID)
    assert await room.finish(first, Preempted()) is not None
    assert await states(room, first) == ["OPEN", "COMPLETE", "OPEN"]


async def test_a_claim_that_ends_leaves_the_phases_of_others_open(room: EngineRoom) -> None:
    first, second = await two_shards(room)
    await room.append(first, [0, 1])
    await room.finish(first, Complete())
    assert await states(room, first) == ["OPEN", "COMPLETE", "OPEN"]
    await room.finish(second, Preempted())
    assert await states(room, first) == ["OPEN", "COMPLETE", "VOID"]


async def test_a_new_claim_voids_the_open_phases_of_earlier_claims_of_its_job(room: EngineRoom) -> None:
    first, second = await two_shards(room)
    async with room.database.transaction() as session:
        assert not await claim_phases.void_earlier(session, run_of(first), first.job.id, first.claim_id)
    assert await states(room, first) == ["OPEN", "OPEN", "OPEN"]
    async with room.database.transaction() as session:
        successor = UUID(int=1)
        assert not await claim_phases.void_earlier(session, run_of(second), second.job.id, successor)
    assert await states(room, first) == ["OPEN", "OPEN", "VOID"]


async def test_closing_a_step_closes_its_phases_and_closing_a_run_closes_those_without_a_claim(
    room: EngineRoom,
) -> None:
    first, _ = await two_shards(room)
    await room.execute(
        "INSERT INTO phase (run_id, no, kind, state, params, step, counts) "
        "VALUES (:run, 4, 'judge', 'OPEN', '{}', 2, false)",
        run=run_of(first),
    )
    async with room.database.transaction() as session:
        await claim_phases.close_of_run(session, run_of(first), PhaseState.COMPLETE, step=1)
    assert await states(room, first) == ["COMPLETE", "OPEN", "OPEN", "OPEN"]
    async with room.database.transaction() as session:
        await claim_phases.close_of_run(session, run_of(first), PhaseState.VOID)
    assert await states(room, first) == ["COMPLETE", "OPEN", "OPEN", "VOID"]
