"""Advancing runs and experiments by the states of their jobs, with events."""

from __future__ import annotations

import asyncio
from uuid import UUID

import pytest

from tests.shared.domain.builders_of_jobs import run_spec
from tests.support.engine_room import EngineRoom
from tests.support.wording import Wording
from vlmhyperbench.db import advancing, experiments, phases, runs
from vlmhyperbench.db.engine import Database
from vlmhyperbench.db.views import ExperimentView
from vlmhyperbench.domain.outcomes import Cancelled, Complete, Failed
from vlmhyperbench.domain.states import ExperimentState, JobState, PhaseState, RunState
from vlmhyperbench.domain.steps import StepKind

pytestmark = pytest.mark.anyio


@pytest.fixture
def room(fresh_database: Database) -> EngineRoom:
    return EngineRoom(fresh_database)


async def work_off(room: EngineRoom, owner_id: UUID) -> None:
    """Run every READY job of a run (or of an experiment) whose needs are met, in order."""
    for kind, worker_kind in (
        (StepKind.GENERATE, "inference"),
        (StepKind.SCORE, "evaluation"),
        (StepKind.REPORT, "reporting"),
    ):
        for job in await room.jobs_of(owner_id, kind):
            if job.state is not JobState.READY:
                continue
            held = await room.take(job.id, await room.add_worker(worker_kind))
            if job.range_end is not None:
                await room.append(held, list(range(job.range_start or 0, job.range_end)))
            assert await room.finish(held, Complete()) is JobState.DONE
        await room.advance()


async def experiment(room: EngineRoom, experiment_id: UUID) -> ExperimentView:
    async with room.database.transaction() as session:
        result = await experiments.get(session, experiment_id)
    assert result is not None
    return result


async def test_a_run_goes_from_queued_to_succeeded(room: EngineRoom) -> None:
    run = await room.add_run(run_spec(samples_per_shard=2))
    assert run.state is RunState.QUEUED
    await room.index(run.id, samples=3)
    indexed = await room.run(run.id)
    assert (indexed.state, indexed.total) == (RunState.INDEXED, 3)
    await work_off(room, run.id)
    ended = await room.run(run.id)
    assert ended.state is RunState.SUCCEEDED
    assert ended.finished_at is not None
    assert not ended.is_dirty


async def test_every_change_of_a_run_has_its_event_without_a_gap(room: EngineRoom) -> None:
    run = await room.add_run()
    await room.index(run.id)
    await work_off(room, run.id)
    events = await room.events(run.id)
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    assert [event.type for event in events] == [
        "run.queued",
        *("job.assigned", "job.claimed", "job.done"),
        *("phase.opened", "run.indexed"),
        *("job.assigned", "job.claimed", "run.running", "job.done", "phase.complete"),
        *("job.assigned", "job.claimed", "job.done"),
        *("job.assigned", "job.claimed", "job.done"),
        "run.succeeded",
    ]


async def test_advancing_twice_changes_nothing_more(room: EngineRoom) -> None:
    run, _ = await room.shards()
    before = await room.events(run.id)
    async with room.database.transaction() as session:
        assert await advancing.advance_run(session, run.id) is None
    assert await room.events(run.id) == before


async def test_two_schedulers_expand_a_run_once(room: EngineRoom) -> None:
    run = await room.add_run()
    [index] = await room.jobs_of(run.id)
    held = await room.take(index.id, await room.add_worker("evaluation"))
    await room.execute(
        "INSERT INTO sample_manifest (id, dataset_digest, storage_key, size_bytes, samples, unreadable, group_columns)"
        " VALUES ('m', 'd', 'k', 1, 4, 0, '{}')"
    )
    await room.finish(held, Complete(data={"manifest_id": "m", "samples": 4}))
    await asyncio.gather(*(room.advance() for _ in range(4)))
    await room.advance()
    assert len(await room.jobs_of(run.id, StepKind.GENERATE)) == 1


async def test_a_row_that_is_an_error_makes_the_run_partial(room: EngineRoom) -> None:
    run, [shard] = await room.shards(samples=1)
    await room.execute("UPDATE job SET failed = 1 WHERE id = :id", id=shard.id)
    await work_off(room, run.id)
    assert (await room.run(run.id)).state is RunState.PARTIAL


async def test_a_dataset_without_samples_fails_the_run(room: EngineRoom, wording: Wording) -> None:
    run = await room.add_run()
    await room.index(run.id, samples=0)
    failed = await room.run(run.id)
    assert failed.state is RunState.FAILED
    wording(failed.reason)


async def test_an_index_without_a_result_fails_the_run(room: EngineRoom) -> None:
    run = await room.add_run()
    [index] = await room.jobs_of(run.id)
    await room.finish(await room.take(index.id, await room.add_worker("evaluation")), Complete())
    await room.advance()
    assert (await room.run(run.id)).state is RunState.FAILED


async def test_a_cancelled_run_without_running_jobs_ends_at_once(room: EngineRoom) -> None:
    run, _ = await room.shards()
    await room.cancel(run.id)
    await room.advance()
    assert (await room.run(run.id)).state is RunState.CANCELLED
    assert {job.state for job in await room.jobs_of(run.id)} == {JobState.DONE, JobState.CANCELLED}
    assert await room.scalar("SELECT state FROM phase WHERE run_id = :run", run=run.id) == "VOID"


