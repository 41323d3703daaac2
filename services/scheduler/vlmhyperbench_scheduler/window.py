"""Read the window of a decision in one transaction, limited to the jobs that could be placed."""

from __future__ import annotations

from vlmhyperbench.db import scheduling
from vlmhyperbench.db.engine import Database
from vlmhyperbench.domain.scheduling import Window

ASSIGNED_JOBS = 500
"""Maximum number of unclaimed assignments in a window."""


async def load(database: Database, *, stale_s: float) -> Window:
    """Read the live workers, their unclaimed assignments, and as many waiting jobs as there are free slots."""
    async with database.transaction() as session:
        now = await scheduling.now(session)
        workers = await scheduling.workers(session, stale_s=stale_s)
        inferring = await scheduling.inferring(session)
        assigned = await scheduling.assigned(session, limit=ASSIGNED_JOBS)
        free = [worker for worker in workers if worker.busy < worker.slots]
        waiting = await scheduling.waiting(
            session,
            frozenset(worker.kind for worker in free),
            limit=sum(worker.slots - worker.busy for worker in free),
        )
    return Window(now=now, waiting=waiting, assigned=assigned, workers=workers, inferring=inferring)
