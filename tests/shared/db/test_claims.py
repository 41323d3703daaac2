"""The fence: which claims may be taken, renewed, written under and finished, and the effects of each."""

from __future__ import annotations

import asyncio
from uuid import uuid4

import pytest

from tests.shared.domain.builders_of_jobs import run_spec
from tests.support.engine_room import EngineRoom, Held
from tests.support.wording import Wording
from vlmhyperbench.db import claim_phases, claims, finishing, runs
from vlmhyperbench.db.claims import ClaimRecord
from vlmhyperbench.db.engine import Database
from vlmhyperbench.db.owners import lock_of_job
from vlmhyperbench.domain.outcomes import Cancelled, Complete, Failed, Preempted, Stopped
from vlmhyperbench.domain.scenarios import ScenarioSpec
from vlmhyperbench.domain.states import JobState, PhaseState, RunState
from vlmhyperbench.errors import STORAGE_FULL, Conflict

pytestmark = pytest.mark.anyio

SINGLE_STREAM = ScenarioSpec(name="single-stream", kind="single_stream", requests=2)


@pytest.fixture
def room(database: Database) -> EngineRoom:
    return EngineRoom(database)


async def test_a_claim_runs_the_job_and_its_run(room: EngineRoom) -> None:
    run, [shard] = await room.shards()
    held = await room.take(shard.id, await room.add_worker())
    assert held.job.state is JobState.RUNNING
    assert held.job.claim_id == held.claim_id
    assert (await room.run(run.id)).state is RunState.RUNNING
    assert (await room.run(run.id)).started_at is not None


async def test_claiming_twice_with_one_claim_id_has_no_effect(room: EngineRoom) -> None:
    run, [shard] = await room.shards()
    worker, claim_id = await room.add_worker(), uuid4()
    attempt = await room.assign(shard.id, worker)
    assert attempt is not None
    first = await room.claim(shard.id, attempt, worker, claim_id=claim_id)
    again = await room.claim(shard.id, attempt, worker, claim_id=claim_id)
    assert first is not None
    assert again is not None
    assert [event.type for event in await room.events(run.id)].count("job.claimed") == 2  # INDEX, and this one


async def test_another_claim_of_a_running_job_is_refused(room: EngineRoom) -> None:
    _, [shard] = await room.shards()
    worker = await room.add_worker()
    attempt = await room.assign(shard.id, worker)
    assert attempt is not None
    assert await room.claim(shard.id, attempt, worker) is not None
    assert await room.claim(shard.id, attempt, worker) is None


async def test_only_one_of_two_concurrent_claims_succeeds(room: EngineRoom) -> None:
    _, [shard] = await room.shards()
    worker = await room.add_worker()
    attempt = await room.assign(shard.id, worker)
    assert attempt is not None
    taken = await asyncio.gather(*(room.claim(shard.id, attempt, worker) for _ in range(4)))
    assert sum(held is not None for held in taken) == 1


async def test_a_stale_attempt_and_a_foreign_worker_are_refused(room: EngineRoom) -> None:
    _, [shard] = await room.shards()
    worker, stranger = await room.add_worker(), await room.add_worker()
    attempt = await room.assign(shard.id, worker)
    assert attempt is not None
    assert await room.claim(shard.id, uuid4(), worker) is None
    assert await room.claim(shard.id, attempt, stranger) is None
    assert await room.claim(uuid4(), attempt, worker) is None


async def test_no_job_of_a_cancelled_run_is_claimed(room: EngineRoom) -> None:
    run, [shard] = await room.shards()
    worker = await room.add_worker()
    attempt = await room.assign(shard.id, worker)
    assert attempt is not None
    await room.cancel(run.id)
    assert await room.claim(shard.id, attempt, worker) is None


async def test_a_renewal_says_that_the_run_was_cancelled_or_paused(room: EngineRoom) -> None:
    run, [shard] = await room.shards()
    held = await room.take(shard.id, await room.add_worker())
    assert await room.renew(held) == claims.Renewed(is_cancelled=False, is_paused=False, is_stopping=False)
    await room.execute("UPDATE run SET is_paused = true WHERE id = :id", id=run.id)
    assert await room.renew(held) == claims.Renewed(is_cancelled=False, is_paused=True, is_stopping=False)
    await room.cancel(run.id)
    assert await room.renew(held) == claims.Renewed(is_cancelled=True, is_paused=True, is_stopping=False)


async def test_a_renewal_extends_the_lease_by_the_databases_clock(room: EngineRoom) -> None:
    _, [shard] = await room.shards()
    held = await room.take(shard.id, await room.add_worker(), lease_s=1)
    await room.renew(held, lease_s=3600)
    left = await room.scalar("SELECT lease_until - now() > interval '30 min' FROM job WHERE id = :id", id=shard.id)
    assert left is True


