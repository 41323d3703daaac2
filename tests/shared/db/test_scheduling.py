"""The scheduler's SQL: the jobs in the window, and the effects of assigning, requeueing and reaping."""

from __future__ import annotations

import asyncio
from uuid import UUID, uuid4

import pytest

from tests.shared.domain.builders_of_jobs import run_spec
from tests.support.engine_room import EngineRoom
from vlmhyperbench.db import capacity, experiments, runs, scheduling
from vlmhyperbench.db.engine import Database
from vlmhyperbench.domain.ground import Ground
from vlmhyperbench.domain.outcomes import Complete, Failed
from vlmhyperbench.domain.placement import Inferring, Placement, Reservation
from vlmhyperbench.domain.specs import StopRule
from vlmhyperbench.domain.states import JobState
from vlmhyperbench.domain.steps import StepKind
from vlmhyperbench.errors import Conflict

pytestmark = pytest.mark.anyio


@pytest.fixture
def room(fresh_database: Database) -> EngineRoom:
    return EngineRoom(fresh_database)


async def waiting(room: EngineRoom, *kinds: str, limit: int = 10) -> list[UUID]:
    async with room.database.transaction() as session:
        return [job.id for job in await scheduling.waiting(session, frozenset(kinds), limit=limit)]


async def test_only_jobs_whose_needs_are_met_wait(room: EngineRoom) -> None:
    _, [shard] = await room.shards()
    assert await waiting(room, "inference", "evaluation", "reporting") == [shard.id]
    assert await waiting(room, "evaluation") == []
    assert await waiting(room) == []


async def test_score_waits_until_the_inference_is_closed(room: EngineRoom) -> None:
    run, [shard] = await room.shards(samples=1)
    [score] = await room.jobs_of(run.id, StepKind.SCORE)
    held = await room.take(shard.id, await room.add_worker())
    await room.append(held, [0])
    await room.finish(held, Complete())
    assert await waiting(room, "evaluation") == []  # the run is dirty: its phase is still open
    await room.advance()
    assert await waiting(room, "evaluation") == [score.id]
    assert await room.scalar("SELECT state FROM phase WHERE run_id = :run AND no = 1", run=run.id) == "COMPLETE"


async def test_priority_goes_before_age(room: EngineRoom) -> None:
    older, urgent = await room.add_run(), await room.add_run(priority=1)
    jobs = [(await room.jobs_of(run.id))[0].id for run in (urgent, older)]
    assert await waiting(room, "evaluation") == jobs


async def test_the_runs_of_an_experiment_wait_in_their_order(room: EngineRoom) -> None:
    specs = [run_spec() for _ in range(5)]
    _, runs = await room.add_experiment(*specs)
    await room.execute("UPDATE job SET needs = '{}', created_at = now() WHERE kind = 'GENERATE' OR kind = 'INDEX'")
    jobs = [job for run in runs for job in await room.jobs_of(run.id)]
    first = {job.run_id: job.id for job in reversed(jobs)}
    order = await waiting(room, "inference", "evaluation")
    assert [job for job in order if job in first.values()] == [first[run.id] for run in runs if run.id in first]


async def test_projects_take_turns(room: EngineRoom) -> None:
    big = [await room.add_run(project="big") for _ in range(3)]
    small = await room.add_run(project="small")
    order = [(await room.jobs_of(run.id))[0].id for run in (big[0], small, big[1], big[2])]
    assert await waiting(room, "evaluation") == order


async def test_a_project_with_running_jobs_waits_for_the_other(room: EngineRoom) -> None:
    first, second = await room.add_run(project="big"), await room.add_run(project="big")
    await room.take((await room.jobs_of(first.id))[0].id, await room.add_worker("evaluation"))
    late = await room.add_run(project="small")
    order = [(await room.jobs_of(run.id))[0].id for run in (late, second)]
    assert await waiting(room, "evaluation") == order


