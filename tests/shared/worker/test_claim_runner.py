"""A running claim: the outcomes of its handler, the loss of its lease, and the events."""

from __future__ import annotations

import asyncio
import builtins
import errno
import json
import logging
import os
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any, cast
from urllib.parse import quote
from uuid import uuid4

import pytest

from tests.shared.domain.builders_of_jobs import run_spec
from tests.support.engine_room import EngineRoom
from tests.support.processes import PATIENCE_S
from vlmhyperbench.db import artifacts, events
from vlmhyperbench.db.claims import ClaimRecord
from vlmhyperbench.domain.outcomes import Complete, Outcome, Preempted
from vlmhyperbench.domain.specs import Limits
from vlmhyperbench.domain.states import JobState, PhaseState
from vlmhyperbench.domain.steps import StepKind
from vlmhyperbench.errors import STORAGE_FULL, Fenced, InvalidInput, Unavailable
from vlmhyperbench.logs import configure_logging, hide, unhide
from vlmhyperbench.runtime import Runtime, open_runtime
from vlmhyperbench.settings import Settings
from vlmhyperbench.worker import claim_runner
from vlmhyperbench.worker.children import CpuChildren
from vlmhyperbench.worker.claim_runner import ClaimRunner
from vlmhyperbench.worker.claims import ClaimedJob, Handler, WorkerContext

pytestmark = pytest.mark.anyio

QUICK = {
    "heartbeat_s": 0.1,
    "self_fence_s": PATIENCE_S,
    "statement_timeout_s": PATIENCE_S,
    "kill_s": 0.1,
    "lease_s": 3 * PATIENCE_S,
    "cancel_term_s": 0.1,
}
"""What a test waits for comes soon; a claim that it does not wait to lose is never lost to a busy machine."""


@pytest.fixture
async def runtime(tmp_path: Path, fresh_database_url: str, redis_url: str) -> AsyncIterator[Runtime]:
    values = {"home": tmp_path, "database_url": fresh_database_url, "redis_url": redis_url, "timers": QUICK}
    async with open_runtime(Settings.model_validate(values)) as runtime:
        yield runtime


@pytest.fixture
def room(runtime: Runtime) -> EngineRoom:
    return EngineRoom(runtime.database)


STALL_S = 0.2
HASTY = Limits(request_timeout_s=STALL_S / 2, tries=1)
"""A run whose requests may keep a job silent for hardly any time."""


async def claimed(
    room: EngineRoom, runtime: Runtime, *, settings: Settings | None = None, limits: Limits | None = None
) -> ClaimedJob:
    spec = run_spec(metrics=(), reports=())
    _, [shard] = await room.shards(spec.model_copy(update={"limits": limits or spec.limits}), samples=2)
    worker_id = await room.add_worker()
    held = await room.take(shard.id, worker_id)
    context = WorkerContext(
        worker_id=worker_id,
        boot_id=uuid4(),
        name="w",
        runtime=runtime,
        settings=settings or runtime.settings,
        label={},
    )
    return ClaimedJob(held.job, claim_id=held.claim_id, context=context, cpu=CpuChildren())


def runner_of(job: ClaimedJob, handler: Handler) -> ClaimRunner:
    return ClaimRunner(job, handler, sent_at=time.monotonic())


async def forever(job: ClaimedJob) -> Outcome:
    await asyncio.Event().wait()
    return Complete()


def raising(error: Exception) -> Handler:
    async def handler(job: ClaimedJob) -> Outcome:
        raise error

    return handler


async def failure_of(room: EngineRoom, job: ClaimedJob) -> dict[str, Any]:
    found = await room.scalar("SELECT failure FROM claim WHERE id = :id", id=job.claim_id)
    return cast("dict[str, Any]", found or {})


async def written_outcome(room: EngineRoom, job: ClaimedJob) -> dict[str, Any]:
    return dict((await room.job(job.job.id)).outcome or {})


