"""Reservations by bytes, needs of targets and drains, on a real database."""

from __future__ import annotations

import asyncio
import math
from dataclasses import replace
from uuid import UUID, uuid4

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import text

from tests.shared.domain.builders_of_jobs import judge_metric, run_spec
from tests.support.engine_room import EngineRoom
from tests.support.processes import eventually
from vlmhyperbench.db import capacity, claims, drains, durations, held_models, memory, reservations, reuse, scheduling
from vlmhyperbench.db.engine import Database
from vlmhyperbench.db.views import ReusedFactView
from vlmhyperbench.domain.needs import MemoryNeed
from vlmhyperbench.domain.next_use import OpenRun, next_uses
from vlmhyperbench.domain.outcomes import Complete, Preempted
from vlmhyperbench.domain.paces import Pace, Paces
from vlmhyperbench.domain.placement import Placement, Reservation, WorkerNow
from vlmhyperbench.domain.scheduling import WaitingJob
from vlmhyperbench.domain.states import JobState, RunState
from vlmhyperbench.domain.steps import StepKind
from vlmhyperbench.errors import Conflict
from vlmhyperbench_sdk.protocols import MemoryEstimate

pytestmark = pytest.mark.anyio

MEMORY = 100
"""Bytes of the devices of `EngineRoom.add_worker`."""


@pytest.fixture
def room(fresh_database: Database) -> EngineRoom:
    return EngineRoom(fresh_database)


async def reserve(room: EngineRoom, job_id: UUID, worker_id: UUID, *held: Reservation) -> bool:
    placement = Placement(worker_id=worker_id, queue="q", reservations=held)
    try:
        async with room.database.transaction() as session:
            return await scheduling.assign(session, job_id, placement, attempt_id=uuid4()) is not None
    except Conflict:
        return False


def part(size: int, *, device: int = 0, alone: bool = False) -> Reservation:
    return Reservation(device=device, bytes=size, is_exclusive=alone)


async def live(room: EngineRoom) -> list[WorkerNow]:
    async with room.database.transaction() as session:
        return [worker for worker in (await capacity.workers(session, stale_s=30)).live if worker.kind == "inference"]


async def jobs(room: EngineRoom, count: int) -> list[UUID]:
    _, shards = await room.shards(run_spec(samples_per_shard=1), samples=count)
    return [shard.id for shard in shards]


async def test_jobs_share_a_device_up_to_its_bytes(room: EngineRoom) -> None:
    first, second, third = await jobs(room, 3)
    worker = await room.add_worker(slots=4, devices=1)
    assert await reserve(room, first, worker, part(60))
    assert not await reserve(room, second, worker, part(41))
    assert await reserve(room, second, worker, part(40))
    assert not await reserve(room, third, worker, part(1))
    [seen] = await live(room)
    assert [(device.reserved_bytes, device.jobs, device.is_exclusive) for device in seen.devices] == [(100, 2, False)]


async def test_an_exclusive_job_is_alone_on_its_device(room: EngineRoom) -> None:
    first, second, third = await jobs(room, 3)
    worker = await room.add_worker(slots=4, devices=1)
    assert await reserve(room, first, worker, part(1, alone=True))
    assert not await reserve(room, second, worker, part(1))
    await room.execute("DELETE FROM reservation")
    assert await reserve(room, second, worker, part(1))
    assert not await reserve(room, third, worker, part(1, alone=True))


async def test_a_gang_gets_all_of_its_devices_or_none(room: EngineRoom) -> None:
    first, gang = await jobs(room, 2)
    worker = await room.add_worker(slots=4, devices=2)
    assert await reserve(room, first, worker, part(60, device=1))
    assert not await reserve(room, gang, worker, part(50, device=0), part(50, device=1))
    assert (await room.job(gang)).state is JobState.READY
    assert await room.scalar("SELECT count(*) FROM reservation WHERE job_id = :id", id=gang) == 0
    assert await reserve(room, gang, worker, part(50, device=0), part(40, device=1))


