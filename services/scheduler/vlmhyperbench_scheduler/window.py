"""Read the window of a decision in one transaction, limited to the jobs that could be placed."""

from __future__ import annotations

from vlmhyperbench.db import capacity, durations, memory, scheduling
from vlmhyperbench.db.engine import Database
from vlmhyperbench.domain.paces import Pace
from vlmhyperbench.domain.scheduling import MAX_ASSIGNED, RunningJob, Window

ASSIGNED_JOBS = 500
"""Maximum number of unclaimed assignments in a window."""


async def load(database: Database, *, stale_s: float, margin: float) -> Window:
    """Read the workers, their unclaimed assignments, and as many waiting jobs of a kind as there are free slots.

    Args:
        database: the database.
        stale_s: time without a heartbeat after which a worker does not count as live.
        margin: factor of estimates of memory.
    """
    async with database.transaction() as session:
        now = await scheduling.now(session)
        seen = await capacity.workers(session, stale_s=stale_s)
        inferring = await capacity.inferring(session)
        assigned = await scheduling.assigned(session, limit=ASSIGNED_JOBS)
        free = [worker for worker in seen.live if worker.busy < worker.slots]
        waiting = await scheduling.waiting(
            session,
            # A job that fits no known device is refused whether or not a worker is free.
            frozenset({worker.kind for worker in free} | {worker.kind for worker in seen.known if worker.devices}),
            limit=min(max(sum(worker.slots - worker.busy for worker in free), 1), MAX_ASSIGNED),
        )
        targets = {job.target_digest for job in waiting if job.target_digest is not None}
        needs = await memory.needs_of(session, targets, margin=margin)
        running: tuple[RunningJob, ...] = ()
        paces: dict[str, Pace] = {}
        if any(job.is_packed for job in waiting):
            running = await durations.running(session)
            asked = {job.target_digest for job in running if job.target_digest is not None} | targets
            needs |= await memory.needs_of(session, asked - targets, margin=margin)
            paces = await durations.recent_paces(session, asked)
    return Window(
        now=now,
        waiting=waiting,
        assigned=assigned,
        workers=seen.live,
        inferring=inferring,
        known=seen.known,
        joined_s=seen.joined_s,
        memory=needs,
        running=running,
        paces=paces,
    )
