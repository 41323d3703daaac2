"""`/workers/plan`: where an experiment would run and how long it would take; nothing is created."""

from __future__ import annotations

import asyncio
from typing import Annotated
from uuid import UUID, uuid4

from fastapi import APIRouter

from vlmhyperbench.domain.ground import Ground
from vlmhyperbench.domain.judging import is_judge
from vlmhyperbench.domain.paper_plan import PaperPlacement
from vlmhyperbench.domain.placement import DeviceNow, WorkerNow
from vlmhyperbench.wire.placement import DeclaredWorker, Plan, PlannedPlacement, PlannedRefusal, PlanRequest
from vlmhyperbench.wire.runs import ExperimentCreate
from vlmhyperbench_api.bodies import StrictRoute
from vlmhyperbench_api.dependencies import RegistriesOf, RuntimeOf
from vlmhyperbench_api.paper import read_known, write_papers
from vlmhyperbench_api.security import Principal, requires
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
    runs = [(run.name, run.spec) for run in pinned]
    known = await read_known(runtime, [spec for _, spec in runs], project_id=principal.project_id)
    declared = [_declared(worker, slots=runtime.settings.inference_slots) for worker in body.workers]
    workers = declared or list(known.workers)
    # In a thread: the order of hundreds of jobs is tried at every end of a job.
    papers = await asyncio.to_thread(write_papers, runs, known, declared)
    paper, is_whole = papers.expected, papers.is_whole
    by_id = {worker.id: worker for worker in workers}
    return Plan(
        is_declared=bool(declared),
        placements=[_shown(placed, by_id) for placed in paper.placements],
        refused=[PlannedRefusal(run=run, reason=reason) for run, reason in dict(paper.refused).items()],
        waiting=list(dict.fromkeys(paper.waiting)),
        makespan_s=paper.makespan_s if is_whole else None,
        shortest_s=papers.shortest.makespan_s if is_whole else None,
        longest_s=papers.longest.makespan_s if is_whole else None,
        unknown=list(papers.unknown),
        judged=[name for name, spec in runs if any(map(is_judge, spec.metrics))],
    )


def _declared(worker: DeclaredWorker, *, slots: int) -> WorkerNow:
    name = worker.name
    devices = tuple(
        DeviceNow(
            no=no,
            memory_bytes=round(size * 1024**3),
            name=worker.device_name or "declared",
            uuid=f"{name}-{no}",
        )
        for no, size in enumerate(worker.devices_gib)
    )
    gpus = frozenset(device.uuid for device in devices)
    return WorkerNow(
        id=uuid4(),
        kind="inference",
        queue=name,
        slots=slots,
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