async def test_jobs_of_paused_cancelled_and_failing_runs_are_not_in_the_window(room: EngineRoom) -> None:
    for column in ("is_paused = true", "cancel_requested_at = now()", "reason = 'x'"):
        run = await room.add_run()
        await room.execute(f"UPDATE run SET {column} WHERE id = :id", id=run.id)
    assert await waiting(room, "evaluation") == []


async def test_the_index_of_an_experiment_waits_only_while_all_its_runs_are_paused(room: EngineRoom) -> None:
    experiment_id, [_, second] = await room.add_experiment(run_spec(), run_spec())
    async with room.database.transaction() as session:
        await experiments.set_paused(session, experiment_id, is_paused=True)
    assert await waiting(room, "evaluation") == []
    async with room.database.transaction() as session:
        await runs.set_paused(session, second.id, is_paused=False)
    assert len(await waiting(room, "evaluation")) == 1


async def test_a_failed_job_is_not_in_the_window_before_the_end_of_its_pause(room: EngineRoom) -> None:
    run = await room.add_run()
    [index] = await room.jobs_of(run.id)
    await room.finish(await room.take(index.id, await room.add_worker("evaluation")), Failed(code="x", message="x"))
    assert await waiting(room, "evaluation") == [index.id]
    await room.execute("UPDATE job SET not_before = now() + interval '1 hour' WHERE id = :id", id=index.id)
    assert await waiting(room, "evaluation") == []


async def test_the_window_is_bounded(room: EngineRoom) -> None:
    await room.shards(run_spec(samples_per_shard=1), samples=9)
    assert len(await waiting(room, "inference", limit=3)) == 3


async def test_live_workers_are_read_with_their_free_slots_and_devices(room: EngineRoom) -> None:
    worker, silent = await room.add_worker(slots=2, devices=2), await room.add_worker()
    await room.execute("UPDATE worker SET last_seen_at = now() - interval '1 hour' WHERE id = :id", id=silent)
    _, [shard] = await room.shards()
    await room.assign(shard.id, worker, device=1)
    async with room.database.transaction() as session:
        seen = (await capacity.workers(session, stale_s=30)).live
    [inference] = [item for item in seen if item.kind == "inference"]
    assert (inference.id, inference.busy) == (worker, 1)
    assert [device.jobs for device in inference.devices] == [0, 1]


async def test_a_job_is_assigned_once(room: EngineRoom) -> None:
    _, [shard] = await room.shards()
    workers = [await room.add_worker() for _ in range(4)]
    attempts = await asyncio.gather(*(room.assign(shard.id, worker) for worker in workers))
    assert sum(attempt is not None for attempt in attempts) == 1
    assert (await room.job(shard.id)).attempts == 1


async def test_no_job_of_a_cancelled_or_paused_run_is_assigned(room: EngineRoom) -> None:
    run, [shard] = await room.shards()
    worker = await room.add_worker()
    await room.execute("UPDATE run SET is_paused = true WHERE id = :id", id=run.id)
    assert await room.assign(shard.id, worker) is None
    await room.execute("UPDATE run SET is_paused = false WHERE id = :id", id=run.id)
    await room.cancel(run.id)
    assert await room.assign(shard.id, worker) is None
    assert await room.assign(uuid4(), worker) is None


async def test_a_device_is_reserved_once_and_freed_with_its_job(room: EngineRoom) -> None:
    run, [first, second] = await room.shards(run_spec(samples_per_shard=2), samples=4)
    worker = await room.add_worker(slots=2, devices=1)
    attempt = await room.assign(first.id, worker, device=0)
    with pytest.raises(Conflict, match="device 0"):
        await room.assign(second.id, worker, device=0)
    assert (await room.job(second.id)).state is JobState.READY
    assert attempt is not None
    held = await room.claim(first.id, attempt, worker)
    assert held is not None
    await room.finish(held, Failed(code="x", message="x"))
    assert await room.assign(second.id, worker, device=0) is not None
    assert run.id == first.run_id


