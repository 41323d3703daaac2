"""Drive jobs by hand on a real database: add runs and workers, assign, claim, append, finish, advance."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID, uuid4

from sqlalchemy import text

from tests.shared.domain.builders_of_jobs import run_spec
from vlmhyperbench.db import advancing, claims, experiments, finishing, jobs, manifests, runs, scheduling, workers
from vlmhyperbench.db.appending import Appended, append
from vlmhyperbench.db.claims import Assigned, Claimant
from vlmhyperbench.db.engine import Database
from vlmhyperbench.db.views import EventView, JobView, NewChunk, NewFact, RunView
from vlmhyperbench.domain.ground import Ground
from vlmhyperbench.domain.outcomes import Cancelled, Complete, Outcome
from vlmhyperbench.domain.placement import Placement, Reservation
from vlmhyperbench.domain.planning import plan_experiment, plan_run
from vlmhyperbench.domain.specs import RunSpec
from vlmhyperbench.domain.states import FactStatus, JobState
from vlmhyperbench.domain.steps import StepKind, WorkerKind

LEASE_S = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """A claim in somebody's hands."""

    job: JobView
    claim_id: UUID


class EngineRoom:
    """One database, and what the services do to it, one transaction per call."""

    def __init__(self, database: Database) -> None:
        self.database = database

    async def add_run(self, spec: RunSpec | None = None, *, project: str = "p", priority: int = 0) -> RunView:
        spec = spec or run_spec()
        async with self.database.transaction() as session:
            run = await runs.add(
                session, project_id=project, created_by="test", name="run", spec=spec, priority=priority
            )
            await jobs.add(session, plan_run(spec), project_id=project, run_id=run.id, priority=priority)
        return run

    async def add_experiment(self, *specs: RunSpec) -> tuple[UUID, list[RunView]]:
        plan = plan_experiment(specs)
        async with self.database.transaction() as session:
            experiment = await experiments.add(
                session, project_id="p", created_by="test", name="experiment", spec={}, spec_digest="0" * 64
            )
            await jobs.add(session, plan.jobs, project_id="p", experiment_id=experiment.id)
            added = []
            for position, (spec, planned) in enumerate(zip(specs, plan.runs, strict=True)):
                run = await runs.add(
                    session,
                    project_id="p",
                    created_by="test",
                    name=f"run-{position}",
                    spec=spec,
                    experiment_id=experiment.id,
                    position=position,
                )
                await jobs.add(session, planned, project_id="p", run_id=run.id, experiment_id=experiment.id)
                added.append(run)
        return experiment.id, added

    async def add_worker(
        self,
        kind: WorkerKind = "inference",
        *,
        slots: int = 1,
        devices: int = 0,
        ground: Ground | None = None,
        is_declared: bool = False,
    ) -> UUID:
        """Register a worker, on a machine of its own by default."""
        worker_id = uuid4()
        new = [
            workers.NewDevice(no=no, kind="gpu", uuid=f"g{no}", name="gpu", memory_bytes=100) for no in range(devices)
        ]
        async with self.database.transaction() as session:
            await workers.register(
                session,
                worker_id=worker_id,
                name=f"w-{worker_id}",
                kind=kind,
                queue=f"q-{worker_id}",
                host="here",
                boot_id=uuid4(),
                pid=1,
                slots=slots,
                version="0",
                devices=new,
                ground=ground or Ground(machine=str(worker_id)),
                is_declared=is_declared,
            )
        return worker_id

    async def assign(self, job_id: UUID, worker_id: UUID, *, device: int | None = None) -> UUID | None:
        reservations = () if device is None else (Reservation(device=device, bytes=100),)
        attempt_id = uuid4()
        placement = Placement(worker_id=worker_id, queue="q", reservations=reservations)
        async with self.database.transaction() as session:
            mark = await scheduling.assign(session, job_id, placement, attempt_id=attempt_id)
        return None if mark is None else attempt_id

    async def claim(
        self, job_id: UUID, attempt_id: UUID, worker_id: UUID, *, claim_id: UUID | None = None, lease_s: float = LEASE_S
    ) -> Held | None:
        claimant = Claimant(worker_id=worker_id, boot_id=uuid4(), host="here", machine={}, packages={})
        claim_id = claim_id or uuid4()
        async with self.database.transaction() as session:
            taken = await claims.claim(
                session,
                Assigned(job_id=job_id, attempt_id=attempt_id),
                claim_id=claim_id,
                claimant=claimant,
                lease_s=lease_s,
            )
        return None if taken is None else Held(job=taken[0], claim_id=claim_id)

    async def take(self, job_id: UUID, worker_id: UUID, *, lease_s: float = LEASE_S) -> Held:
        attempt_id = await self.assign(job_id, worker_id)
        assert attempt_id is not None
        held = await self.claim(job_id, attempt_id, worker_id, lease_s=lease_s)
        assert held is not None
        return held

    async def renew(self, held: Held, *, lease_s: float = LEASE_S) -> claims.Renewed | None:
        async with self.database.transaction() as session:
            return await claims.renew(session, job_id=held.job.id, claim_id=held.claim_id, lease_s=lease_s)

    async def finish(self, held: Held, outcome: Outcome | Cancelled) -> JobState | None:
        async with self.database.transaction() as session:
            finished = await finishing.finish(
                session, job_id=held.job.id, claim_id=held.claim_id, outcome=outcome, draw=0.0
            )
        return None if finished is None else finished.state

    async def append(self, held: Held, ordinals: list[int], *, no: int = 0, phase: int = 1) -> Appended | None:
        rows = [
            NewFact(ordinal=o, row=i, sample=o, status=FactStatus.OK, request_sha256="0" * 64)
            for i, o in enumerate(ordinals)
        ]
        key = f"runs/{held.job.run_id}/{held.claim_id}/{phase}-{no}"
        chunk = NewChunk(phase=phase, no=no, storage_key=key, sha256="0" * 64, size_bytes=1, rows=len(rows))
        async with self.database.transaction() as session:
            return await append(session, job_id=held.job.id, claim_id=held.claim_id, chunk=chunk, rows=rows)

    async def advance(self) -> None:
        async with self.database.transaction() as session:
            due = await advancing.runs_to_advance(session, limit=100)
        for run_id in due:
            async with self.database.transaction() as session:
                await advancing.advance_run(session, run_id)
        async with self.database.transaction() as session:
            ended = await advancing.experiments_to_advance(session, limit=100)
        for experiment_id in ended:
            async with self.database.transaction() as session:
                await advancing.advance_experiment(session, experiment_id)

    async def index(self, owner_id: UUID, *, samples: int = 4) -> None:
        """Do the INDEX job of a run (or of an experiment), and advance."""
        found = [job for job in await self.jobs_of(owner_id) if job.kind is StepKind.INDEX]
        held = await self.take(found[0].id, await self.add_worker("evaluation"))
        manifest_id = uuid4().hex * 2
        async with self.database.transaction() as session:
            await manifests.add(
                session,
                manifest_id=manifest_id,
                dataset_digest="0" * 64,
                storage_key=f"manifests/{manifest_id}.parquet",
                size_bytes=1,
                samples=samples,
                unreadable=0,
                group_columns=(),
            )
        await self.finish(held, Complete(data={"manifest_id": manifest_id, "samples": samples, "unreadable": 0}))
        await self.advance()

    async def jobs_of(self, owner_id: UUID, kind: StepKind | None = None) -> list[JobView]:
        async with self.database.transaction() as session:
            found = await jobs.of_run(session, owner_id) or await jobs.of_experiment(session, owner_id)
        return [job for job in found if kind is None or job.kind is kind]

    async def shards(self, spec: RunSpec | None = None, *, samples: int = 4) -> tuple[RunView, list[JobView]]:
        """Add a run, index it and return its GENERATE jobs."""
        run = await self.add_run(spec)
        await self.index(run.id, samples=samples)
        return run, await self.jobs_of(run.id, StepKind.GENERATE)

    async def job(self, job_id: UUID) -> JobView:
        async with self.database.transaction() as session:
            found = await jobs.get(session, job_id)
        assert found is not None
        return found

    async def run(self, run_id: UUID) -> RunView:
        async with self.database.transaction() as session:
            found = await runs.get(session, run_id)
        assert found is not None
        return found

    async def cancel(self, run_id: UUID) -> None:
        async with self.database.transaction() as session:
            await runs.request_cancel(session, run_id)

    async def events(self, stream_id: UUID) -> list[EventView]:
        from vlmhyperbench.db import events

        async with self.database.transaction() as session:
            return await events.after(session, stream_id, 0)

    async def scalar(self, statement: str, **values: object) -> object:
        async with self.database.transaction() as session:
            return (await session.execute(text(statement), values)).scalar_one_or_none()

    async def execute(self, statement: str, **values: object) -> None:
        async with self.database.transaction() as session:
            await session.execute(text(statement), values)

    async def let_lease_expire(self, job_id: UUID) -> None:
        """Move a lease's end into the past, as if the worker had been silent for a minute."""
        await self.execute("UPDATE job SET lease_until = now() - interval '1 minute' WHERE id = :id", id=job_id)

    async def reap(self, *, grace_s: float = 5.0) -> None:
        from vlmhyperbench.db.owners import lock_of_job

        async with self.database.transaction() as session:
            lost = await scheduling.expired(session, grace_s=grace_s, limit=100)
        for job in lost:
            async with self.database.transaction() as session:
                owner = await lock_of_job(session, job.job_id, skip_locked=True)
                if owner is not None:
                    await finishing.expire(session, owner, job.job_id, grace_s=grace_s, draw=0.0)