async def test_a_permanent_error_fails_at_once_with_its_message_and_cure(room: EngineRoom, runtime: Runtime) -> None:
    job = await claimed(room, runtime)
    error = InvalidInput("message", cure="cure")
    finished = await runner_of(job, raising(error)).run()
    assert finished is not None
    assert finished.state is JobState.FAILED
    assert (await written_outcome(room, job))["message"] == str(error) == "message cure"


async def test_a_transient_error_is_tried_again(room: EngineRoom, runtime: Runtime) -> None:
    job = await claimed(room, runtime)
    finished = await runner_of(job, raising(Unavailable("Busy."))).run()
    assert finished is not None
    assert finished.state is JobState.READY


async def test_an_exception_group_is_reported_by_its_error_of_the_tree(room: EngineRoom, runtime: Runtime) -> None:
    job = await claimed(room, runtime)
    group = builtins.ExceptionGroup(
        "two", [ValueError("by the way"), builtins.ExceptionGroup("in", [Unavailable("Busy.")])]
    )
    await runner_of(job, raising(group)).run()
    assert (await written_outcome(room, job))["message"] == "Busy."


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.ENOSPC, "No space left on device"),
        Unavailable("There is no room.", code=STORAGE_FULL),
        builtins.ExceptionGroup("g", [OSError(errno.EDQUOT, "Disk quota exceeded")]),
    ],
)
async def test_a_full_disk_preempts_the_job_without_counting_a_failure(
    room: EngineRoom, runtime: Runtime, error: Exception
) -> None:
    job = await claimed(room, runtime)
    finished = await runner_of(job, raising(error)).run()
    assert finished is not None
    assert finished.state is JobState.READY
    assert await written_outcome(room, job) == {"kind": "preempted", "reason": STORAGE_FULL}
    assert (await room.job(job.job.id)).fails == 0


