"""What an open run waits for while none of its jobs is assigned or running. Pure.

`placement.place` determines whether a job could start, as it does for the scheduler; this module words the reason.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Literal
from uuid import UUID

from vlmhyperbench.domain.needs import UNKNOWN, MemoryNeed, Need, in_gib
from vlmhyperbench.domain.placement import Inferring, WorkerNow, place, resumed, unpinned
from vlmhyperbench.domain.short_ids import short
from vlmhyperbench.domain.states import JobState
from vlmhyperbench.domain.steps import STEPS, StepKind
from vlmhyperbench.domain.unfit import why_unfit
from vlmhyperbench_sdk.gateway import without_output

WaitCode = Literal[
    "paused",
    "retry",
    "run",
    "index",
    "no_worker",
    "drained",
    "memory",
    "busy",
    "device",
    "machine",
    "server",
    "scheduler",
]

_ORDER = tuple(StepKind)


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenJob:
    """A job that has not ended, of a run or (a shared INDEX job) of its experiment."""

    kind: StepKind
    state: JobState
    is_shared: bool = False
    target_digest: str | None = None
    is_timed: bool = True
    devices: int = 1
    is_simulated: bool = False
    server: str | None = None
    memory: MemoryNeed = UNKNOWN
    """Memory that its target needs."""
    retry_in_s: float | None = None
    """Remaining pause before the next try after a failure."""
    fault: str | None = None
    """Why the last claim failed."""
    is_blocked: bool = False
    """A job that it needs has not ended, or has not started."""
    needs_run: UUID | None = None
    """The run of the job that it needs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldJob:
    """An assigned or running job."""

    worker_id: UUID
    run_id: UUID | None
    """Run of the job; None if it belongs to an experiment or to another project."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """What a run waits for."""

    code: WaitCode
    message: str
    run_id: UUID | None = None
    """The run that blocks it."""


def wait_of(
    run_id: UUID,
    jobs: Sequence[OpenJob],
    *,
    is_paused: bool,
    workers: Sequence[WorkerNow],
    busy: Sequence[HeldJob],
    inferring: Sequence[Inferring] = (),
    known: Sequence[WorkerNow] = (),
) -> Wait | None:
    """Return what an open run waits for; None while one of its own jobs is assigned or running.

    `workers` are the live workers, `busy` the jobs that they hold, `inferring` the workers that may send requests,
    `known` the workers that were seen a short time ago.
    """
    own = [job for job in jobs if not job.is_shared]
    if any(job.state is not JobState.READY for job in own):
        return None
    if is_paused:
        return Wait(code="paused", message="it is paused until it is resumed")
    index = next((job for job in jobs if job.is_shared), None)
    if index is not None and index.state is not JobState.READY:
        return Wait(code="index", message="the index of its dataset is not finished")
    ready = sorted(
        (job for job in jobs if job.state is JobState.READY and not job.is_blocked),
        key=lambda job: _ORDER.index(job.kind),
    )
    if not ready:
        other = next((job.needs_run for job in own if job.needs_run not in {None, run_id}), None)
        if other is not None:
            return Wait(code="run", message=f"it needs a job of the run {short(other)}", run_id=other)
        return Wait(code="scheduler", message="the scheduler has not advanced it yet")
    job = ready[0]
    if job.retry_in_s is not None and job.retry_in_s > 0:
        fault = f": {without_output(job.fault)}" if job.fault else ""
        return Wait(code="retry", message=f"it is tried again in {job.retry_in_s:.0f} s after a failure{fault}")
    return _worker_for(job, run_id, workers, busy, inferring, known)


def _worker_for(
    job: OpenJob,
    run_id: UUID,
    workers: Sequence[WorkerNow],
    busy: Sequence[HeldJob],
    inferring: Sequence[Inferring],
    known: Sequence[WorkerNow],
) -> Wait:
    """Return why no worker takes a job that could start."""
    kind = STEPS[job.kind].worker
    fitting = [worker for worker in workers if worker.kind == kind]
    if not fitting:
        return Wait(code="no_worker", message=f"no {kind} worker is running")
    need = Need(
        kind=job.kind,
        target_digest=job.target_digest,
        is_timed=job.is_timed,
        devices=job.devices,
        is_simulated=job.is_simulated,
        server=job.server,
        memory=job.memory,
    )
    reason = why_unfit(need, known or workers)
    if reason is not None:
        return Wait(code="memory", message=f"it fits no known device. {reason}")
    if place(need, workers, inferring) is not None:
        return Wait(code="scheduler", message="a worker is free, but the scheduler has not assigned the job yet")
    if place(need, [resumed(worker) for worker in workers], inferring) is not None:
        return Wait(code="drained", message=_drained(fitting))
    if place(need, [unpinned(worker) for worker in workers], inferring) is not None:
        return Wait(code="memory", message="pinned models have the memory; `vlmhyperbench models unload` frees it")
    if place(replace(need, server=None), workers, inferring) is not None:
        other = _holder(busy, {other.worker_id for other in inferring if need.server in other.servers}, run_id)
        whose = f"run {short(other)}" if other else "another run"
        return Wait(code="server", message=f"{whose} asks the same server, {need.server}", run_id=other)
    if place(need, workers) is not None:
        other = _holder(busy, {other.worker_id for other in inferring}, run_id)
        whose = f"run {short(other)}" if other else "another run"
        return Wait(code="machine", message=f"{whose} infers on the machine of the free worker", run_id=other)
    other = _holder(busy, {worker.id for worker in fitting}, run_id)
    if all(worker.busy >= worker.slots for worker in fitting):
        works = f": {'it works' if len(fitting) == 1 else 'they work'} on run {short(other)}" if other else ""
        return Wait(code="busy", message=f"no {kind} worker is free{works}", run_id=other)
    free = _largest_free(need, fitting)
    if free is not None:
        needed, left = free
        return Wait(
            code="memory",
            message=f"it needs {in_gib(needed)} of a device, and at most {in_gib(left)} are free now",
            run_id=other,
        )
    owner = f"the device of run {short(other)}" if other else "a free device"
    return Wait(code="device", message=f"it waits for {owner}", run_id=other)


def _holder(busy: Sequence[HeldJob], workers: Collection[UUID], run_id: UUID) -> UUID | None:
    """Return another run that one of the workers works on."""
    return next((job.run_id for job in busy if job.worker_id in workers and job.run_id not in {None, run_id}), None)


def _drained(workers: Sequence[WorkerNow]) -> str:
    """Say what is drained among the workers that could take a job."""
    for worker in workers:
        if worker.drained is not None:
            return f"the worker {worker.name} on {worker.host} is drained {worker.drained}"
    device, worker = next((device, worker) for worker in workers for device in worker.devices if device.drained)
    return f"the device {device.uuid} of the worker {worker.name} is drained {device.drained}"


def _largest_free(need: Need, workers: Sequence[WorkerNow]) -> tuple[int, int] | None:
    """Return the bytes that a job needs and the most that a device has free; None where bytes are not what lacks."""
    if need.is_timed:
        return None
    lacking = [
        (device.left_bytes(need), needed)
        for worker in workers
        for device in worker.devices
        if device.is_usable
        and not device.is_exclusive
        and (needed := need.bytes_on(device)) is not None
        and needed > device.left_bytes(need)
    ]
    if not lacking:
        return None
    free, needed = max(lacking)
    return needed, free