async def test_two_schedulers_that_place_at_once_never_exceed_a_device(room: EngineRoom) -> None:
    [first], [second] = await jobs(room, 1), await jobs(room, 1)  # of two runs, whose locks are apart
    worker = await room.add_worker(slots=4, devices=1)
    async with room.database.transaction() as session:
        placement = Placement(worker_id=worker, queue="q", reservations=(part(60),))
        assert await scheduling.assign(session, first, placement, attempt_id=uuid4()) is not None
        other = asyncio.create_task(reserve(room, second, worker, part(60)))

        async def is_decided() -> bool:
            waits = (
                "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
            )
            return other.done() or await room.scalar(waits) == 1

        await eventually(is_decided, "the second scheduler waits for the first")
    assert not await other


@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.integers(0, 1), st.integers(0, 100), st.booleans()), min_size=2, max_size=6))
async def test_no_device_is_ever_reserved_over_its_bytes(room: EngineRoom, wanted: list[tuple[int, int, bool]]) -> None:
    ids = [job_id for _ in wanted for job_id in await jobs(room, 1)]
    worker = await room.add_worker(slots=16, devices=2)
    placed = [
        reserve(room, job_id, worker, part(size, device=device, alone=alone))
        for job_id, (device, size, alone) in zip(ids, wanted, strict=True)
    ]
    given_room = await asyncio.gather(*placed)
    assert any(given_room)
    for device in (0, 1):
        held = [
            (size, alone)
            for (no, size, alone), has_room in zip(wanted, given_room, strict=True)
            if has_room and no == device
        ]
        assert sum(size for size, _ in held) <= MEMORY
        assert len(held) <= 1 or not any(alone for _, alone in held)


async def test_what_an_attempt_has_reserved_is_read_by_its_worker(room: EngineRoom) -> None:
    [job] = await jobs(room, 1)
    worker = await room.add_worker(slots=4, devices=2)
    assert await reserve(room, job, worker, part(10, device=1), part(20, device=0))
    attempt = (await room.job(job)).attempt_id
    assert attempt is not None
    async with room.database.transaction() as session:
        assert await reservations.of_attempt(session, attempt) == [part(20, device=0), part(10, device=1)]


async def test_targets_that_jobs_wait_for_are_ordered_by_their_next_use(room: EngineRoom) -> None:
    specs = [run_spec(model=name) for name in ("late", "soon", "never")]
    digests = [spec.target_digest for spec in specs]
    for spec in specs[:2]:
        await room.shards(spec)
    await room.execute("UPDATE job SET priority = 1 WHERE target_digest = :soon", soon=digests[1])
    async with room.database.transaction() as session:
        assert await reservations.wanted_next(session, digests) == [digests[1], digests[0]]


async def test_an_estimate_is_replaced_and_a_peak_only_rises(room: EngineRoom) -> None:
    first = MemoryEstimate(device_bytes=1, host_bytes=2, source="static")
    second = MemoryEstimate(device_bytes=3, host_bytes=4, source="static", knobs=("n_ctx",), device_share=0.5)
    second = replace(second, min_device_bytes=1, min_host_bytes=2)
    async with room.database.transaction() as session:
        await memory.write_estimates(session, {"t": first})
        await memory.write_estimates(session, {"t": second})
        for size in (5, 9, 7):
            await memory.write_peak(session, "t", "card", size)
        await memory.write_peak(session, "measured only", "card", 1)
        needs = await memory.needs_of(session, ["t", "measured only", "unknown"], margin=1.5)
    assert needs == {
        "t": MemoryNeed(
            device_bytes=3,
            host_bytes=4,
            device_share=0.5,
            knobs=("n_ctx",),
            peaks={"card": 9},
            min_device_bytes=1,
            min_host_bytes=2,
            margin=1.5,
        ),
        "measured only": MemoryNeed(peaks={"card": 1}),
    }


