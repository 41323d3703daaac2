"""End a claim, with its worker's outcome or because its lease expired: write the job, free devices, append events."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncSession

from vlmhyperbench.db import claim_phases, jobs
from vlmhyperbench.db.owners import Mark, Owner, alert, job_event, lock_of_job, mark_dirty
from vlmhyperbench.db.views import JobView, view_of
from vlmhyperbench.domain.outcomes import Cancelled, Complete, Failed, Outcome, Preempted, Stopped
from vlmhyperbench.domain.refusals import SHORTAGE
from vlmhyperbench.domain.retrying import backoff_s, is_given_up
from vlmhyperbench.domain.states import JOB_TABLE, JobEvent, JobState, PhaseState
from vlmhyperbench.domain.steps import STEPS
from vlmhyperbench.errors import STORAGE_FULL
from vlmhyperbench_sdk.types import JsonObject, JsonValue

LEASE_EXPIRED = "lease_expired"

FULL_PAUSE_S = 10.0
"""Pause before a job whose storage was full is tried again."""

_NUL = re.compile(r"(?<!\\)((?:\\\\)*)\\u0000")


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """The new state of a job whose claim ended."""

    state: JobState
    mark: Mark


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ending:
    event: JobEvent
    outcome: JsonObject
    fails: int
    pause_s: float = 0.0
    alert: JsonObject | None = None
    """An alert that is raised on the run or experiment, in addition to the job's event."""


async def finish(
    session: AsyncSession, *, job_id: UUID, claim_id: UUID, outcome: Outcome | Cancelled, draw: float
) -> Finished | None:
    """End a claim with its outcome; None if the claim is lost, in which case nothing is written.

    A shard is complete only if every ordinal of its range has a row; otherwise the outcome becomes a failure that is
    tried again. `draw` in [0, 1) spreads the pause before the next try.
    """
    owner = await lock_of_job(session, job_id)
    if owner is None:
        return None
    job = await _locked(session, job_id, claim_id)
    if job is None:
        return None
    if isinstance(outcome, Complete):
        outcome = await _checked(session, job, outcome)
    return await _end(session, owner, job, _ending(job, owner, outcome, draw))


async def expire(session: AsyncSession, owner: Owner, job_id: UUID, *, grace_s: float, draw: float) -> Finished | None:
    """End a claim whose lease expired more than `grace_s` ago; the caller has locked the owner.

    None if the lease was renewed or the claim has ended.
    """
    result = await session.execute(text(_EXPIRED), {"job": job_id, "grace": grace_s})
    row = result.one_or_none()
    if row is None:
        return None
    job = view_of(JobView, row)
    failed = Failed(code=LEASE_EXPIRED, message="The worker that held the job did not renew its lease.")
    return await _end(session, owner, job, _ending(job, owner, failed, draw))


def _ending(job: JobView, owner: Owner, outcome: Outcome | Cancelled, draw: float) -> _Ending:
    match outcome:
        case Complete(data=data):
            return _Ending(event=JobEvent.COMPLETE, outcome={"kind": "complete", "data": data}, fails=job.fails)
        case Stopped() if owner.stop is not None:
            return _Ending(event=JobEvent.STOP, outcome=jobs.stopped(owner.stop), fails=job.fails)
        case Stopped():  # only the run's stop rule may stop a job
            return _ending(job, owner, Preempted(reason=_NO_RULE), draw)
        case Failed() if not owner.is_closing:
            return _failed(job, outcome, draw)
        case Preempted(reason=reason) if not owner.is_closing:
            is_full = reason == STORAGE_FULL
            return _Ending(
                event=JobEvent.PREEMPT,
                outcome={"kind": "preempted", "reason": reason},
                fails=job.fails,
                pause_s=FULL_PAUSE_S if is_full else 0.0,
                alert=_FULL_ALERT if is_full else None,
            )
        case Cancelled() if not owner.is_closing:  # only a cancelled run may cancel a job
            return _ending(job, owner, Preempted(reason=_NOT_CANCELLED), draw)
        case _:
            return _Ending(event=JobEvent.CANCEL, outcome={"kind": "cancelled"}, fails=job.fails)


def _failed(job: JobView, outcome: Failed, draw: float) -> _Ending:
    if not outcome.is_charged:
        said: JsonObject = {"code": outcome.code, "message": outcome.message}
        document: JsonObject = {"kind": "failed", "fails": job.fails, **said}
        return _Ending(event=JobEvent.CRASH, outcome=document, fails=job.fails, alert=said)
    fails = job.fails + 1
    error = {name: told for name, told in (("error", outcome.error), (SHORTAGE, outcome.shortage)) if told is not None}
    document = {"kind": "failed", "code": outcome.code, "message": outcome.message, "fails": fails, **error}
    if is_given_up(fails=fails, done=job.done, is_permanent=outcome.permanent):
        return _Ending(event=JobEvent.FAIL, outcome=document, fails=fails)
    event = JobEvent.LEASE_EXPIRED if outcome.code == LEASE_EXPIRED else JobEvent.CRASH
    return _Ending(event=event, outcome=document, fails=fails, pause_s=backoff_s(fails, draw))


