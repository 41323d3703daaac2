"""Write decisions, the assignments of a tick in one transaction, then send rings, then publish the new events."""

from __future__ import annotations

import random
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from uuid import UUID, uuid4

from vlmhyperbench.db import advancing, finishing, scheduling, traces, workers
from vlmhyperbench.db.owners import Mark, lock_experiment, lock_run
from vlmhyperbench.domain.placement import Placement
from vlmhyperbench.domain.scheduling import Assign, Decision, Refuse, Requeue, Ring
from vlmhyperbench.errors import Conflict
from vlmhyperbench.logs import get_logger
from vlmhyperbench.monitoring.recording import count
from vlmhyperbench.monitoring.tracing import is_tracing, record, record_below
from vlmhyperbench.queues.ringing import Bell
from vlmhyperbench.runtime import Runtime

RUNS = 200
"""Maximum number of runs, of experiments and of expired leases that one tick handles; the next one handles the rest."""

_LOG = get_logger(__name__)


class Effects:
    """Writes the effects of a tick, and collects the streams that got events."""

    def __init__(self, runtime: Runtime, bell: Bell) -> None:
        self._runtime = runtime
        self._bell = bell
        self._marks: dict[UUID, int] = {}

    async def reap(self, *, grace_s: float) -> None:
        """End the claims whose leases have expired; runs that other transactions have locked wait for the next tick."""
        async with self._runtime.database.transaction() as session:
            expired = await scheduling.expired(session, grace_s=grace_s, limit=RUNS)
        for job in expired:
            async with self._runtime.database.transaction() as session:
                lock = lock_experiment if job.is_of_experiment else lock_run
                owner = await lock(session, job.owner_id, skip_locked=True)
                if owner is None:
                    continue
                lost = await traces.open_claim(session, job.job_id)
                draw = random.random()  # noqa: S311 - spreads retries only
                finished = await finishing.expire(session, owner, job.job_id, grace_s=grace_s, draw=draw)
            if finished is not None:
                kind = "unknown" if lost is None else lost.kind
                count("leases_reaped_total", kind=kind)
                if lost is not None:
                    record(f"job {kind}", lost.context, start_ns=lost.start_ns, error=finishing.LEASE_EXPIRED)
                owner_name = "experiment_id" if job.is_of_experiment else "run_id"
                names = {owner_name: str(job.owner_id), "job_id": str(job.job_id)}
                _LOG.warning(
                    "job.lease_expired", **names, trace_id=lost and lost.context.trace_id, state=finished.state
                )
                self._note(finished.mark)

    async def forget(self, *, after_s: float) -> None:
        """Let workers be gone that were not seen for so long: nobody lists them, and no alert is about them."""
        async with self._runtime.database.transaction() as session:
            for worker in await workers.forget(session, after_s=after_s):
                _LOG.warning("worker.forgotten", worker=worker.name, host=worker.host, seen=worker.last_seen_at)

    async def advance(self) -> None:
        """Advance the dirty and cancelled runs, then the experiments whose runs have ended."""
        async with self._runtime.database.transaction() as session:
            runs = await advancing.runs_to_advance(session, limit=RUNS)
        for run_id in runs:
            async with self._runtime.database.transaction() as session:
                mark = await advancing.advance_run(session, run_id)
            await self._ended(run_id, mark)
        async with self._runtime.database.transaction() as session:
            experiments = await advancing.experiments_to_advance(session, limit=RUNS)
        for experiment_id in experiments:
            async with self._runtime.database.transaction() as session:
                mark = await advancing.advance_experiment(session, experiment_id)
            await self._ended(experiment_id, mark)

    async def apply(self, decisions: Iterable[Decision]) -> None:
        """Write the decisions, then ring; a decision that is outdated by now has no effect."""
        placements: dict[UUID, Placement] = {}
        rings: list[tuple[str, UUID]] = []
        for decision in decisions:
            count("scheduler_decisions_total", decision=type(decision).__name__.lower())
            match decision:
                case Assign(job_id=job_id, placement=placement):
                    placements[job_id] = placement
                case Requeue(job_id=job_id, attempt_id=attempt_id):
                    async with self._runtime.database.transaction() as session:
                        mark = await scheduling.requeue(session, job_id, attempt_id=attempt_id)
                    self._note(mark)
                case Refuse(job_id=job_id, message=message):
                    async with self._runtime.database.transaction() as session:
                        mark = await scheduling.refuse(session, job_id, message)
                    self._note(mark)
                case Ring(job_id=job_id, queue=queue):
                    rings.append((queue, job_id))
        if placements:
            rings += [(placements[job_id].queue, job_id) for job_id in await self._assign(placements)]
        await self._bell.ring(rings)

    async def publish(self) -> None:
        """Publish the number of the last event of each stream that got events."""
        marks, self._marks = self._marks, {}
        for stream_id, seq in marks.items():
            await self._runtime.bus.publish(stream_id, seq)

    async def _assign(self, placements: Mapping[UUID, Placement]) -> list[UUID]:
        """Assign jobs in one transaction, those whose owner is locked now alone; return the jobs that were assigned."""
        begun_ns = time.time_ns()
        marks: dict[UUID, Mark | None] = {}
        with suppress(Conflict):  # a device was reserved meanwhile: each job is tried alone
            async with self._runtime.database.transaction() as session:
                marks = await scheduling.assign_together(session, placements)
        for job_id in [job_id for job_id in placements if job_id not in marks]:
            with suppress(Conflict):
                async with self._runtime.database.transaction() as session:
                    marks[job_id] = await scheduling.assign(session, job_id, placements[job_id], attempt_id=uuid4())
        for mark in marks.values():
            self._note(mark)
        assigned = [job_id for job_id in placements if marks.get(job_id) is not None]
        if is_tracing():
            async with self._runtime.database.transaction() as session:
                owners = {job_id: await traces.of_job(session, job_id) for job_id in assigned}
            for job_id, owner in owners.items():
                if owner is not None:
                    record_below(owner, "assign", start_ns=begun_ns, attributes={"job_id": str(job_id)})
        return assigned

    async def _ended(self, owner_id: UUID, mark: Mark | None) -> None:
        """Export the span of a run or an experiment that this tick has ended, from its submission to now."""
        self._note(mark)
        if mark is None or not is_tracing():
            return
        async with self._runtime.database.transaction() as session:
            ended = await traces.ended(session, owner_id)
        if ended is not None:
            error = ended.state if ended.state in {"FAILED", "CANCELLED"} else None
            attributes = {f"{ended.name}_id": str(owner_id), "state": ended.state}
            span = {"start_ns": ended.start_ns, "end_ns": ended.end_ns}
            record(ended.name, ended.context, **span, attributes=attributes, error=error)

    def _note(self, mark: Mark | None) -> None:
        if mark is not None:
            self._marks[mark.stream_id] = max(mark.seq, self._marks.get(mark.stream_id, 0))