async def test_jobs_know_whether_their_speed_counts_and_how_many_devices_they_need(room: EngineRoom) -> None:
    shared = run_spec(metrics=(judge_metric(),)).model_copy(update={"shares_device": True})
    run, [shard] = await room.shards(shared)
    [judge] = await room.jobs_of(run.id, StepKind.JUDGE)
    assert [(job.is_timed, job.devices) for job in (shard, judge)] == [(False, 1), (False, 1)]
    spec = run_spec()
    target = spec.target.model_copy(update={"engine_params": {"tensor_parallel": 4}})
    _, [gang] = await room.shards(spec.model_copy(update={"target": target}))
    assert (gang.is_timed, gang.devices) == (True, 4)


async def test_the_window_has_jobs_of_every_target(room: EngineRoom) -> None:
    for name in ("first", "second"):
        await room.shards(run_spec(model=name, samples_per_shard=1), samples=5)
    async with room.database.transaction() as session:
        waiting: tuple[WaitingJob, ...] = await scheduling.waiting(session, frozenset({"inference"}), limit=2)
    by_target = [job.target_digest for job in waiting]
    assert sorted(by_target.count(target) for target in set(by_target)) == [2, 2]
    assert all(job.waited_s >= 0 for job in waiting)


async def test_a_job_that_fits_no_device_fails_its_run_with_the_reason(room: EngineRoom) -> None:
    run, [shard] = await room.shards()
    async with room.database.transaction() as session:
        assert await scheduling.refuse(session, shard.id, "It needs more.") is not None
        assert await scheduling.refuse(session, shard.id, "It needs more.") is None
    await room.advance()
    after = await room.run(run.id)
    assert (after.state, after.reason) == (RunState.FAILED, "inference: It needs more.")
    assert ((await room.job(shard.id)).outcome or {})["code"] == "does_not_fit"


@pytest.mark.parametrize(("estimate", "taken"), [(60, 60), (None, MEMORY)], ids=["estimated", "unknown"])
async def test_a_pinned_model_has_its_share_of_a_device_while_no_job_uses_it(
    room: EngineRoom, estimate: int | None, taken: int
) -> None:
    run, [shard] = await room.shards(run_spec().model_copy(update={"shares_device": True}))
    spec, worker = run.pinned_spec(), await room.add_worker(slots=4, devices=2)
    digest, target = spec.target_digest, spec.target.model_dump(mode="json")

    async def pinned() -> list[tuple[tuple[str, int], ...]]:
        [seen] = await live(room)
        return [device.pinned for device in seen.devices]

    async with room.database.transaction() as session:
        if estimate is not None:
            known = MemoryEstimate(device_bytes=estimate, host_bytes=0, source="static")
            await memory.write_estimates(session, {digest: known})
        for project in ("p", "q"):
            await held_models.ask_to_load(
                session, project, "m", target=target, digest=digest, is_pinned=True, by="anna"
            )
        await session.execute(text("UPDATE held_model SET state = 'loaded', worker_id = :id"), {"id": worker})
    assert await pinned() == [(), ()]  # its worker has unloaded it for a job that was alone
    await room.execute("UPDATE worker SET resident = ARRAY[:digest] WHERE id = :id", digest=digest, id=worker)
    assert await pinned() == [((digest, taken),), ()]
    assert await reserve(room, shard.id, worker, part(60))
    assert await pinned() == [(), ()]  # the job has it reserved


async def drain(room: EngineRoom, scope: drains.DrainScope, name: str) -> None:
    async with room.database.transaction() as session:
        await drains.add(session, scope=scope, name=name, reason="fans", by="anna")


async def test_workers_devices_and_machines_are_drained_until_they_are_resumed(room: EngineRoom) -> None:
    worker = await room.add_worker(devices=2)
    await drain(room, "device", "g1")
    [seen] = await live(room)
    assert [device.drained for device in seen.devices] == [None, "by anna: fans"]
    for scope, name in (("worker", f"q-{worker}"), ("machine", "here")):
        await drain(room, scope, name)  # type: ignore[arg-type]
        assert [item.drained for item in await live(room)] == ["by anna: fans"]
        async with room.database.transaction() as session:
            ended = await drains.end(session, scope=scope, name=name, by="bert")  # type: ignore[arg-type]
            assert ended is not None
            assert (ended.drained_by, ended.resumed_by) == ("anna", "bert")
            assert await drains.end(session, scope=scope, name=name, by="bert") is None  # type: ignore[arg-type]
        assert [item.drained for item in await live(room)] == [None]
    async with room.database.transaction() as session:
        assert len(await drains.listed(session)) == 1
        assert len(await drains.listed(session, is_open=False)) == 3


