"""Write decisions, each in a transaction of its own, then send rings, then publish the new events."""

from __future__ import annotations

import random
from collections.abc import Iterable
from uuid import UUID, uuid4

from vlmhyperbench.db import advancing, finishing, scheduling
from vlmhyperbench.db.owners import Mark, lock_experiment, lock_run
from vlmhyperbench.domain.scheduling import Assign, Decision, Refuse, Requeue, Ring
from vlmhyperbench.errors import Conflict
from vlmhyperbench.logs import get_logger
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
                draw = random.random()  # noqa: S311 - spreads retries only
                finished = await finishing.expire(session, owner, job.job_id, grace_s=grace_s, draw=draw)
            if finished is not None:
                _LOG.warning("job.lease_expired", job_id=str(job.job_id), state=finished.state)
                self._note(finished.mark)

    async def advance(self) -> None:
        """Advance the dirty and cancelled runs, then the experiments whose runs have ended."""
        async with self._runtime.database.transaction() as session:
            runs = await advancing.runs_to_advance(session, limit=RUNS)
        for run_id in runs:
            async with self._runtime.database.transaction() as session:
                mark = await advancing.advance_run(session, run_id)
            self._note(mark)
        async with self._runtime.database.transaction() as session:
            experiments = await advancing.experiments_to_advance(session, limit=RUNS)
        for experiment_id in experiments:
            async with self._runtime.database.transaction() as session:
                mark = await advancing.advance_experiment(session, experiment_id)
            self._note(mark)

    async def apply(self, decisions: Iterable[Decision]) -> None:
        """Write the decisions, then ring; a decision that is outdated by now has no effect."""
        rings: list[tuple[str, UUID]] = []
        for decision in decisions:
            match decision:
                case Assign():
                    if await self._assign(decision):
                        rings.append((decision.placement.queue, decision.job_id))
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
        await self._bell.ring(rings)

    async def publish(self) -> None:
        """Publish the number of the last event of each stream that got events."""
        marks, self._marks = self._marks, {}
        for stream_id, seq in marks.items():
            await self._runtime.bus.publish(stream_id, seq)

    async def _assign(self, decision: Assign) -> bool:
        try:
            async with self._runtime.database.transaction() as session:
                mark = await scheduling.assign(session, decision.job_id, decision.placement, attempt_id=uuid4())
        except Conflict:
            return False
        self._note(mark)
        return mark is not None

    def _note(self, mark: Mark | None) -> None:
        if mark is not None:
            self._marks[mark.stream_id] = mark.seq
