"""`/workers/plan`: where an experiment would run and how long it would take; nothing is created."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated
from uuid import UUID, uuid4

from fastapi import APIRouter

from vlmhyperbench.db import capacity, durations, manifests, memory
from vlmhyperbench.db.durations import Pace
from vlmhyperbench.db.engine import AsyncSession
from vlmhyperbench.domain.ground import Ground
from vlmhyperbench.domain.paper_plan import PaperJob, PaperPlacement, plan_on_paper
from vlmhyperbench.domain.placement import DeviceNow, WorkerNow, idle
from vlmhyperbench.domain.planning import dataset_digest, expand_run
from vlmhyperbench.domain.scheduling import WaitingJob
from vlmhyperbench.domain.specs import RunSpec
from vlmhyperbench.domain.steps import STEPS
from vlmhyperbench.wire.placement import Plan, PlannedPlacement, PlannedRefusal, PlanRequest
from vlmhyperbench.wire.runs import ExperimentCreate
from vlmhyperbench_api.bodies import StrictRoute
from vlmhyperbench_api.dependencies import RegistriesOf, RuntimeOf
from vlmhyperbench_api.security import Principal, requires
from vlmhyperbench_api.submission.estimating import estimates_of, targets_of
from vlmhyperbench_api.submission.request import Submission
from vlmhyperbench_api.submission.resolving import pin_experiment

router = APIRouter(prefix="/workers/plan", tags=["workers"], route_class=StrictRoute)

Reader = Annotated[Principal, requires("worker:read")]


@router.post("")
async def plan(body: PlanRequest, principal: Reader, runtime: RuntimeOf, registries: RegistriesOf) -> Plan:
    """Say where the requests of an experiment would be asked, on idle workers, live or declared in the body."""
    submission = Submission(
        body=ExperimentCreate(experiment=body.experiment),
        principal=principal,
        key=None,
        catalogue=await registries.catalogue(principal.project_id),
        runtime=runtime,
    )
    _, pinned = await asyncio.to_thread(pin_experiment, submission)
    specs = [run.spec for run in pinned]
    estimates = await estimates_of(runtime, targets_of(specs))
    settings, digests = runtime.settings, {spec.target_digest for spec in specs} | set(estimates)
    async with runtime.database.transaction() as session:
        known = await memory.needs_of(session, digests, margin=settings.memory_margin)
        seen = await capacity.workers(session, stale_s=settings.timers.stale_worker_s)
        paces = await durations.measured_paces(session, sorted(digests), project_id=principal.project_id)
        counts = [await _samples(session, spec) for spec in specs]
    estimated = {
        digest: memory.need_of(estimate, margin=settings.memory_margin) for digest, estimate in estimates.items()
    }
    declared = [_declared(worker.name, worker.devices_gib) for worker in body.workers]
    workers = declared or [idle(worker) for worker in seen.live if worker.kind == "inference"]
    names = [run.name for run in pinned]
    jobs = [
        job
        for name, spec, count in zip(names, specs, counts, strict=True)
        for job in _jobs(name, spec, count, _pace_of(spec, paces))
    ]
    known_here = estimated | known
    measured = {name: pace for name, spec in zip(names, specs, strict=True) if (pace := _pace_of(spec, paces))}
    fastest = _at_pace(jobs, {name: pace.fastest_s / pace.mean_s for name, pace in measured.items()})
    slowest = _at_pace(jobs, {name: pace.slowest_s / pace.mean_s for name, pace in measured.items()})
    # In a thread: the order of hundreds of jobs is tried at every end of a job.
    paper, shortest, longest = await asyncio.to_thread(
        lambda: [plan_on_paper(each, workers, known_here) for each in (jobs, fastest, slowest)]
    )
    is_whole = not paper.refused and not paper.waiting
    by_id = {worker.id: worker for worker in workers}
    return Plan(
        is_declared=bool(declared),
        placements=[_shown(placed, by_id) for placed in paper.placements],
        refused=[PlannedRefusal(run=run, reason=reason) for run, reason in dict(paper.refused).items()],
        waiting=list(dict.fromkeys(paper.waiting)),
        makespan_s=paper.makespan_s if is_whole else None,
        shortest_s=shortest.makespan_s if is_whole else None,
        longest_s=longest.makespan_s if is_whole else None,
        unknown=list(dict.fromkeys(job.run for job in jobs if job.duration_s is None)),
    )


def _pace_of(spec: RunSpec, paces: Mapping[tuple[str, str], Pace]) -> Pace | None:
    return paces.get((spec.target_digest, spec.task))


def _at_pace(jobs: Sequence[PaperJob], factors: Mapping[str, float]) -> list[PaperJob]:
    """Return the jobs with their durations times the factor of their run."""
    return [
        job if job.duration_s is None else replace(job, duration_s=job.duration_s * factors[job.run]) for job in jobs
    ]


def _jobs(name: str, spec: RunSpec, samples: int | None, pace: Pace | None) -> list[PaperJob]:
    """Return the jobs of a run that ask its target; one of unknown duration where its samples are not known."""
    planned = expand_run(spec, samples=samples or 1).jobs
    experiment = UUID(int=0)
    return [
        PaperJob(
            run=name,
            job=WaitingJob(
                id=uuid4(),
                kind=job.kind,
                target_digest=job.target_digest or spec.target_digest,
                is_timed=job.is_timed,
                devices=job.devices,
                is_simulated=job.is_simulated,
                experiment_id=experiment,
                answers=max(1, (job.range_end or 0) - (job.range_start or 0)),
            ),
            duration_s=None
            if samples is None or pace is None or job.range_start is None or job.range_end is None
            else pace.mean_s * (job.range_end - job.range_start),
        )
        for job in planned
        if STEPS[job.kind].asks == "run"
    ]


async def _samples(session: AsyncSession, spec: RunSpec) -> int | None:
    """Return the number of samples of a run, if its dataset was read before; at most its limit otherwise."""
    known = await manifests.of_dataset(session, dataset_digest(spec))
    return known.samples if known is not None else spec.dataset.limit


def _declared(name: str, devices_gib: Sequence[float]) -> WorkerNow:
    devices = tuple(
        DeviceNow(no=no, memory_bytes=round(size * 1024**3), name="declared", uuid=f"{name}-{no}")
        for no, size in enumerate(devices_gib)
    )
    gpus = frozenset(device.uuid for device in devices)
    return WorkerNow(
        id=uuid4(),
        kind="inference",
        queue=name,
        slots=64,
        busy=0,
        devices=devices,
        ground=Ground(machine=name, gpus=gpus),
        name=name,
        host=name,
    )


def _shown(placed: PaperPlacement, workers: dict[UUID, WorkerNow]) -> PlannedPlacement:
    reservations = placed.placement.reservations
    return PlannedPlacement(
        run=placed.run,
        worker=workers[placed.placement.worker_id].name,
        devices=[reservation.device for reservation in reservations],
        bytes_each=max((reservation.bytes for reservation in reservations), default=None),
        is_alone=any(reservation.is_exclusive for reservation in reservations),
        starts_s=placed.starts_s,
        ends_s=placed.ends_s,
    )