async def test_what_is_drained_twice_keeps_both_reasons(room: EngineRoom) -> None:
    await room.add_worker()
    await drain(room, "machine", "here")
    await drain(room, "machine", "here")
    async with room.database.transaction() as session:
        assert len(await drains.listed(session)) == 1
        assert len(await drains.listed(session, is_open=False)) == 2


async def test_a_worker_that_was_seen_a_short_time_ago_is_known_but_not_live(room: EngineRoom) -> None:
    worker = await room.add_worker(devices=1)
    await room.execute("UPDATE worker SET last_seen_at = now() - interval '5 minutes' WHERE id = :id", id=worker)
    async with room.database.transaction() as session:
        seen = await capacity.workers(session, stale_s=30)
    assert ([item.id for item in seen.live], [item.id for item in seen.known]) == ([], [worker])


@pytest.mark.parametrize("scope", ["worker", "machine", "device"])
async def test_what_is_drained_is_known_however_long_it_is_off(room: EngineRoom, scope: drains.DrainScope) -> None:
    earlier, worker, other = [await room.add_worker(devices=devices) for devices in (1, 1, 2)]
    for same in (earlier, worker):  # two boots of one worker
        await room.execute("UPDATE worker SET name = 'w', queue = 'q', host = 'box' WHERE id = :id", id=same)
    await room.execute("UPDATE device SET uuid = 'other-' || no WHERE worker_id = :id", id=other)
    await room.execute("UPDATE worker SET last_seen_at = now() - interval '1 day', state = 'GONE'")
    await drain(room, scope, {"worker": "q", "machine": "box", "device": "g0"}[scope])
    async with room.database.transaction() as session:
        seen = await capacity.workers(session, stale_s=30)
    assert ([item.id for item in seen.live], [item.id for item in seen.known]) == ([], [worker])
    assert [device.uuid for item in seen.known for device in item.devices] == ["g0"]
    async with room.database.transaction() as session:
        await drains.end(session, scope=scope, name={"worker": "q", "machine": "box", "device": "g0"}[scope], by="bert")
        assert (await capacity.workers(session, stale_s=30)).known == ()


async def test_the_last_registration_is_that_of_a_known_worker_with_devices(room: EngineRoom) -> None:
    async def joined_s() -> float:
        async with room.database.transaction() as session:
            return (await capacity.workers(session, stale_s=30)).joined_s

    await room.add_worker("evaluation")
    assert await joined_s() == math.inf
    first, second = [await room.add_worker(devices=1) for _ in range(2)]
    for worker, ago in ((first, 900), (second, 40)):
        await room.execute(f"UPDATE worker SET registered_at = now() - interval '{ago} s' WHERE id = :id", id=worker)
    assert await joined_s() == pytest.approx(40, abs=5)


async def measure(room: EngineRoom, job_id: UUID, ordinals: list[int], *, whole_s: float, answering_s: float) -> None:
    """Do a job as a worker does it: its claim lasts `whole_s`, of which these answers took `answering_s`."""
    held = await room.take(job_id, await room.add_worker())
    await room.append(held, ordinals)
    async with room.database.transaction() as session:
        measured = claims.ClaimRecord(client={"answers": len(ordinals), "answering_s": answering_s})
        await claims.record(session, held.claim_id, measured)
    await room.finish(held, Complete())
    started = "UPDATE claim SET started_at = ended_at - make_interval(secs => :whole) WHERE id = :id"
    await room.execute(started, id=held.claim_id, whole=whole_s)


