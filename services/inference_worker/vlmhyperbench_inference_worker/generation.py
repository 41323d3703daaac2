"""A job that asks a target, step by step: bring the target up, reuse rows, probe, plan, drive, close."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping

from vlmhyperbench.db import reservations
from vlmhyperbench.db.claims import ClaimRecord
from vlmhyperbench.domain.outcomes import Complete, Outcome, Preempted
from vlmhyperbench.domain.steps import StepKind
from vlmhyperbench.errors import OutOfMemory, TargetRefused
from vlmhyperbench.logs import get_logger
from vlmhyperbench.monitoring.tracing import span
from vlmhyperbench.worker.claims import ClaimedJob
from vlmhyperbench_inference_worker.bench import Bench
from vlmhyperbench_inference_worker.cost import record_cost, sending
from vlmhyperbench_inference_worker.details import Details
from vlmhyperbench_inference_worker.drive import Driven, EngineLost, drive
from vlmhyperbench_inference_worker.evidence import ClaimFolder, gateway_log_of
from vlmhyperbench_inference_worker.fleet import Fleet
from vlmhyperbench_inference_worker.holding import LOAD_TIMEOUT_S
from vlmhyperbench_inference_worker.judging import read_judging
from vlmhyperbench_inference_worker.loading import bring_up
from vlmhyperbench_inference_worker.members import is_idle, read_member, write_without_asking
from vlmhyperbench_inference_worker.plan import Load, plan_load
from vlmhyperbench_inference_worker.probing import probe
from vlmhyperbench_inference_worker.reading import read_work
from vlmhyperbench_inference_worker.refusals import check_refusals
from vlmhyperbench_inference_worker.reuse import replay_rows, reuse_rows
from vlmhyperbench_inference_worker.room import Room, record_peak, room_of
from vlmhyperbench_inference_worker.serving import is_to_be_rented
from vlmhyperbench_inference_worker.sink import Sink, write_unsent
from vlmhyperbench_inference_worker.watch import Watch
from vlmhyperbench_inference_worker.work import Work

_LOG = get_logger(__name__)
NEEDS_MORE_MEMORY = "needs_more_memory"
"""Reason why a job returns to the scheduler: its target needs more than was known when its devices were reserved."""

READERS: Mapping[StepKind, Callable[[ClaimedJob], Awaitable[Work]]] = {
    StepKind.GENERATE: read_work,
    StepKind.JUDGE: read_judging,
    StepKind.MEMBER: read_member,
}
"""Reads the work of a job, by the kind of its step."""


async def handle_generate(job: ClaimedJob, *, bench: Bench) -> Outcome:
    """Do one job that asks a target; the entry of the inference worker."""
    await bench.evidence.recover(job.runtime, in_use=bench.fleet.engine_logs)
    work = await replay_rows(job, await READERS[job.job.kind](job))
    if not work.missing:
        return Complete(data={"requests": 0})
    if is_idle(work, phase=job.job.phase):
        return await write_without_asking(job, work)
    folder, has_asked = bench.evidence.open(job), True
    try:
        room = await room_of(job, bench.devices)
        watched = room.devices or bench.devices
        async with (
            Watch(watched, file=folder.samples, is_elsewhere=is_to_be_rented(work.spec.target)) as watch,
            Details(job, watch, lambda ordinal: work.sample_of(ordinal).key) as details,
        ):
            details.follow_log("engine", folder.engine_log, since=0)
            details.follow_log("gateway", gateway_log_of(folder.engine_log), since=0)
            outcome = await _generate(job, work, bench, watch, folder, room, details)
            await _unload_after(job, bench.fleet)
            _LOG.info("job.ended", outcome=type(outcome).__name__.lower())
            has_asked = not isinstance(outcome, Complete) or outcome.data.get("requests") != 0
            return outcome
    except (EngineLost, TargetRefused) as error:
        if error.code == OutOfMemory.code:
            bench.fleet.note_out_of_memory(job.job.id, job.claim_id)
        await bench.fleet.discard(job.claim_id)
        raise
    except asyncio.CancelledError:
        if job.has_stalled:
            await bench.fleet.discard(job.claim_id)  # an engine that hangs still accepts connections
        raise
    finally:
        bench.fleet.release(job.claim_id)
        bench.standby.refill()
        await folder.close(job, is_needed=has_asked)


async def _generate(
    job: ClaimedJob, work: Work, bench: Bench, watch: Watch, folder: ClaimFolder, room: Room, details: Details
) -> Outcome:
    with span("bring up target"):
        with job.extended_stall_limit(LOAD_TIMEOUT_S):
            await bench.fleet.enter(job.claim_id)
        serving = await bring_up(job, work, bench, watch, folder, room)
    _LOG.info("target.ready" if serving is not None else "target.needs_more_memory", samples=len(work.missing))
    if serving is None:
        return Preempted(reason=NEEDS_MORE_MEMORY)
    engine_log = serving.engine_log
    if engine_log is not None and engine_log != folder.engine_log:  # another claim has loaded it
        details.follow_log("engine", engine_log)
        details.follow_log("gateway", gateway_log_of(engine_log))
    work = await reuse_rows(job, work, None if serving.is_lossy else serving.engine)
    if not work.missing:
        return Complete(data={"requests": 0})
    if job.interruption is not None:
        return job.interruption
    async with sending(job, bench.ground) as neighbours:
        with span("probe"):
            await probe(job, work, serving, bench.standby)
        if job.interruption is not None:
            return job.interruption
        async with bench.standby.lend() as process:
            load, sink = await plan_load(job, work, serving, process), Sink.of_claim(job, serving, process, watch)
            if work.spec.stop is None or not load.phases.requests:
                await write_unsent(job, work, sink, phase=load.phases.measured)
            if not load.phases.requests:
                return Complete(data={"requests": 0, "phase": load.phases.measured})
            # One span for all requests: one for each would take time from the loop that is measured.
            _LOG.info("requests.begin", count=len(load.phases.requests), phase=load.phases.measured)
            with span("requests", {"requests": len(load.phases.requests), "phase": load.phases.measured}):
                driven = await drive(job, load, sink, watch, details)
            await record_cost(job, driven, watch, neighbours)
            await record_peak(job, room, watch, serving, resident=bench.fleet.resident)
            return await _close(job, work, load, sink, driven)


async def _close(job: ClaimedJob, work: Work, load: Load, sink: Sink, driven: Driven) -> Outcome:
    """End a job whose load generator has ended, after a check that its rows say something about the model."""
    phase, interruption = load.phases.measured, job.interruption
    if isinstance(interruption, Preempted):
        return interruption
    if interruption is None and driven.failure is not None:
        raise driven.failure
    if work.spec.stop is not None:
        # A job that stopped has not reached the samples behind the last one that it asked, readable or not.
        await write_unsent(job, work, sink, until=driven.ordinals if interruption else None, phase=phase)
    await check_refusals(job, load.serving, phase=phase, is_last=interruption is not None or work.is_timed)
    return interruption or Complete(data={"requests": len(work.readable), "phase": phase})


async def _unload_after(job: ClaimedJob, fleet: Fleet) -> None:
    """Unload what a claim has used if its pipeline is sequential, unless another job waits for it; record what is back.

    Raises:
        Fenced: the claim is lost.
    """
    for digest in fleet.leave_sequential(job.claim_id):
        async with job.runtime.database.transaction() as session:
            if await reservations.wanted_next(session, [digest]):
                continue
        unloaded = await fleet.unload(digest)
        if unloaded is not None:
            told = {"memory_held_bytes": unloaded.held, "memory_back_bytes": unloaded.back}
            async with fleet.recording:
                await job.record_target(fleet.resident, ClaimRecord(resources=told))