async def _lose(room: EngineRoom, held: Held) -> None:
    await room.let_lease_expire(held.job.id)
    await room.reap()


async def test_a_lost_claim_writes_nothing(room: EngineRoom) -> None:
    _, [shard] = await room.shards()
    held = await room.take(shard.id, await room.add_worker())
    await _lose(room, held)
    assert await room.renew(held) is None
    assert await room.append(held, [0]) is None
    assert await room.finish(held, Complete()) is None
    async with room.database.transaction() as session:
        assert await claims.hold(session, job_id=shard.id, claim_id=held.claim_id) is None
        assert await claims.hold(session, job_id=uuid4(), claim_id=held.claim_id) is None
    assert await room.scalar("SELECT count(*) FROM fact WHERE run_id = :run", run=shard.run_id) == 0


async def test_a_shard_is_complete_only_when_it_has_every_row(room: EngineRoom, wording: Wording) -> None:
    _, [shard] = await room.shards(samples=3)
    held = await room.take(shard.id, await room.add_worker())
    await room.append(held, [0, 1])
    assert await room.finish(held, Complete()) is JobState.READY
    outcome = (await room.job(shard.id)).outcome
    assert outcome is not None
    assert (outcome["kind"], outcome["code"], outcome["fails"]) == ("failed", "incomplete", 1)
    wording(outcome["message"])
    held = await room.take(shard.id, await room.add_worker())
    async with room.database.transaction() as session:
        assert await claims.missing_ordinals(session, held.job) == [2]
    await room.append(held, [2])
    assert await room.finish(held, Complete()) is JobState.DONE


async def test_reused_rows_count_as_present(room: EngineRoom) -> None:
    run, [shard] = await room.shards(samples=2)
    held = await room.take(shard.id, await room.add_worker())
    await room.append(held, [0])
    await room.execute(
        "INSERT INTO reused_fact (run_id, phase, ordinal, source_run_id, source_phase, source_ordinal, is_ok)"
        " VALUES (:run, 1, 1, :run, 1, 0, true)",
        run=run.id,
    )
    async with room.database.transaction() as session:
        assert await claims.missing_ordinals(session, held.job) == []
    assert await room.finish(held, Complete()) is JobState.DONE


async def test_a_preempted_job_is_requeued_without_counting_a_failure(room: EngineRoom) -> None:
    _, [shard] = await room.shards()
    held = await room.take(shard.id, await room.add_worker())
    assert await room.finish(held, Preempted()) is JobState.READY
    job = await room.job(shard.id)
    assert (job.fails, job.claim_id, job.worker_id, job.attempt_id, job.lease_until) == (0, None, None, None, None)


async def test_a_full_disk_raises_an_alert_and_the_job_waits_a_while(room: EngineRoom) -> None:
    run, [shard] = await room.shards()
    held = await room.take(shard.id, await room.add_worker())
    assert await room.finish(held, Preempted(reason=STORAGE_FULL)) is JobState.READY
    job = await room.job(shard.id)
    assert job.fails == 0
    pause = "SELECT not_before - ended_at > interval '5 s' FROM claim JOIN job ON job.id = job_id WHERE claim.id = :id"
    assert await room.scalar(pause, id=held.claim_id)
    alerts = [event for event in await room.events(run.id) if event.type == "alert.raised"]
    assert [alert.data["code"] for alert in alerts] == [STORAGE_FULL]


async def test_a_job_that_never_starts_fails_its_run_at_the_third_failure(room: EngineRoom) -> None:
    run, [shard] = await room.shards()
    worker, states = await room.add_worker(), []
    for _ in range(3):
        held = await room.take(shard.id, worker)
        states.append(await room.finish(held, Failed(code="load_failed", message="reason")))
    assert states == [JobState.READY, JobState.READY, JobState.FAILED]
    await room.advance()
    failed = await room.run(run.id)
    assert (failed.state, failed.reason) == (RunState.FAILED, "inference: reason")
    assert {job.state for job in await room.jobs_of(run.id) if job.kind in {"SCORE", "REPORT"}} == {JobState.CANCELLED}


async def test_a_committed_chunk_resets_the_count_of_failures(room: EngineRoom) -> None:
    _, [shard] = await room.shards()
    worker = await room.add_worker()
    for ordinal in range(3):
        held = await room.take(shard.id, worker)
        await room.append(held, [ordinal])
        assert await room.finish(held, Failed(code="crash", message="gone")) is JobState.READY
    assert (await room.job(shard.id)).fails == 1