async def test_the_time_of_an_answer_or_a_verdict_is_that_of_finished_jobs_after_their_start(room: EngineRoom) -> None:
    run, shards = await room.shards(run_spec(samples_per_shard=3), samples=4)
    await measure(room, shards[0].id, [0, 1, 2], whole_s=66, answering_s=6)
    await measure(room, shards[1].id, [3], whole_s=26, answering_s=6)
    digest = run.pinned_spec().target_digest
    paces = Paces(
        mean=Pace(answer_s=3.0, start_s=40.0),
        fastest=Pace(answer_s=2.0, start_s=20.0),
        slowest=Pace(answer_s=6.0, start_s=60.0),
    )
    async with room.database.transaction() as session:
        known = await durations.measured_paces(session, [digest], project_id="p")
        assert await durations.answer_paces(session, [digest], project_id="another") == {}
        answers = await durations.answer_paces(session, [digest, "other"], project_id="p")
        assert await durations.recent_paces(session, [digest, "other"]) == {digest: paces.mean}
    assert answers == {digest: paces}
    assert known == {(digest, "reading"): paces}
    await room.execute("UPDATE job SET kind = 'JUDGE' WHERE run_id = :id", id=run.id)
    async with room.database.transaction() as session:
        assert await durations.measured_paces(session, [digest], project_id="p") == {}
        verdicts = await durations.verdict_paces(session, [digest, "other"], project_id="p")
        assert await durations.verdict_paces(session, [digest], project_id="another") == {}
    assert verdicts == {digest: paces}


async def test_rows_that_the_last_claim_has_not_asked_make_no_job_fast(room: EngineRoom) -> None:
    run, [shard] = await room.shards(run_spec(), samples=100)
    preempted = await room.take(shard.id, await room.add_worker())
    await room.append(preempted, list(range(40)))
    await room.finish(preempted, Preempted(reason="drained"))
    reused = [
        ReusedFactView(
            run_id=run.id, phase=1, ordinal=no, source_run_id=run.id, source_phase=1, source_ordinal=no, is_ok=True
        )
        for no in range(40, 95)
    ]
    async with room.database.transaction() as session:
        await reuse.add_to_shard(session, shard.id, reused)
    await measure(room, shard.id, list(range(95, 100)), whole_s=70, answering_s=10)
    assert (await room.job(shard.id)).done == 100
    digest = run.pinned_spec().target_digest
    async with room.database.transaction() as session:
        [paces] = (await durations.measured_paces(session, [digest], project_id="p")).values()
        recent = await durations.recent_paces(session, [digest])
    assert paces.mean == paces.slowest == recent[digest] == Pace(answer_s=2.0, start_s=60.0)


async def test_a_job_that_asked_nothing_tells_no_time(room: EngineRoom) -> None:
    run, [shard] = await room.shards(run_spec(), samples=1)
    held = await room.take(shard.id, await room.add_worker())
    await room.append(held, [0])
    await room.finish(held, Complete())
    digest = run.pinned_spec().target_digest
    async with room.database.transaction() as session:
        assert await durations.measured_paces(session, [digest], project_id="p") == {}
        assert await durations.recent_paces(session, [digest]) == {}


async def test_the_plan_behind_a_job_is_the_open_runs_of_its_experiment_with_what_has_begun(room: EngineRoom) -> None:
    first, second = run_spec(model="first"), run_spec(model="second")
    experiment_id, (begun, _) = await room.add_experiment(first, second)
    await room.shards(run_spec(model="of another run"))

    async def plan() -> list[OpenRun]:
        async with room.database.transaction() as session:
            return await reservations.plan_of(session, begun.id)

    assert next_uses([second.target_digest], await plan()) == [second.target_digest, first.target_digest]
    assert next_uses([], await plan()) == [first.target_digest, second.target_digest]
    await room.index(experiment_id)
    assert (len(await plan()), next_uses([], await plan())) == (2, [])
    await room.execute("UPDATE run SET finished_at = now() WHERE id = :run", run=begun.id)
    assert [run.spec.target_digest for run in await plan()] == [second.target_digest]
