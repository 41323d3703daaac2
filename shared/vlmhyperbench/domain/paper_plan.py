"""Say on paper where jobs would run and how long they would take, by the decisions of the scheduler itself. Pure.

Nothing is simulated but time: a job ends after the duration that was measured before, and `decide` places what waits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from uuid import UUID

from vlmhyperbench.domain.needs import MemoryNeed
from vlmhyperbench.domain.paces import Pace
from vlmhyperbench.domain.placement import Inferring, Placement, WorkerNow, occupied
from vlmhyperbench.domain.scheduling import Assign, Refuse, RunningJob, WaitingJob, Window, decide

_START = datetime(2000, 1, 1, tzinfo=UTC)
_UNKNOWN_S = 60.0
"""Assumed for a job of unknown duration, so that the order can be told; no time that depends on it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PaperJob:
    """A job that would be added, and how long it would take; None if that is not known."""

    run: str
    job: WaitingJob
    duration_s: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PaperPlacement:
    """Where and when a job would run, in seconds from the start; None where that is not known."""

    run: str
    placement: Placement
    starts_s: float | None
    ends_s: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PaperPlan:
    """The placements in the order of their starts."""

    placements: tuple[PaperPlacement, ...]
    refused: tuple[tuple[str, str], ...]
    """Run and reason of each job that fits no device."""
    waiting: tuple[str, ...]
    """Runs of jobs that would wait for ever, as on drained devices."""

    @property
    def makespan_s(self) -> float | None:
        """Time until the last job ends; None if it is not known, or there is none."""
        ends = [placed.ends_s for placed in self.placements]
        known = [end for end in ends if end is not None]
        return max(known) if known and len(known) == len(ends) else None


@dataclass(slots=True, kw_only=True)
class _Run:
    ends_s: float
    is_known: bool
    placement: Placement
    job: WaitingJob


def plan_on_paper(
    jobs: Sequence[PaperJob],
    workers: Sequence[WorkerNow],
    memory: Mapping[str, MemoryNeed],
    paces: Mapping[str, Pace] | None = None,
) -> PaperPlan:
    """Place jobs on idle workers, as the scheduler would place them.

    Args:
        jobs: the jobs, in the order of the queue.
        workers: the workers, live or declared; drained ones get nothing.
        memory: digest of a target → what it needs.
        paces: digest of a target → what the scheduler has measured of its jobs; those of the jobs if None.
            Others become known as jobs end.
    """
    by_id = {job.job.id: job for job in jobs}
    known = dict(_paces(jobs) if paces is None else paces)
    waiting, running, placed = list(by_id), list[_Run](), list[PaperPlacement]()
    refused: list[tuple[str, str]] = []
    resident: dict[UUID, frozenset[str]] = {worker.id: worker.resident for worker in workers}
    now_s, is_exact = 0.0, True
    while waiting:
        before = len(waiting)
        queue = [by_id[job_id].job for job_id in waiting]
        for decision in _decisions(queue, workers, running, resident, memory, known, now_s):
            if isinstance(decision, Refuse):
                waiting.remove(decision.job_id)
                refused.append((by_id[decision.job_id].run, decision.message))
                continue
            waiting.remove(decision.job_id)
            job = by_id[decision.job_id]
            is_known = is_exact and job.duration_s is not None
            end = now_s + (job.duration_s if job.duration_s is not None else _UNKNOWN_S)
            running.append(_Run(ends_s=end, is_known=is_known, placement=decision.placement, job=job.job))
            worker_id, digest = decision.placement.worker_id, job.job.target_digest
            if digest is not None:
                resident[worker_id] = frozenset({digest}) if job.job.is_timed else resident[worker_id] | {digest}
            placed.append(
                PaperPlacement(
                    run=job.run,
                    placement=decision.placement,
                    starts_s=now_s if is_exact else None,
                    ends_s=end if is_known else None,
                )
            )
        if not running and len(waiting) == before:
            break
        if not running:
            continue
        now_s = min(run.ends_s for run in running)
        # From here on every start depends on this end.
        ended = [run for run in running if run.ends_s == now_s]
        is_exact = is_exact and all(run.is_known for run in ended)
        known |= _paces([by_id[run.job.id] for run in ended])
        running = [run for run in running if run.ends_s > now_s]
    left = tuple(by_id[job_id].run for job_id in waiting)
    return PaperPlan(placements=tuple(placed), refused=tuple(refused), waiting=left)


def _decisions(
    waiting: Sequence[WaitingJob],
    workers: Sequence[WorkerNow],
    running: Sequence[_Run],
    resident: Mapping[UUID, frozenset[str]],
    memory: Mapping[str, MemoryNeed],
    paces: Mapping[str, Pace],
    now_s: float,
) -> Sequence[Assign | Refuse]:
    load = {worker.id: replace(worker, resident=resident[worker.id]) for worker in workers}
    for run in running:
        load[run.placement.worker_id] = occupied(load[run.placement.worker_id], run.placement)
    inferring = tuple(
        Inferring(
            worker_id=run.placement.worker_id,
            ground=load[run.placement.worker_id].ground,
            is_timed=run.job.is_timed,
            servers=frozenset() if run.job.server is None else frozenset({run.job.server}),
        )
        for run in running
    )
    window = Window(
        now=_START + timedelta(seconds=now_s),
        waiting=tuple(replace(job, waited_s=now_s) for job in waiting),
        workers=tuple(load.values()),
        inferring=inferring,
        known=tuple(workers),
        memory=memory,
        running=tuple(share for run in running for share in _shares(run, paces, now_s)),
        paces=paces,
    )
    decisions = decide(window, unclaimed_s=1.0, unfit_s=0.0)  # nothing is assigned before, so none is taken back
    return [decision for decision in decisions if isinstance(decision, Assign | Refuse)]


def _paces(jobs: Sequence[PaperJob]) -> dict[str, Pace]:
    return {
        job.job.target_digest: Pace(answer_s=job.duration_s / job.job.answers)
        for job in jobs
        if job.duration_s is not None and job.job.target_digest is not None
    }


def _shares(run: _Run, paces: Mapping[str, Pace], now_s: float) -> list[RunningJob]:
    """Return what a job has of its devices, with the answers that are left by its pace."""
    pace = paces.get(run.job.target_digest or "")
    left = run.job.answers if not pace or not pace.answer_s else max(1, round((run.ends_s - now_s) / pace.answer_s))
    return [
        RunningJob(
            worker_id=run.placement.worker_id,
            device=reservation.device,
            bytes=reservation.bytes,
            target_digest=run.job.target_digest,
            answers=left,
        )
        for reservation in run.placement.reservations
    ]