async def test_any_failure_on_a_full_disk_preempts_the_job(
    room: EngineRoom, runtime: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = await claimed(room, runtime)
    monkeypatch.setattr(claim_runner, "FULL_BYTES", 2**62)
    finished = await runner_of(job, raising(InvalidInput("A child says it in its own words."))).run()
    assert finished is not None
    assert finished.state is JobState.READY
    assert (await written_outcome(room, job))["reason"] == STORAGE_FULL


async def test_a_lost_claim_inside_a_group_of_errors_writes_nothing(room: EngineRoom, runtime: Runtime) -> None:
    job = await claimed(room, runtime)
    assert await runner_of(job, raising(builtins.ExceptionGroup("g", [ValueError("x"), Fenced("lost")]))).run() is None
    assert (await room.job(job.job.id)).state is JobState.RUNNING


async def test_an_outcome_that_is_not_json_is_a_crash(room: EngineRoom, runtime: Runtime) -> None:
    async def handler(job: ClaimedJob) -> Outcome:
        return Complete(data={"rate": float("nan")})

    job = await claimed(room, runtime)
    await runner_of(job, handler).run()
    assert (await written_outcome(room, job))["code"] == "crash"


async def test_a_handler_whose_claim_is_lost_is_cancelled(room: EngineRoom, runtime: Runtime) -> None:
    job = await claimed(room, runtime)
    await room.let_lease_expire(job.job.id)
    await room.reap()
    assert await runner_of(job, forever).run() is None
    assert job.fenced.is_set()
    assert (await room.job(job.job.id)).state is JobState.READY


async def test_a_handler_whose_lease_cannot_be_renewed_is_cancelled(room: EngineRoom, runtime: Runtime) -> None:
    job = await claimed(room, runtime)
    assert await ClaimRunner(job, forever, sent_at=time.monotonic() - 2 * PATIENCE_S).run() is None
    assert job.fenced.is_set()


def impatient(settings: Settings) -> Settings:
    return settings.model_copy(update={"timers": settings.timers.model_copy(update={"stall_s": STALL_S})})


async def test_a_job_that_commits_nothing_within_the_stall_limit_has_stalled(
    room: EngineRoom, runtime: Runtime
) -> None:
    job = await claimed(room, runtime, settings=impatient(runtime.settings), limits=HASTY)
    await runner_of(job, forever).run()
    assert (await written_outcome(room, job))["code"] == "stalled"
    assert job.has_stalled
    assert (await failure_of(room, job))["code"] == "stalled"


SECRET = "sk-runner/secret+value"


@pytest.mark.parametrize("kind", [Unavailable, RuntimeError], ids=["an error of the tree", "a crash with a traceback"])
async def test_a_secret_in_an_error_is_masked_in_the_outcome_and_in_the_log(
    room: EngineRoom, runtime: Runtime, capsys: pytest.CaptureFixture[str], kind: type[Exception]
) -> None:
    job = await claimed(room, runtime)
    before = logging.getLogger().handlers, logging.getLogger().level
    configure_logging("test", form="json")
    hide([SECRET])
    try:
        await runner_of(job, raising(kind(f"GET https://host/?key={quote(SECRET, safe='')} with {SECRET}"))).run()
    finally:
        unhide([SECRET])
        logging.getLogger().handlers, logging.getLogger().level = before
    shown = capsys.readouterr().err + json.dumps(await written_outcome(room, job))
    shown += json.dumps(await failure_of(room, job))
    assert shown.count("GET https://host/?key=******** with ********") >= 3
    assert SECRET not in shown
    assert quote(SECRET, safe="") not in shown


async def test_a_job_whose_requests_may_take_longer_has_not_stalled(room: EngineRoom, runtime: Runtime) -> None:
    limits = Limits(request_timeout_s=600, tries=5)
    job = await claimed(room, runtime, settings=impatient(runtime.settings), limits=limits)

    async def wait_for_an_answer(job: ClaimedJob) -> Outcome:
        await asyncio.sleep(5 * STALL_S)
        return Preempted(reason="answered")

    await runner_of(job, wait_for_an_answer).run()
    assert (await written_outcome(room, job))["reason"] == "answered"


async def test_a_job_that_commits_nothing_for_longer_than_its_requests_may_take_has_stalled(
    room: EngineRoom, runtime: Runtime
) -> None:
    limits = Limits(request_timeout_s=10 * STALL_S, tries=1)
    job = await claimed(room, runtime, settings=impatient(runtime.settings), limits=limits)
    await runner_of(job, forever).run()
    assert (await written_outcome(room, job))["code"] == "stalled"
    assert time.monotonic() - job.committed_at > 10 * STALL_S


async def test_a_job_whose_run_has_an_invalid_spec_stalls_at_the_timer(room: EngineRoom, runtime: Runtime) -> None:
    job = await claimed(room, runtime, settings=impatient(runtime.settings))
    await room.execute("UPDATE run SET spec = '{}' WHERE id = :id", id=job.run_id)
    await runner_of(job, forever).run()
    assert (await written_outcome(room, job))["code"] == "stalled"


async def test_a_job_without_requests_stalls_at_the_timer(room: EngineRoom, runtime: Runtime) -> None:
    job = await claimed(room, runtime, settings=impatient(runtime.settings))
    job.job = replace(job.job, kind=StepKind.IMPORT)
    await runner_of(job, forever).run()
    assert (await written_outcome(room, job))["code"] == "stalled"


async def test_a_job_that_loads_its_model_has_not_stalled(room: EngineRoom, runtime: Runtime) -> None:
    job = await claimed(room, runtime, settings=impatient(runtime.settings), limits=HASTY)
    loaded: list[bool] = []

    async def load_slowly(job: ClaimedJob) -> Outcome:
        with job.extended_stall_limit(60.0):
            await asyncio.sleep(5 * STALL_S)
        loaded.append(True)
        return await forever(job)

    await runner_of(job, load_slowly).run()
    assert loaded
    assert (await written_outcome(room, job))["code"] == "stalled"


async def test_a_job_that_prepares_shows_each_step_and_has_not_stalled(room: EngineRoom, runtime: Runtime) -> None:
    job = await claimed(room, runtime)
    before_s = time.monotonic()
    with job.preparing("environment", 60.0) as tell:
        assert job.committed_at >= before_s + 60.0
        await tell("installing", 12)
        shown = await runtime.bus.progress(job.stream_id)
    assert shown is not None
    assert (shown.stage, shown.done, shown.total) == ("environment: installing", 0, 12)
    assert before_s <= job.committed_at <= time.monotonic()


async def test_a_handler_whose_worker_ends_is_preempted(room: EngineRoom, runtime: Runtime) -> None:
    job = await claimed(room, runtime)
    began = asyncio.Event()

    async def handler(job: ClaimedJob) -> Outcome:
        began.set()
        return await forever(job)

    runner = runner_of(job, handler)
    running = asyncio.ensure_future(runner.run())
    await began.wait()
    runner.preempt()
    finished = await running
    assert finished is not None
    assert (finished.state, (await room.job(job.job.id)).fails) == (JobState.READY, 0)


async def test_a_paused_run_tells_its_handlers_to_drain(room: EngineRoom, runtime: Runtime) -> None:
    async def handler(job: ClaimedJob) -> Outcome:
        await job.draining.wait()
        return Preempted(reason="paused")

    job = await claimed(room, runtime)
    await room.execute("UPDATE run SET is_paused = true WHERE id = :id", id=job.run_id)
    finished = await runner_of(job, handler).run()
    assert finished is not None
    assert finished.state is JobState.READY


async def test_cancelling_a_run_ends_the_work_in_a_child(room: EngineRoom, runtime: Runtime) -> None:
    async def handler(job: ClaimedJob) -> Outcome:
        await job.run_cpu(time.sleep, 600)
        return Complete()

    job = await claimed(room, runtime)
    await room.cancel(job.run_id)
    finished = await runner_of(job, handler).run()
    assert finished is not None
    assert finished.state is JobState.CANCELLED


async def test_a_call_in_a_child_that_exceeds_its_limit_has_stalled(room: EngineRoom, runtime: Runtime) -> None:
    async def handler(job: ClaimedJob) -> Outcome:
        await job.run_cpu(time.sleep, 600)
        return Complete()

    job = await claimed(room, runtime)
    job = ClaimedJob(job.job, claim_id=job.claim_id, context=job.context, cpu=CpuChildren(limit_s=0.05))
    finished = await runner_of(job, handler).run()
    assert finished is not None
    assert (finished.state, (await written_outcome(room, job))["code"]) == (JobState.READY, "stalled")


async def test_a_child_of_a_job_computes(room: EngineRoom, runtime: Runtime) -> None:
    job = await claimed(room, runtime)
    assert await job.run_cpu(os.path.join, "a", "b") == "a/b"


async def test_all_writes_of_a_handler_are_fenced_and_published(room: EngineRoom, runtime: Runtime) -> None:
    job = await claimed(room, runtime)
    async with job.transaction() as session:
        await events.append(session, stream_id=job.stream_id, type="artifact.ready", data={"name": "a"})
        await artifacts.of_run(session, job.run_id)
    assert (await room.events(job.run_id))[-1].type == "artifact.ready"
    no = await job.open_phase("warmup", params={}, is_own=False)
    await job.close_phase(no, PhaseState.COMPLETE, count=0)
    await job.record_target(["t"], ClaimRecord(engine={"name": "simulated"}, measured_at="engine"))
    await job.progress(done=1, total=2)
    progress = await runtime.bus.progress(job.run_id)
    assert progress is not None
    assert (progress.done, progress.total, progress.stage) == (1, 2, "inference")
    await room.let_lease_expire(job.job.id)
    await room.reap()
    with pytest.raises(Fenced):
        async with job.transaction():
            pass


async def test_a_job_of_an_experiment_has_no_run(room: EngineRoom, runtime: Runtime) -> None:
    experiment_id, _ = await room.add_experiment(run_spec(model="a"), run_spec(model="b"))
    [index] = await room.jobs_of(experiment_id, StepKind.INDEX)
    held = await room.take(index.id, await room.add_worker("evaluation"))
    context = (await claimed(room, runtime)).context
    job = ClaimedJob(held.job, claim_id=held.claim_id, context=context, cpu=CpuChildren())
    assert job.stream_id == experiment_id
    with pytest.raises(LookupError):
        assert job.run_id
    await job.progress(done=1, total=1)
