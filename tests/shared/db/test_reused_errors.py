"""A run that reuses answers is PARTIAL if one of them is an error, in whatever state the source run ended."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

import pytest

from tests.shared.domain.builders_of_jobs import judge_metric, run_spec
from tests.support.builders import new_fact
from tests.support.engine_room import EngineRoom
from vlmhyperbench.db import claim_phases, jobs, phases, reuse, runs
from vlmhyperbench.db.appending import append
from vlmhyperbench.db.engine import Database
from vlmhyperbench.db.rescoring import reuse_answers
from vlmhyperbench.db.views import NewChunk, ReusedFactView, RunView
from vlmhyperbench.domain.outcomes import Complete, Failed, Outcome
from vlmhyperbench.domain.planning import plan_rescoring
from vlmhyperbench.domain.specs import RunSpec
from vlmhyperbench.domain.states import FactStatus, JobState, PhaseState, RunState
from vlmhyperbench.domain.steps import StepKind

pytestmark = pytest.mark.anyio

SCORED = run_spec(reports=())


@pytest.fixture
def room(fresh_database: Database) -> EngineRoom:
    return EngineRoom(fresh_database)


async def do(room: EngineRoom, run_id: UUID, kind: StepKind, outcome: Outcome, *, errors: Sequence[int] = ()) -> None:
    """Run every job of a kind; the ordinals in `errors` become error rows."""
    worker_id = await room.add_worker("inference" if kind is StepKind.GENERATE else "evaluation")
    for job in await room.jobs_of(run_id, kind):
        if job.state is not JobState.READY:
            continue
        held = await room.take(job.id, worker_id)
        if isinstance(outcome, Complete) and job.phase is not None and job.range_end is not None:
            rows = [
                new_fact(ordinal, row=row, status=FactStatus.ERROR if ordinal in errors else FactStatus.OK)
                for row, ordinal in enumerate(range(job.range_start or 0, job.range_end))
            ]
            chunk = NewChunk(
                phase=job.phase, no=0, storage_key=str(held.claim_id), sha256="0" * 64, size_bytes=1, rows=len(rows)
            )
            async with room.database.transaction() as session:
                await append(session, job_id=job.id, claim_id=held.claim_id, chunk=chunk, rows=rows)
        await room.finish(held, outcome)
    await room.advance()


async def measured(
    room: EngineRoom, spec: RunSpec = SCORED, *, errors: Sequence[int] = (), scored: Outcome | None = None
) -> RunView:
    """Add a run with all its answers, whose SCORE job ends with this outcome."""
    run, _ = await room.shards(spec)
    await do(room, run.id, StepKind.GENERATE, Complete(), errors=errors)
    await do(room, run.id, StepKind.SCORE, scored or Complete())
    return await room.run(run.id)


async def rescore(room: EngineRoom, parent: RunView, spec: RunSpec = SCORED) -> RunView:
    """Reuse a run's answers in a new run."""
    async with room.database.transaction() as session:
        run = await runs.add(session, project_id="p", created_by="t", name="again", spec=spec, parent_run_id=parent.id)
        planned = plan_rescoring(spec, total=parent.total or 0, reused=await reuse_answers(session, run, parent))
        for phase in planned.phases:
            await claim_phases.open_of_run(session, run.id, phase)
        await jobs.add(session, planned.jobs, project_id="p", run_id=run.id)
    return run


async def rescored(room: EngineRoom, parent: RunView) -> RunView:
    run = await rescore(room, parent)
    await do(room, run.id, StepKind.SCORE, Complete())
    return await room.run(run.id)


BROKEN = Failed(code="plugin_failed", message="The metric fails.", permanent=True)


async def test_a_run_that_reuses_only_answers_succeeds(room: EngineRoom) -> None:
    parent = await measured(room)
    assert (parent.state, (await rescored(room, parent)).state) == (RunState.SUCCEEDED, RunState.SUCCEEDED)


async def test_a_run_that_reuses_an_error_of_a_partial_run_is_partial(room: EngineRoom) -> None:
    parent = await measured(room, errors=[1])
    assert (parent.state, (await rescored(room, parent)).state) == (RunState.PARTIAL, RunState.PARTIAL)


async def test_a_run_that_reuses_an_error_of_a_run_whose_score_failed_is_partial_and_so_is_its_child(
    room: EngineRoom,
) -> None:
    parent = await measured(room, errors=[1], scored=BROKEN)
    assert parent.state is RunState.FAILED
    child = await rescored(room, parent)
    assert (child.state, (await rescored(room, child)).state) == (RunState.PARTIAL, RunState.PARTIAL)