async def test_a_permanent_failure_ends_the_job_at_once(room: EngineRoom) -> None:
    _, [shard] = await room.shards()
    held = await room.take(shard.id, await room.add_worker())
    outcome = Failed(code="invalid_input", message="No such parameter.", permanent=True)
    assert await room.finish(held, outcome) is JobState.FAILED


async def test_a_failure_whose_message_has_a_nul_is_stored(room: EngineRoom) -> None:
    _, [shard] = await room.shards()
    held = await room.take(shard.id, await room.add_worker())
    await room.finish(held, Failed(code="crash", message="a\0b \\u0000 \ud800"))
    outcome = (await room.job(shard.id)).outcome or {}
    assert outcome["message"] == "a\N{REPLACEMENT CHARACTER}b \\u0000 ?"


async def test_a_stopped_job_is_done_with_its_rule_and_the_number_of_samples(room: EngineRoom) -> None:
    run, [shard] = await room.shards()
    held = await room.take(shard.id, await room.add_worker())
    async with room.database.transaction() as session:
        assert await runs.stop(session, run.id, {"rule": "better by 0 on m@v1", "samples": 3, "of": 4, "low": 0.1})
        assert not await runs.stop(session, run.id, {"rule": "another", "samples": 1, "of": 4})
    renewed = await room.renew(held)
    assert renewed is not None
    assert renewed.is_stopping
    assert await room.finish(held, Stopped()) is JobState.DONE
    at = {"samples": 3, "of": 4}
    assert (await room.job(shard.id)).outcome == {"kind": "stopped", "reason": "better by 0 on m@v1", "at": at}


async def test_a_worker_cannot_stop_a_job_without_a_decision_of_the_rule(room: EngineRoom) -> None:
    _, [shard] = await room.shards()
    held = await room.take(shard.id, await room.add_worker())
    assert await room.finish(held, Stopped()) is JobState.READY


async def test_a_claim_of_a_cancelled_run_ends_as_cancelled_with_any_outcome(room: EngineRoom) -> None:
    run, [shard] = await room.shards()
    held = await room.take(shard.id, await room.add_worker())
    await room.cancel(run.id)
    assert await room.finish(held, Preempted()) is JobState.CANCELLED
    assert await room.finish(held, Cancelled()) is None


async def test_a_worker_cannot_cancel_a_job_of_a_run_that_is_not_cancelled(room: EngineRoom) -> None:
    _, [shard] = await room.shards()
    held = await room.take(shard.id, await room.add_worker())
    assert await room.finish(held, Cancelled()) is JobState.READY


async def test_an_interrupted_single_stream_restarts_in_another_phase(room: EngineRoom) -> None:
    run, [job] = await room.shards(run_spec(scenario=SINGLE_STREAM))
    worker = await room.add_worker()
    first = await room.take(job.id, worker)
    assert await _open(room, first, "warmup") == 1
    assert await _open(room, first, "single_stream") == 2
    await room.append(first, [0], phase=1)
    await room.append(first, [0], phase=2)
    assert (await room.job(job.id)).done == 1  # the warm-up does not count
    await _lose(room, first)
    second = await room.take(job.id, worker)
    assert (second.job.phase, second.job.done) == (None, 0)
    assert await _open(room, second, "single_stream") == 3
    await room.append(second, [0, 1], phase=3)
    assert await room.finish(second, Complete()) is JobState.DONE
    states = [
        await room.scalar("SELECT state FROM phase WHERE run_id = :run AND no = :no", run=run.id, no=no)
        for no in (1, 2, 3)
    ]
    assert states == ["VOID", "VOID", "COMPLETE"]


async def test_a_claim_closes_its_own_phase_once(room: EngineRoom) -> None:
    run, [job] = await room.shards(run_spec(scenario=SINGLE_STREAM))
    held = await room.take(job.id, await room.add_worker())
    no = await _open(room, held, "warmup")
    await _close(room, held, no, PhaseState.COMPLETE)
    await _close(room, held, no, PhaseState.COMPLETE)
    with pytest.raises(Conflict, match="phase 1"):
        await _close(room, held, no, PhaseState.VOID)
    assert [event.type for event in await room.events(run.id)].count("phase.complete") == 1


async def _open(room: EngineRoom, held: Held, kind: str) -> int:
    assert held.job.run_id is not None
    async with room.database.transaction() as session:
        await claims.hold(session, job_id=held.job.id, claim_id=held.claim_id)
        return await claim_phases.open_of_claim(
            session, held.job.run_id, held.job.id, held.claim_id, kind=kind, params={}, count=2, is_own=kind != "warmup"
        )