async def test_an_unclaimed_job_is_requeued_and_frees_its_device(room: EngineRoom) -> None:
    run, [shard] = await room.shards()
    worker = await room.add_worker(devices=1)
    attempt = await room.assign(shard.id, worker, device=0)
    assert attempt is not None
    async with room.database.transaction() as session:
        assert await scheduling.requeue(session, shard.id, attempt_id=uuid4()) is None
        assert await scheduling.requeue(session, uuid4(), attempt_id=attempt) is None
        assert await scheduling.requeue(session, shard.id, attempt_id=attempt) is not None
    assert (await room.job(shard.id)).state is JobState.READY
    assert await room.claim(shard.id, attempt, worker) is None
    assert await room.assign(shard.id, worker, device=0) is not None
    assert "job.requeued" in [event.type for event in await room.events(run.id)]


async def test_unclaimed_assignments_are_read(room: EngineRoom) -> None:
    _, [shard] = await room.shards()
    worker = await room.add_worker()
    attempt = await room.assign(shard.id, worker)
    async with room.database.transaction() as session:
        [seen] = await scheduling.assigned(session, limit=10)
        assert (await scheduling.now(session)) >= seen.assigned_at
    assert (seen.id, seen.attempt_id, seen.worker_id) == (shard.id, attempt, worker)


async def test_a_job_with_an_expired_lease_is_given_to_another_worker(room: EngineRoom) -> None:
    _, [shard] = await room.shards()
    held = await room.take(shard.id, await room.add_worker())
    await room.append(held, [0])
    await room.reap()
    assert (await room.job(shard.id)).state is JobState.RUNNING
    await room.let_lease_expire(shard.id)
    await room.reap()
    job = await room.job(shard.id)
    assert (job.state, job.fails, job.done) == (JobState.READY, 1, 1)
    other = await room.take(shard.id, await room.add_worker())
    await room.append(other, [1, 2, 3])
    assert await room.finish(other, Complete()) is JobState.DONE


async def test_a_lease_that_expired_within_the_grace_period_is_not_reaped(room: EngineRoom) -> None:
    _, [shard] = await room.shards()
    await room.take(shard.id, await room.add_worker())
    await room.let_lease_expire(shard.id)
    await room.reap(grace_s=3600)
    assert (await room.job(shard.id)).state is JobState.RUNNING


async def test_a_job_of_a_cancelled_run_with_an_expired_lease_is_cancelled(room: EngineRoom) -> None:
    run, [shard] = await room.shards()
    await room.take(shard.id, await room.add_worker())
    await room.cancel(run.id)
    await room.let_lease_expire(shard.id)
    await room.reap()
    assert (await room.job(shard.id)).state is JobState.CANCELLED


async def test_a_job_that_watches_others_may_start_once_they_run(room: EngineRoom) -> None:
    stop = StopRule(metric="exact_match@default", rule="better")
    run, [shard] = await room.shards(run_spec().model_copy(update={"stop": stop}))
    [score] = await room.jobs_of(run.id, StepKind.SCORE)
    assert await waiting(room, "evaluation") == []
    held = await room.take(shard.id, await room.add_worker())
    assert await waiting(room, "evaluation") == [score.id]
    await room.finish(held, Failed(code="x", message="x"))
    assert await waiting(room, "evaluation") == []


async def test_the_ground_of_a_worker_is_the_registered_one_or_else_its_host(
    room: EngineRoom,
) -> None:
    ground = Ground(machine="boot", gpus=frozenset({"g0", "g1"}), cores=frozenset({2, 3}))
    shown, silent = await room.add_worker(devices=2, ground=ground), await room.add_worker()
    await room.execute("UPDATE worker SET machine_id = NULL, cores = NULL WHERE id = :id", id=silent)
    async with room.database.transaction() as session:
        result = {worker.id: worker.ground for worker in (await capacity.workers(session, stale_s=30)).live}
    assert result == {shown: ground, silent: Ground(machine="here")}


