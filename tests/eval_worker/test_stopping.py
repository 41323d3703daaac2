"""A look at a run with a stop rule reads only rows after the cursor, and decides as a look at all rows would."""

from __future__ import annotations

from collections.abc import Sequence

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.builders import Shard, add_run, add_shard, new_fact, unstored_chunk
from vlmhyperbench.analysis.pairing import Pairing
from vlmhyperbench.analysis.sequential import Decision, Rule, request_order
from vlmhyperbench.db import facts, reuse
from vlmhyperbench.db.appending import append
from vlmhyperbench.db.engine import AsyncSession, Database
from vlmhyperbench.db.views import ReusedFactView
from vlmhyperbench_eval_worker import stopping

SAMPLES = 60


@st.composite
def arrivals(draw: st.DrawFn) -> tuple[Pairing, dict[tuple[str, int], float | None], list[int], list[int]]:
    """Draw a pairing, the run's scores, the order in which rows arrive, and the number of rows at each look."""
    repeats = draw(st.integers(1, 3))
    keys = [f"key-{number}" for number in range(SAMPLES)]
    unreadable = draw(st.frozensets(st.integers(0, SAMPLES - 1), max_size=5))
    gain = draw(st.sampled_from([0.0, 0.4, 1.0]))
    score = st.sampled_from([gain, gain, gain, 0.0, None])
    positions = [(key, repeat) for key in keys for repeat in range(repeats)]
    values = {position: draw(score) for position in positions}
    pairing = Pairing(
        rule=Rule(kind=draw(st.sampled_from(["better", "worse"])), margin=0.1, min_units=5),
        alpha=0.2,
        low=-1.0,
        high=1.0,
        direction="higher",
        keys=keys,
        repeats=repeats,
        order=request_order(keys, repeats=repeats, seed=draw(st.integers(0, 9))),
        unreadable=unreadable,
        baseline=dict.fromkeys(positions, 0.0),
    )
    asked = [ordinal for ordinal in pairing.order if ordinal % SAMPLES not in unreadable]
    order = draw(st.permutations(asked))
    looks = sorted(draw(st.sets(st.integers(0, len(order)), min_size=1, max_size=12)))
    return pairing, values, order, looks


@given(arrivals(), st.integers(1, 50))
@settings(max_examples=60, deadline=None)
def test_rows_after_the_cursor_give_the_decision_of_all_rows_in_any_order(
    drawn: tuple[Pairing, dict[tuple[str, int], float | None], list[int], list[int]], window: int
) -> None:
    pairing, values, order, looks = drawn
    read: list[int] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stopping, "WINDOW", window)
        for look in looks:
            arrived = set(order[:look])
            behind = set(pairing.order[: pairing.cursor])

            async def present(ordinals: Sequence[int], arrived: set[int] = arrived) -> set[int]:
                read.extend(ordinals)
                return arrived.intersection(ordinals)

            read.clear()
            ready = anyio.run(stopping.read_ready, pairing, present)
            assert behind.isdisjoint(read)  # nothing before the cursor is read again
            assert len(read) <= len(ready) + pairing.repeats + window  # and little after the first gap
            pairing = pairing.extended(ready, values)
            assert (pairing.units, pairing.decision) == _of_all_rows(pairing, values, arrived)


def _of_all_rows(
    pairing: Pairing, values: dict[tuple[str, int], float | None], arrived: set[int]
) -> tuple[int, Decision | None]:
    """Decide by all rows at once."""
    fresh = Pairing(
        rule=pairing.rule,
        alpha=pairing.alpha,
        low=pairing.low,
        high=pairing.high,
        direction=pairing.direction,
        keys=pairing.keys,
        repeats=pairing.repeats,
        order=pairing.order,
        unreadable=pairing.unreadable,
        baseline=pairing.baseline,
    )
    whole = fresh.extended(fresh.ready(arrived), values)
    return whole.units, whole.decision


@pytest.mark.anyio
async def test_measured_and_reused_rows_are_present_and_others_are_not(database: Database) -> None:
    async with database.transaction() as session:
        parent = await add_shard(session, end=8)
        await _append(session, parent, [1, 2, 3])
        child = await add_shard(session, run=await add_run(session, parent_run_id=parent.run.id), end=8)
        await _append(session, child, [0, 5])
        position = ReusedFactView(
            run_id=child.run.id,
            phase=1,
            ordinal=4,
            source_run_id=parent.run.id,
            source_phase=1,
            source_ordinal=2,
            is_ok=True,
        )
        await reuse.add_to_shard(session, child.job_id, [position])
        assert await facts.present(session, child.run.id, 1, range(8)) == {0, 4, 5}
        assert await facts.present(session, child.run.id, 1, [4, 6]) == {4}
        assert await facts.present(session, child.run.id, 2, range(8)) == set()


async def _append(session: AsyncSession, shard: Shard, ordinals: list[int]) -> None:
    rows = [new_fact(ordinal, row=row) for row, ordinal in enumerate(ordinals)]
    chunk = unstored_chunk(shard, rows=len(rows))
    assert await append(session, job_id=shard.job_id, claim_id=shard.claim_id, chunk=chunk, rows=rows)
