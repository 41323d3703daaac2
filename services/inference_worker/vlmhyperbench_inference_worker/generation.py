"""GENERATE: bring the target up, ask every sample that has no row, commit what comes, say what it cost."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import asdict

from vlmhyperbench.domain.outcomes import Complete, Outcome, Preempted, Stopped
from vlmhyperbench.domain.planning import target_digest
from vlmhyperbench.domain.specs import ImportTarget
from vlmhyperbench.domain.states import PhaseState
from vlmhyperbench.domain.steps import StepKind
from vlmhyperbench.errors import Conflict, TargetRefused, Unavailable
from vlmhyperbench.load.neighbours import Neighbours, among_neighbours
from vlmhyperbench.load.process import END_SECONDS, LoadProcess
from vlmhyperbench.worker.claims import ClaimedJob
from vlmhyperbench.worker.devices import DeviceInfo
from vlmhyperbench.worker.ground import ground
from vlmhyperbench_inference_worker import plan
from vlmhyperbench_inference_worker.drive import Driven, EngineLost, drive
from vlmhyperbench_inference_worker.files import PARQUET, add, store
from vlmhyperbench_inference_worker.fleet import Fleet, gateway_options
from vlmhyperbench_inference_worker.judging import read_judging
from vlmhyperbench_inference_worker.keys import read_keys
from vlmhyperbench_inference_worker.phases import measured_kind, measured_params, open_phases
from vlmhyperbench_inference_worker.probing import probe
from vlmhyperbench_inference_worker.refusals import check_refusals
from vlmhyperbench_inference_worker.reserve import Reserve, end, folder_of
from vlmhyperbench_inference_worker.reuse import keep_equal
from vlmhyperbench_inference_worker.serving import Serving, WantedTarget
from vlmhyperbench_inference_worker.sink import Sink
from vlmhyperbench_inference_worker.watch import Watch, machine
from vlmhyperbench_inference_worker.work import Work, plan_requests, read_work

READERS: Mapping[StepKind, Callable[[ClaimedJob], Awaitable[Work]]] = {
    StepKind.GENERATE: read_work,
    StepKind.JUDGE: read_judging,
}
"""What each kind of step asks."""


async def handle_generate(job: ClaimedJob, *, fleet: Fleet, reserve: Reserve, devices: Sequence[DeviceInfo]) -> Outcome:
    """Do one GENERATE job; the door of the inference worker."""
    try:
        async with Watch(devices) as watch:
            return await _generate(job, fleet, reserve, watch, devices)
    except (EngineLost, TargetRefused):
        await fleet.discard()
        raise
    finally:
        reserve.refill()


async def _generate(
    job: ClaimedJob, fleet: Fleet, reserve: Reserve, watch: Watch, devices: Sequence[DeviceInfo]
) -> Outcome:
    work = await READERS[job.job.kind](job)
    if not work.missing:
        return Complete(data={"requests": 0})
    async with AsyncExitStack() as stack:
        reserve.refill()  # it starts while the target is loaded
        wanted = await _wanted(job, work)
        with job.loading(wanted.load_timeout_s):
            serving = await fleet.acquire(wanted, gateway_options(job.context))
        await job.set_resident(fleet.resident)
        engine = serving.engine
        watch.engine_pid = engine.pid if engine else None
        stands_on = ground(devices, pids=[engine.pid] if engine and engine.pid is not None else [])
        await job.record_claim(
            engine=asdict(engine) if engine else None,
            machine=machine(devices),
            measured_at=serving.measured.through,
            cores=stands_on.cores,
        )
        work = await keep_equal(job, work, engine)
        if not work.missing:
            return Complete(data={"requests": 0})
        if job.stopping.is_set():
            return Stopped()
        # Told before the first request: whoever is timed beside it must find it, even if this process is killed.
        now_ns = time.monotonic_ns()
        await job.record_claim(sending_from_ns=now_ns, anchor_monotonic_ns=now_ns, anchor_wall_ns=time.time_ns())
        neighbours = stack.enter_context(among_neighbours(str(job.claim_id), stands_on))
        await probe(job, work, serving, reserve)
        if job.cancelled.is_set() or job.draining.is_set():
            return Preempted()
        if job.stopping.is_set():
            return Stopped()
        process = await reserve.take()
        stack.push_async_callback(_end_process, job, process)
        return await _measure(job, work, serving, watch, process, neighbours)


async def _measure(
    job: ClaimedJob, work: Work, serving: Serving, watch: Watch, process: LoadProcess, neighbours: Neighbours
) -> Outcome:
    folder = folder_of(process)
    phase = job.job.phase
    if work.is_timed or phase is None:
        phase = await job.open_phase(measured_kind(work), params=measured_params(work), count=len(work.missing))
    sink = Sink(
        job.runtime.storage, run_id=job.run_id, claim_id=job.claim_id, folder=folder, secrets=serving.secret_values
    )
    readable = [ordinal for ordinal in work.missing if work.sample_of(ordinal).error is None]
    is_stoppable = work.spec.stop is not None
    if not (is_stoppable and readable):
        await _write_unreadable(job, work, sink, phase, work.missing)
    if not readable:
        return await _complete(job, work, phase, requests=0)
    phases = await open_phases(job, work, readable, phase=phase)
    await plan.fill(
        folder / "plan",
        work,
        serving,
        phases=phases,
        storage=job.runtime.storage,
    )
    driven = await drive(
        job,
        process,
        serving=serving,
        sink=sink,
        watch=watch,
        record=folder / "record",
        planned=phases.requests,
        phase=phase,
    )
    await _record_cost(job, driven, watch, neighbours)
    if job.cancelled.is_set() or job.draining.is_set():
        return Preempted()
    is_stopped = job.stopping.is_set()
    if not is_stopped and (driven.end is None or driven.end.outcome != "complete"):
        reason = driven.end.error if driven.end else "it ended without a last line"
        raise Unavailable(f"The load generator did not finish: {reason}.", code="load_generator")
    if is_stoppable:
        # Whatever stands in the order behind the last that was asked was never reached, readable or not.
        last = max((place for place, one in enumerate(work.missing, 1) if one in driven.ordinals), default=0)
        await _write_unreadable(job, work, sink, phase, work.missing[:last] if is_stopped else work.missing)
    await check_refusals(job, serving, phase=phase, is_last=is_stopped or work.is_timed)
    if is_stopped:
        return Stopped()
    return await _complete(job, work, phase, requests=len(readable))


async def _complete(job: ClaimedJob, work: Work, phase: int, *, requests: int) -> Outcome:
    if work.is_timed and not requests:
        await job.close_phase(phase, PhaseState.COMPLETE, count=len(work.missing))
    return Complete(data={"requests": requests, "phase": phase})


async def _write_unreadable(job: ClaimedJob, work: Work, sink: Sink, phase: int, ordinals: Sequence[int]) -> None:
    """Give those of the ordinals that cannot be asked their error rows."""
    reasons = {ordinal: work.sample_of(ordinal).error for ordinal in ordinals}
    broken = {ordinal: reason for ordinal, reason in reasons.items() if reason is not None}
    if broken:
        requests = await plan_requests(work, list(broken), phase=phase)
        planned = zip(requests, broken.values(), strict=True)
        sealed = await asyncio.to_thread(sink.unreadable, list(planned), phase=phase)
        await job.append(sealed.chunk, sealed.rows)


async def _wanted(job: ClaimedJob, work: Work) -> WantedTarget:
    target = work.spec.target
    if isinstance(target, ImportTarget):
        raise Conflict("The run's answers come from a file; there is no model to load.")
    return WantedTarget(
        digest=target_digest(work.spec),
        target=target,
        secrets=await read_keys(job, work),
        load_timeout_s=work.spec.limits.load_timeout_s,
    )


async def _record_cost(job: ClaimedJob, driven: Driven, watch: Watch, neighbours: Neighbours) -> None:
    """Keep what cannot be measured again: clocks, the client's own cost, who measured beside it, the device samples."""
    neighbours.leave()
    beside = [{"mark": other.mark, "pid": other.pid} for other in neighbours.disturbers]
    start, end = driven.first_sent_ns, driven.last_end_ns
    summary = watch.summary(start, end) if start is not None and end is not None else None
    await job.record_claim(
        client={**asdict(driven.end), "beside": beside} if driven.end else None,
        resources=asdict(summary) if summary else None,
        # Of now: the load generator may have waited in reserve for hours, and the wall's clock been set meanwhile.
        anchor_monotonic_ns=time.monotonic_ns(),
        anchor_wall_ns=time.time_ns(),
        sending_until_ns=driven.sending_until_ns or time.monotonic_ns(),
    )
    data = await asyncio.to_thread(watch.parquet)
    stored = await store(job, f"resources/{job.claim_id}.parquet", data, media_type=PARQUET)
    async with job.transaction() as session:
        await add(session, job, stored, kind="resources", name=f"resources-{job.claim_id}.parquet", media_type=PARQUET)


async def _end_process(job: ClaimedJob, process: LoadProcess) -> None:
    """End the load generator, whether it was needed or not; at once where the claim is lost."""
    await end(process, term_s=0 if job.fenced.is_set() else END_SECONDS)