async def test_a_worker_counts_as_inferring_from_the_assignment_to_the_end_of_the_claim(
    room: EngineRoom,
) -> None:
    _, [shard] = await room.shards(samples=1)
    worker = await room.add_worker(ground=Ground(machine="boot", cores=frozenset({1})))
    other = await room.add_worker("evaluation")

    async def inferring() -> list[Inferring]:
        async with room.database.transaction() as session:
            return list(await capacity.inferring(session))

    assert await inferring() == []
    attempt = await room.assign(shard.id, worker)
    await room.execute("UPDATE job SET server = 's:1' WHERE id = :id", id=shard.id)
    ground = Ground(machine="boot", cores=frozenset({1}))
    expected = [Inferring(worker_id=worker, ground=ground, servers=frozenset({"s:1"}))]
    assert await inferring() == expected
    assert attempt is not None
    held = await room.claim(shard.id, attempt, worker)
    await room.execute("UPDATE worker SET state = 'GONE' WHERE id = :id", id=worker)
    assert await inferring() == expected
    assert held is not None
    await room.append(held, [0])
    await room.finish(held, Complete())
    await room.advance()
    [score] = await room.jobs_of(held.job.run_id or uuid4(), StepKind.SCORE)
    assert await room.assign(score.id, other) is not None
    assert await inferring() == []


async def _reserve(room: EngineRoom, worker: UUID, *, size: int, exclusive: bool) -> bool:
    """Assign a new job to a worker with a part of its device; return whether it was reserved."""
    _, [shard] = await room.shards(samples=1)
    reservation = Reservation(device=0, bytes=size, is_exclusive=exclusive)
    placement = Placement(worker_id=worker, queue="q", reservations=(reservation,))
    try:
        async with room.database.transaction() as session:
            return await scheduling.assign(session, shard.id, placement, attempt_id=uuid4()) is not None
    except Conflict:
        return False


async def test_an_exclusive_reservation_excludes_others_whatever_its_size(room: EngineRoom) -> None:
    worker = await room.add_worker(slots=9, devices=1)
    assert await _reserve(room, worker, size=10, exclusive=True)
    assert not await _reserve(room, worker, size=10, exclusive=False)
    assert not await _reserve(room, worker, size=10, exclusive=True)


async def test_shared_reservations_are_limited_by_memory_and_exclude_exclusive_ones(room: EngineRoom) -> None:
    worker = await room.add_worker(slots=9, devices=1)
    assert await _reserve(room, worker, size=60, exclusive=False)
    assert not await _reserve(room, worker, size=10, exclusive=True)
    assert not await _reserve(room, worker, size=41, exclusive=False)
    assert await _reserve(room, worker, size=40, exclusive=False)


async def test_a_claimed_job_is_not_requeued(room: EngineRoom) -> None:
    _, [shard] = await room.shards()
    worker = await room.add_worker()
    attempt = await room.assign(shard.id, worker)
    assert attempt is not None
    held = await room.claim(shard.id, attempt, worker)
    assert held is not None
    async with room.database.transaction() as session:
        assert await scheduling.requeue(session, shard.id, attempt_id=attempt) is None
    now = await room.job(shard.id)
    assert (now.state, now.claim_id) == (JobState.RUNNING, held.claim_id)


async def test_a_lease_that_has_just_expired_is_not_reaped(room: EngineRoom) -> None:
    _, [shard] = await room.shards()
    await room.take(shard.id, await room.add_worker())
    await room.let_lease_expire(shard.id)
    for grace_s, result in ((3600.0, []), (5.0, [shard.id])):
        async with room.database.transaction() as session:
            expired = await scheduling.expired(session, grace_s=grace_s, limit=9)
        assert [job.job_id for job in expired] == result
    await room.reap(grace_s=3600.0)
    assert (await room.job(shard.id)).state is JobState.RUNNING