async def test_a_cancelled_run_ends_after_its_running_jobs(room: EngineRoom) -> None:
    run, [first, second] = await room.shards(run_spec(samples_per_shard=2))
    held = await room.take(first.id, await room.add_worker())
    worker = await room.add_worker(devices=1)
    await room.assign(second.id, worker, device=0)
    await room.cancel(run.id)
    await room.advance()
    assert (await room.run(run.id)).state is RunState.RUNNING
    assert (await room.job(second.id)).state is JobState.CANCELLED
    assert await room.scalar("SELECT count(*) FROM reservation WHERE worker_id = :id", id=worker) == 0
    await room.finish(held, Cancelled())
    await room.advance()
    assert (await room.run(run.id)).state is RunState.CANCELLED


async def test_a_failing_run_cancels_its_running_jobs(room: EngineRoom) -> None:
    run, [first, second] = await room.shards(run_spec(samples_per_shard=2))
    running = await room.take(second.id, await room.add_worker())
    bad = await room.take(first.id, await room.add_worker())
    await room.finish(bad, Failed(code="x", message="reason", permanent=True))
    await room.advance()
    renewed = await room.renew(running)
    assert renewed is not None
    assert renewed.is_cancelled
    await room.finish(running, Cancelled())
    await room.advance()
    ended = await room.run(run.id)
    assert (ended.state, ended.reason) == (RunState.FAILED, "inference: reason")


async def test_runs_of_an_experiment_expand_from_one_index(room: EngineRoom) -> None:
    experiment_id, added = await room.add_experiment(run_spec(model="a"), run_spec(model="b"))
    await room.index(experiment_id)
    states = [(await room.run(run.id)).state for run in added]
    assert states == [RunState.INDEXED, RunState.INDEXED]
    assert len({(await room.run(run.id)).manifest_id for run in added}) == 1


async def test_an_experiment_reports_when_its_runs_have_ended_and_then_is_done(room: EngineRoom) -> None:
    experiment_id, added = await room.add_experiment(run_spec(model="a"), run_spec(model="b"))
    await room.index(experiment_id)
    await work_off(room, added[0].id)
    assert await room.jobs_of(experiment_id, StepKind.REPORT) == []
    await work_off(room, added[1].id)
    [report] = await room.jobs_of(experiment_id, StepKind.REPORT)
    assert (report.scope, report.needs_state, len(report.needs)) == ("experiment", "ENDED", 2)
    assert (await experiment(room, experiment_id)).state is ExperimentState.OPEN
    await work_off(room, experiment_id)
    assert (await experiment(room, experiment_id)).state is ExperimentState.DONE
    assert (await room.events(experiment_id))[-1].type == "experiment.done"


async def test_a_shared_index_that_fails_fails_every_run_and_there_is_no_report(room: EngineRoom) -> None:
    experiment_id, added = await room.add_experiment(run_spec(model="a"), run_spec(model="b"))
    [index] = await room.jobs_of(experiment_id)
    held = await room.take(index.id, await room.add_worker("evaluation"))
    await room.finish(held, Failed(code="not_found", message="reason", permanent=True))
    await room.advance()
    assert {(await room.run(run.id)).reason for run in added} == {"index: reason"}
    ended = await experiment(room, experiment_id)
    assert ended.state is ExperimentState.PARTIAL
    assert await room.jobs_of(experiment_id, StepKind.REPORT) == []


async def test_a_report_that_fails_leaves_the_experiment_partial(room: EngineRoom) -> None:
    experiment_id, [run] = await room.add_experiment(run_spec())
    await room.index(run.id)
    await work_off(room, run.id)
    [report] = await room.jobs_of(experiment_id, StepKind.REPORT)
    held = await room.take(report.id, await room.add_worker("reporting"))
    await room.finish(held, Failed(code="x", message="x", permanent=True))
    await room.advance()
    assert (await experiment(room, experiment_id)).state is ExperimentState.PARTIAL


async def test_cancelling_an_experiment_cancels_its_runs_and_its_index(room: EngineRoom) -> None:
    experiment_id, added = await room.add_experiment(run_spec(model="a"), run_spec(model="b"))
    async with room.database.transaction() as session:
        await experiments.request_cancel(session, experiment_id)
    await room.advance()
    await room.advance()
    assert {(await room.run(run.id)).state for run in added} == {RunState.CANCELLED}
    assert (await experiment(room, experiment_id)).state is ExperimentState.CANCELLED
    assert [job.state for job in await room.jobs_of(experiment_id)] == [JobState.CANCELLED]


async def test_a_waiting_shard_ends_when_the_stop_rule_has_decided(room: EngineRoom) -> None:
    run, [shard] = await room.shards()
    async with room.database.transaction() as session:
        await runs.stop(session, run.id, {"rule": "better by 0 on m@v1", "samples": 2, "of": 4})
    await room.advance()
    await room.advance()
    done = await room.job(shard.id)
    assert (done.state, (done.outcome or {})["kind"]) == (JobState.DONE, "stopped")
    async with room.database.transaction() as session:
        [phase] = await phases.of_run(session, run.id)
    assert phase.state is PhaseState.STOPPED
    await work_off(room, run.id)
    assert (await room.run(run.id)).state is RunState.SUCCEEDED