async def _end(session: AsyncSession, owner: Owner, job: JobView, ending: _Ending) -> Finished:
    state = JOB_TABLE[JobState.RUNNING, ending.event]
    if job.run_id is not None and job.claim_id is not None:
        phase = _PHASE_AFTER.get(ending.event, PhaseState.VOID)
        await claim_phases.close_of_claim(session, job.run_id, job.claim_id, phase)
    if owner.is_experiment:
        await mark_dirty(session, owner)
    document = _document(ending.outcome)
    values = {"job": job.id, "claim": job.claim_id, "state": state.value, "outcome": document}
    if state is JobState.READY:
        await session.execute(text(_GIVE_BACK), values | {"fails": ending.fails, "pause": ending.pause_s})
    else:
        await session.execute(text(_CLOSE), values | {"fails": ending.fails})
    await jobs.release(session, job.id)
    await session.execute(text(_END_CLAIM), {"claim": job.claim_id, "outcome": document})
    if not owner.is_experiment:
        await mark_dirty(session, owner)
    data = {"claim_id": str(job.claim_id)} | _public(ending.event, json.loads(document))
    mark = await job_event(session, owner, job.id, job.kind, _EVENT_NAME[state], data)
    if ending.alert is not None:
        mark = await alert(session, owner, job.id, ending.alert)
    return Finished(state=state, mark=mark)


async def _locked(session: AsyncSession, job_id: UUID, claim_id: UUID) -> JobView | None:
    row = (await session.execute(text(_LOCK), {"job": job_id, "claim": claim_id})).one_or_none()
    return None if row is None else view_of(JobView, row)


async def _checked(session: AsyncSession, job: JobView, outcome: Complete) -> Complete | Failed:
    """Turn the outcome into a failure if the range of a shard lacks rows, measured or reused."""
    if not STEPS[job.kind].writes_facts or job.range_start is None or job.range_end is None:
        return outcome
    values = {"run": job.run_id, "phase": job.phase, "start": job.range_start, "end": job.range_end}
    present = int((await session.execute(text(_ROWS), values)).scalar_one())
    wanted = job.range_end - job.range_start
    if present == wanted:
        return outcome
    return Failed(code="incomplete", message=f"{wanted - present} of {wanted} rows are missing.")


def _document(outcome: JsonObject) -> str:
    """Write an outcome as JSON that Postgres accepts: NUL and lone surrogates are replaced."""
    written = json.dumps(outcome, allow_nan=False, ensure_ascii=False).encode("utf-8", "replace").decode()
    return _NUL.sub("\\1\N{REPLACEMENT CHARACTER}", written)


def _public(event: JobEvent, outcome: JsonObject) -> dict[str, JsonValue]:
    return {"outcome": event.value} | {name: outcome[name] for name in ("reason", "code", "message") if name in outcome}


_EVENT_NAME = {
    JobState.READY: "requeued",
    JobState.DONE: "done",
    JobState.FAILED: "failed",
    JobState.CANCELLED: "cancelled",
}

_FULL_ALERT: JsonObject = {
    "code": STORAGE_FULL,
    "message": "Storage is full. Free some space; the job then continues by itself.",
}

_NO_RULE = "The worker stopped the job, but the run has no decision of a stop rule."
_NOT_CANCELLED = "The worker cancelled the job, but the run is not cancelled."

_PHASE_AFTER = {JobEvent.COMPLETE: PhaseState.COMPLETE, JobEvent.STOP: PhaseState.STOPPED}

_LOCK = "SELECT * FROM job WHERE id = :job AND claim_id = :claim AND state = 'RUNNING' FOR NO KEY UPDATE"

_EXPIRED = """
SELECT * FROM job
WHERE id = :job AND state = 'RUNNING' AND lease_until < now() - make_interval(secs => :grace)
FOR NO KEY UPDATE SKIP LOCKED
"""

_ROWS = """
SELECT (SELECT count(*) FROM fact WHERE run_id = :run AND phase = :phase AND ordinal >= :start AND ordinal < :end)
     + (SELECT count(*) FROM reused_fact
        WHERE run_id = :run AND phase = :phase AND ordinal >= :start AND ordinal < :end)
"""

_GIVE_BACK = """
UPDATE job SET state = :state, attempt_id = NULL, claim_id = NULL, worker_id = NULL, assigned_at = NULL,
               lease_until = NULL, not_before = now() + make_interval(secs => :pause), fails = :fails,
               outcome = CAST(:outcome AS jsonb)
WHERE id = :job AND claim_id = :claim AND state = 'RUNNING'
"""

_END_CLAIM = """
UPDATE claim SET ended_at = now(), failure = CASE
    WHEN CAST(:outcome AS jsonb)->>'kind' = 'failed' THEN jsonb_build_object(
        'code', CAST(:outcome AS jsonb)->'code', 'message', CAST(:outcome AS jsonb)->'message')
END
WHERE id = :claim
"""

_CLOSE = """
UPDATE job SET state = :state, lease_until = NULL, finished_at = now(), fails = :fails,
               outcome = CAST(:outcome AS jsonb)
WHERE id = :job AND claim_id = :claim AND state = 'RUNNING'
"""