async def test_a_run_that_reuses_an_error_of_a_run_that_was_cancelled_during_score_is_partial(
    room: EngineRoom,
) -> None:
    run, _ = await room.shards(SCORED)
    await do(room, run.id, StepKind.GENERATE, Complete(), errors=[0])
    await room.cancel(run.id)
    await room.advance()
    parent = await room.run(run.id)
    assert (parent.state, (await rescored(room, parent)).state) == (RunState.CANCELLED, RunState.PARTIAL)


async def test_a_run_that_reuses_the_answers_of_a_run_without_verdicts_succeeds(room: EngineRoom) -> None:
    judged = run_spec(reports=(), metrics=(judge_metric(),))
    run, _ = await room.shards(judged)
    [shard], [judge] = [await room.jobs_of(run.id, kind) for kind in (StepKind.GENERATE, StepKind.JUDGE)]
    held = await room.take(shard.id, await room.add_worker())
    await room.append(held, list(range(shard.range_end or 0)))
    await room.finish(held, Complete())
    await room.advance()
    await room.finish(await room.take(judge.id, await room.add_worker()), BROKEN)
    await room.advance()
    await do(room, run.id, StepKind.SCORE, Complete())
    parent = await room.run(run.id)
    assert parent.state is RunState.PARTIAL
    child = await rescore(room, parent, judged)
    await do(room, child.id, StepKind.JUDGE, Complete())
    await do(room, child.id, StepKind.SCORE, Complete())
    assert (await room.run(child.id)).state is RunState.SUCCEEDED


async def test_an_error_among_the_verdicts_on_reused_answers_does_not_make_a_run_partial(
    room: EngineRoom,
) -> None:
    judged = run_spec(reports=(), metrics=(judge_metric(),))
    child = await rescore(room, await measured(room), judged)
    await do(room, child.id, StepKind.JUDGE, Complete(), errors=[2])
    await do(room, child.id, StepKind.SCORE, Complete())
    assert (await room.run(child.id)).state is RunState.SUCCEEDED


@pytest.mark.parametrize(
    ("errors", "state"), [((), RunState.SUCCEEDED), ((1,), RunState.PARTIAL)], ids=["answers", "an-error"]
)
async def test_reused_rows_count_like_reused_phases(room: EngineRoom, errors: Sequence[int], state: RunState) -> None:
    source = await measured(room, errors=errors)
    run, [shard] = await room.shards(SCORED, samples=1)
    held = await room.take(shard.id, await room.add_worker())
    row = ReusedFactView(
        run_id=run.id,
        phase=1,
        ordinal=0,
        source_run_id=source.id,
        source_phase=1,
        source_ordinal=1,
        is_ok=1 not in errors,
    )
    async with room.database.transaction() as session:
        await reuse.add_to_shard(session, shard.id, [row])
    await room.finish(held, Complete())
    await room.advance()
    async with room.database.transaction() as session:
        assert [phase.state for phase in await phases.of_run(session, run.id)] == [PhaseState.COMPLETE]
    await do(room, run.id, StepKind.SCORE, Complete())
    ended = await room.run(run.id)
    assert ended.state is state
    assert (await rescored(room, ended)).state is state


async def test_an_error_among_reused_verdicts_does_not_make_a_run_partial(room: EngineRoom) -> None:
    source = await measured(room, errors=[1])
    run, _ = await room.shards(run_spec(reports=(), metrics=(judge_metric(),)), samples=1)
    await do(room, run.id, StepKind.GENERATE, Complete())
    [judge] = await room.jobs_of(run.id, StepKind.JUDGE)
    held = await room.take(judge.id, await room.add_worker())
    rows = [
        ReusedFactView(
            run_id=run.id,
            phase=2,
            ordinal=no,
            source_run_id=source.id,
            source_phase=1,
            source_ordinal=1,
            is_ok=False,
        )
        for no in range(judge.range_end or 0)
    ]
    async with room.database.transaction() as session:
        await reuse.add_to_shard(session, judge.id, rows)
    await room.finish(held, Complete())
    await room.advance()
    await do(room, run.id, StepKind.SCORE, Complete())
    assert (await room.run(run.id)).state is RunState.SUCCEEDED