async def _close(room: EngineRoom, held: Held, no: int, state: PhaseState) -> None:
    assert held.job.run_id is not None
    async with room.database.transaction() as session:
        await claims.hold(session, job_id=held.job.id, claim_id=held.claim_id)
        await claim_phases.close_phase(session, held.job.run_id, held.claim_id, no=no, state=state, count=2)


async def test_evidence_of_a_claim_is_added_in_steps(room: EngineRoom) -> None:
    _, [shard] = await room.shards()
    held = await room.take(shard.id, await room.add_worker())
    async with room.database.transaction() as session:
        await claims.record(session, held.claim_id, ClaimRecord(engine={"name": "simulated"}, anchor_wall_ns=5))
        await claims.record(session, held.claim_id, ClaimRecord(machine={"cpu_cores": 2}, measured_at="engine"))
    assert await room.scalar("SELECT engine ->> 'name' FROM claim WHERE id = :id", id=held.claim_id) == "simulated"
    assert await room.scalar("SELECT anchor_wall_ns FROM claim WHERE id = :id", id=held.claim_id) == 5
    assert await room.scalar("SELECT measured_at FROM claim WHERE id = :id", id=held.claim_id) == "engine"


async def test_evidence_of_a_claim_does_not_change_an_earlier_claim_of_its_job(room: EngineRoom) -> None:
    _, [shard] = await room.shards()
    first = await room.take(shard.id, await room.add_worker())
    await _lose(room, first)
    second = await room.take(shard.id, await room.add_worker())
    async with room.database.transaction() as session:
        await claims.record(session, second.claim_id, ClaimRecord(engine={"name": "new"}, sending_from_ns=7))
    for held, shown in ((first, (None, None)), (second, ("new", 7))):
        result = [
            await room.scalar(f"SELECT {column} FROM claim WHERE id = :id", id=held.claim_id)
            for column in ("engine ->> 'name'", "sending_from_ns")
        ]
        assert tuple(result) == shown


async def test_a_claim_that_is_renewed_before_it_is_reaped_continues(room: EngineRoom) -> None:
    _, [shard] = await room.shards()
    held = await room.take(shard.id, await room.add_worker())
    async with room.database.transaction() as session:
        owner = await lock_of_job(session, shard.id)
        assert owner is not None
        assert await finishing.expire(session, owner, shard.id, grace_s=0, draw=0) is None
    now = await room.job(shard.id)
    assert (now.state, now.claim_id) == (JobState.RUNNING, held.claim_id)


async def test_the_end_of_a_claim_frees_its_device_and_is_recorded(room: EngineRoom) -> None:
    for outcome in (Preempted(), Failed(code="x", message="x", permanent=True), None):
        _, [shard] = await room.shards()
        worker = await room.add_worker(devices=1)
        attempt = await room.assign(shard.id, worker, device=0)
        assert attempt is not None
        held = await room.claim(shard.id, attempt, worker)
        assert held is not None
        assert await room.scalar("SELECT count(*) FROM reservation") == 1
        if outcome is None:
            await _lose(room, held)
        else:
            await room.finish(held, outcome)
        assert await room.scalar("SELECT count(*) FROM reservation") == 0
        assert await room.scalar("SELECT ended_at IS NOT NULL FROM claim WHERE id = :id", id=held.claim_id)


async def test_rows_of_other_phases_do_not_reset_the_count_of_failures(room: EngineRoom) -> None:
    _, [shard] = await room.shards()
    held = await room.take(shard.id, await room.add_worker())
    await room.execute("UPDATE job SET fails = 2 WHERE id = :id", id=shard.id)
    no = await _open(room, held, "warmup")
    await room.append(held, [0], phase=no)
    assert (await room.job(shard.id)).fails == 2
    await room.append(held, [0], phase=1)
    assert (await room.job(shard.id)).fails == 0


async def test_the_other_shards_are_summed_up(room: EngineRoom) -> None:
    run, shards = await room.shards(run_spec(samples_per_shard=2), samples=4)
    held = await room.take(shards[0].id, await room.add_worker())
    await room.append(held, [0, 1])
    async with room.database.transaction() as session:
        assert await claims.other_shards(session, run.id, shards[1].id) == claims.Shards(done=2, failed=0, total=4)


async def test_a_worker_records_which_targets_it_has_loaded(room: EngineRoom) -> None:
    worker = await room.add_worker()
    async with room.database.transaction() as session:
        await claims.set_resident(session, worker, ["t"])
    assert await room.scalar("SELECT resident FROM worker WHERE id = :id", id=worker) == ["t"]
