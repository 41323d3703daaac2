"""What a plan on paper knows of runs: workers, memory, paces and samples; and when their jobs would run by it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal
from uuid import UUID, uuid4

from vlmhyperbench.db import capacity, durations, manifests, memory
from vlmhyperbench.db.engine import AsyncSession
from vlmhyperbench.domain.asking import targets_of
from vlmhyperbench.domain.needs import MemoryNeed
from vlmhyperbench.domain.paces import Pace, Paces
from vlmhyperbench.domain.paper_plan import PaperJob, PaperPlan, plan_on_paper
from vlmhyperbench.domain.placement import WorkerNow, idle
from vlmhyperbench.domain.planning import dataset_digest, expand_run
from vlmhyperbench.domain.run_plan import in_few_shards
from vlmhyperbench.domain.scheduling import WaitingJob
from vlmhyperbench.domain.specs import RunSpec
from vlmhyperbench.domain.steps import STEPS
from vlmhyperbench.runtime import Runtime
from vlmhyperbench_api.submission.estimating import estimates_of

MAX_S = 365 * 86_400.0
"""A run that takes longer counts as of unknown duration: its limit is far above every dataset."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleCount:
    """How many samples a run would ask, and how that is known."""

    count: int | None
    basis: Literal["manifest", "limit", "unknown"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What the database and the adapters know about the targets and datasets of runs."""

    workers: tuple[WorkerNow, ...]
    """The live inference workers with what runs on them."""
    memory: Mapping[str, MemoryNeed]
    """Digest of a target → what it needs."""
    paces: Mapping[tuple[str, str], Paces]
    """Digest of a target and name of a task → what earlier jobs took."""
    verdicts: Mapping[str, Paces]
    """Digest of a judge's target → what earlier jobs of judges took."""
    samples: tuple[SampleCount, ...]
    """Of each run."""

    def pace_of(self, spec: RunSpec) -> Paces | None:
        """Return what earlier jobs of a run's target and task took."""
        return self.paces.get((spec.target_digest, spec.task))


@dataclass(frozen=True, slots=True, kw_only=True)
class Papers:
    """The plans at the mean, the fastest and the slowest pace."""

    expected: PaperPlan
    shortest: PaperPlan
    longest: PaperPlan
    unknown: tuple[str, ...]
    """Runs of which no pace is known, or that would take longer than `MAX_S`."""

    @property
    def is_whole(self) -> bool:
        """Whether every job has a place."""
        return not self.expected.refused and not self.expected.waiting


async def read_known(runtime: Runtime, specs: Sequence[RunSpec], *, project_id: str) -> Known:
    """Ask the adapters and read the database."""
    estimates = await estimates_of(runtime, targets_of(specs))
    settings = runtime.settings
    digests = {spec.target_digest for spec in specs} | set(estimates)
    async with runtime.database.transaction() as session:
        measured = await memory.needs_of(session, digests, margin=settings.memory_margin)
        seen = await capacity.workers(session, stale_s=settings.timers.stale_worker_s)
        paces = await durations.measured_paces(session, sorted(digests), project_id=project_id)
        verdicts = await durations.verdict_paces(session, sorted(digests), project_id=project_id)
        counts = [await _samples(session, spec) for spec in specs]
    estimated = {
        digest: memory.need_of(estimate, margin=settings.memory_margin) for digest, estimate in estimates.items()
    }
    return Known(
        workers=tuple(worker for worker in seen.live if worker.kind == "inference"),
        # What was measured on one device says nothing of another, for which the estimate counts.
        memory=estimated
        | {
            digest: replace(estimated[digest], peaks=need.peaks)
            if need.device_bytes is None and digest in estimated
            else need
            for digest, need in measured.items()
        },
        paces=paces,
        verdicts=verdicts,
        samples=tuple(counts),
    )


def write_papers(runs: Sequence[tuple[str, RunSpec]], known: Known, workers: Sequence[WorkerNow] = ()) -> Papers:
    """Place the jobs of named runs on idle workers, live or declared; the order of hundreds of jobs takes a while."""
    measured = {name: paces for name, spec in runs if (paces := known.pace_of(spec))}
    jobs = [
        job
        for (name, spec), samples in zip(runs, known.samples, strict=True)
        for job in _jobs(name, spec, samples.count, measured.get(name))
    ]
    fastest = _at_pace(jobs, {name: paces.fastest for name, paces in measured.items()})
    slowest = _at_pace(jobs, {name: paces.slowest for name, paces in measured.items()})
    places = list(workers) or [idle(worker) for worker in known.workers]
    expected, shortest, longest = (plan_on_paper(each, places, known.memory) for each in (jobs, fastest, slowest))
    unknown = dict.fromkeys(job.run for job in jobs if job.duration_s is None)
    return Papers(expected=expected, shortest=shortest, longest=longest, unknown=tuple(unknown))


def _at_pace(jobs: Sequence[PaperJob], paces: Mapping[str, Pace]) -> list[PaperJob]:
    """Return the jobs with the durations that they have at the pace of their run."""
    return [
        job if job.duration_s is None else replace(job, duration_s=paces[job.run].seconds(job.job.answers))
        for job in jobs
    ]


def _jobs(name: str, spec: RunSpec, samples: int | None, paces: Paces | None) -> list[PaperJob]:
    """Return the jobs of a run that ask its target, or the models of its pipeline.

    One is of unknown duration where its samples are not known, and those of a pipeline's models always are.
    """
    answers = (samples or 1) * spec.decoding.n
    if paces is not None and paces.slowest.seconds(answers) > MAX_S:
        paces = None
    shown = in_few_shards(spec, answers)
    planned = expand_run(shown, samples=samples or 1).jobs
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
                server=job.server,
                experiment_id=experiment,
                answers=max(1, (job.range_end or 0) - (job.range_start or 0)),
            ),
            duration_s=None
            if samples is None or paces is None or job.range_start is None or job.range_end is None
            else paces.mean.seconds(job.range_end - job.range_start),
        )
        for job in planned
        if STEPS[job.kind].asks in {"run", "member"}
    ]


async def _samples(session: AsyncSession, spec: RunSpec) -> SampleCount:
    """Return the number of samples of a run, if its dataset was read before; at most its limit otherwise.

    A limit takes the first samples, so a manifest of the whole dataset tells the number for every limit.
    """
    whole = spec.model_copy(update={"dataset": spec.dataset.model_copy(update={"limit": None})})
    for read in (spec, whole):
        known = await manifests.of_dataset(session, dataset_digest(read))
        if known is not None:
            return SampleCount(count=min(known.samples, spec.dataset.limit or known.samples), basis="manifest")
    limit = spec.dataset.limit
    return SampleCount(count=limit, basis="unknown" if limit is None else "limit")
