"""Read what open runs wait for; `domain.waiting` decides and words it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncSession

from vlmhyperbench.db import capacity, memory
from vlmhyperbench.db.views import RunView
from vlmhyperbench.domain.needs import UNKNOWN
from vlmhyperbench.domain.planning import index_digest
from vlmhyperbench.domain.states import JobState, RunState
from vlmhyperbench.domain.steps import StepKind
from vlmhyperbench.domain.waiting import HeldJob, OpenJob, Wait, wait_of
from vlmhyperbench.settings import Settings


async def of_runs(session: AsyncSession, runs: Sequence[RunView], settings: Settings) -> dict[UUID, Wait]:
    """Return what each run waits for; runs that wait for nothing are left out.

    The settings say when a worker is stale, and the margin of estimates of memory.
    """
    waiting = [run for run in runs if not run.state.is_terminal and run.cancel_requested_at is None]
    if not waiting:
        return {}
    jobs = await _open_jobs(session, waiting, margin=settings.memory_margin)
    seen = await capacity.workers(session, stale_s=settings.timers.stale_worker_s)
    inferring = await capacity.inferring(session)
    busy_rows = (await session.execute(text(_BUSY))).all()
    waits = {}
    for run in waiting:
        # Runs of other projects are not disclosed.
        busy = [
            HeldJob(worker_id=row.worker_id, run_id=row.run_id if row.project_id == run.project_id else None)
            for row in busy_rows
        ]
        wait = wait_of(
            run.id,
            jobs[run.id],
            is_paused=run.is_paused,
            workers=seen.live,
            busy=busy,
            inferring=inferring,
            known=seen.known,
        )
        if wait is not None:
            waits[run.id] = wait
    return waits


async def _open_jobs(session: AsyncSession, runs: Sequence[RunView], *, margin: float) -> dict[UUID, list[OpenJob]]:
    """Read the open jobs of each run, including the INDEX job that a queued run shares with others."""
    jobs: dict[UUID, list[OpenJob]] = defaultdict(list)
    sharing: dict[tuple[UUID, str], list[UUID]] = defaultdict(list)
    for run in runs:
        if run.state is RunState.QUEUED and run.experiment_id is not None:
            sharing[run.experiment_id, index_digest(run.pinned_spec())].append(run.id)
    values = {"runs": [run.id for run in runs], "experiments": list({experiment for experiment, _ in sharing})}
    rows = (await session.execute(text(_JOBS), values)).all()
    needs = await memory.needs_of(session, {row.target_digest for row in rows if row.target_digest}, margin=margin)
    for row in rows:
        job = OpenJob(
            kind=StepKind(row.kind),
            state=JobState(row.state),
            is_shared=row.scope == "experiment",
            target_digest=row.target_digest,
            is_timed=row.is_timed,
            devices=row.devices,
            is_simulated=row.is_simulated,
            server=row.server,
            memory=needs.get(row.target_digest, UNKNOWN),
            retry_in_s=row.retry_in_s,
            fault=row.fault,
            is_blocked=row.is_blocked,
            needs_run=row.needs_run,
        )
        owners = sharing[row.experiment_id, row.digest] if job.is_shared else [row.run_id]
        for owner in owners:
            jobs[owner].append(job)
    return jobs


_JOBS = """
SELECT j.kind, j.state, j.scope, j.run_id, j.experiment_id, j.target_digest, j.is_timed, j.devices, j.is_simulated,
       j.server,
       COALESCE(j.params ->> 'index_digest', j.params ->> 'dataset_digest') AS digest,
       CAST(extract(epoch FROM j.not_before - now()) AS float) AS retry_in_s, j.outcome ->> 'message' AS fault,
       needed.id IS NOT NULL AS is_blocked, needed.run_id AS needs_run
FROM job j
LEFT JOIN LATERAL (
  SELECT n.id, n.run_id FROM job n
  WHERE n.id = ANY (j.needs) AND n.state <> 'DONE'
    AND CASE j.needs_state WHEN 'ENDED' THEN n.state NOT IN ('FAILED', 'CANCELLED')
                           WHEN 'STARTED' THEN n.state <> 'RUNNING' ELSE true END
  ORDER BY n.run_id = j.run_id, n.id LIMIT 1
) AS needed ON true
WHERE j.state IN ('READY', 'ASSIGNED', 'RUNNING')
  AND ((j.scope = 'run' AND j.run_id = ANY(:runs))
       OR (j.scope = 'experiment' AND j.kind = 'INDEX' AND j.experiment_id = ANY(:experiments)))
ORDER BY j.created_at, j.range_start, j.id
"""

_BUSY = """
SELECT worker_id, project_id, CASE WHEN scope = 'run' THEN run_id END AS run_id
FROM job WHERE state IN ('ASSIGNED', 'RUNNING') AND worker_id IS NOT NULL ORDER BY assigned_at, id
"""
