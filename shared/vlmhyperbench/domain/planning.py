"""Which jobs and phases a run and an experiment consist of: pure values, from the spec and what INDEX found."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from pydantic import JsonValue

from vlmhyperbench.domain.digests import digest_of
from vlmhyperbench.domain.judging import PARAM, is_judge, judging_of, verdicts
from vlmhyperbench.domain.specs import ImportTarget, RunSpec
from vlmhyperbench.domain.steps import StepKind
from vlmhyperbench_sdk.types import JsonObject

ACCURACY_PHASE = 1
"""Number of the phase that the scheduler opens for all shards of a closed-loop run."""

STOPPABLE = "is_stoppable"
"""Param of a shard that a stop rule may end: its worker asks more often whether it did."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedJob:
    """A job before it has an id: `needs` are places in the same plan."""

    kind: StepKind
    scope: Literal["run", "experiment"] = "run"
    needs: tuple[int, ...] = ()
    needs_state: Literal["DONE", "ENDED", "STARTED"] = "DONE"
    """`STARTED`: it works beside the jobs that it needs, and waits for their end by itself."""
    phase: int | None = None
    range_start: int | None = None
    range_end: int | None = None
    """Ordinals [start, end) of a GENERATE shard."""
    params: JsonObject = field(default_factory=dict)
    target_digest: str | None = None
    """Of a target that is not the run's own: a judge's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedPhase:
    """A phase that the scheduler opens."""

    no: int
    kind: str
    params: JsonObject
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Expansion:
    """What follows once the samples are known: the requests of the run, its phases and its remaining jobs."""

    total: int
    phases: tuple[PlannedPhase, ...]
    jobs: tuple[PlannedJob, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExperimentPlan:
    """Jobs of the experiment itself, and of each run in the order of the specs."""

    jobs: tuple[PlannedJob, ...]
    runs: tuple[tuple[PlannedJob, ...], ...]


def dataset_digest(spec: RunSpec) -> str:
    """Return the digest of what INDEX reads: runs with equal ones share one INDEX job and one sample manifest."""
    return digest_of(_index_inputs(spec))


def target_digest(spec: RunSpec) -> str:
    """Return the digest of the target: jobs with equal ones can use one loaded model."""
    return digest_of(spec.target)


def are_paired(one: RunSpec, other: RunSpec) -> bool:
    """Whether two runs ask the same samples, equally often, for the same task: one can be the other's baseline."""
    return (one.task, one.decoding.n, dataset_digest(one)) == (other.task, other.decoding.n, dataset_digest(other))


def plan_run(spec: RunSpec, *, is_fresh: bool = False) -> list[PlannedJob]:
    """Plan a run at submission: its INDEX job; the rest follows from what that finds (`expand_run`).

    `is_fresh` enumerates the dataset anew even where an earlier manifest would do.
    """
    index = _index(spec, "run")
    return [replace(index, params={**index.params, "is_fresh": True}) if is_fresh else index]


def plan_experiment(specs: Sequence[RunSpec]) -> ExperimentPlan:
    """Plan an experiment at submission: one INDEX per distinct dataset, the experiment's own where runs share it."""
    shared = {digest for digest, uses in Counter(map(dataset_digest, specs)).items() if uses > 1}
    jobs = {dataset_digest(spec): _index(spec, "experiment") for spec in specs if dataset_digest(spec) in shared}
    runs = tuple(() if dataset_digest(spec) in shared else tuple(plan_run(spec)) for spec in specs)
    return ExperimentPlan(jobs=tuple(jobs.values()), runs=runs)


def expand_run(spec: RunSpec, *, samples: int) -> Expansion:
    """Plan what follows INDEX: GENERATE shards (or one IMPORT), then SCORE, then REPORT.

    A closed-loop run has one accuracy phase for all its shards, with ordinal = repeat · samples + sample. A timed
    scenario is one job that restarts whole: its phase is opened by the claim that measures it. A run that may stop
    early is one shard, since its samples are asked in one random order, and SCORE watches it.
    """
    if spec.scenario.is_timed:
        total = spec.scenario.bound or samples * spec.decoding.n
        phases: tuple[PlannedPhase, ...] = ()
        shards = [_shard(spec, StepKind.GENERATE, None, 0, total)]
    else:
        total = samples * spec.decoding.n
        params: JsonObject = {"in_flight": spec.scenario.in_flight, "scenario": spec.scenario.name}
        phases = (PlannedPhase(no=ACCURACY_PHASE, kind="accuracy", params=params, count=total),)
        size = total if isinstance(spec.target, ImportTarget) or spec.stop else spec.limits.shard_size
        kind = StepKind.IMPORT if isinstance(spec.target, ImportTarget) else StepKind.GENERATE
        shards = [
            _shard(spec, kind, ACCURACY_PHASE, start, min(start + size, total)) for start in range(0, total, size)
        ]
    return _with_closing(spec, total, shards, phases)


def plan_rescoring(spec: RunSpec, *, total: int, kept: Sequence[int] = (ACCURACY_PHASE,)) -> Expansion:
    """Plan a run that keeps another's answers, phases included: judges, SCORE, then REPORT.

    Args:
        spec: what it is now.
        total: requests of the answers that are kept.
        kept: numbers of the phases that they are in.
    """
    return _with_closing(spec, total, (), (), first_free=max(kept, default=0) + 1)


def _with_closing(
    spec: RunSpec,
    total: int,
    shards: Sequence[PlannedJob],
    phases: Sequence[PlannedPhase],
    *,
    first_free: int | None = None,
) -> Expansion:
    jobs, opened = list(shards), list(phases)
    closing = tuple(range(len(shards)))
    for no, metric in enumerate(filter(is_judge, spec.metrics), start=first_free or len(phases) + 1):
        judging = judging_of(metric)
        count = verdicts(judging, total)
        params: JsonObject = {PARAM: metric.label, "in_flight": judging.in_flight}
        opened.append(PlannedPhase(no=no, kind="judge", params=params, count=count))
        for start in range(0, count, spec.limits.shard_size):
            end = min(start + spec.limits.shard_size, count)
            shard = PlannedJob(kind=StepKind.GENERATE, phase=no, range_start=start, range_end=end, params=params)
            jobs.append(replace(shard, needs=closing, target_digest=digest_of(judging.target)))
    closing = tuple(range(len(jobs)))
    if spec.metrics:
        jobs.append(PlannedJob(kind=StepKind.SCORE, needs=closing, needs_state=_scores_when(spec, shards, jobs)))
        closing = (len(jobs) - 1,)
    if spec.reports:
        jobs.append(PlannedJob(kind=StepKind.REPORT, needs=closing))
    return Expansion(total=total, phases=tuple(opened), jobs=tuple(jobs))


def _scores_when(
    spec: RunSpec, shards: Sequence[PlannedJob], before: Sequence[PlannedJob]
) -> Literal["DONE", "ENDED", "STARTED"]:
    """Say when SCORE may begin: beside inference that it watches, and after judges even if one of them failed."""
    if spec.stop is not None and shards:
        return "STARTED"
    return "ENDED" if len(before) > len(shards) else "DONE"


def _shard(spec: RunSpec, kind: StepKind, phase: int | None, start: int, end: int) -> PlannedJob:
    params: JsonObject = {STOPPABLE: True} if spec.stop else {}
    return PlannedJob(kind=kind, phase=phase, range_start=start, range_end=end, params=params)


def _index(spec: RunSpec, scope: Literal["run", "experiment"]) -> PlannedJob:
    params: JsonObject = {**_index_inputs(spec), "dataset_digest": dataset_digest(spec)}
    return PlannedJob(kind=StepKind.INDEX, scope=scope, params=params)


def _index_inputs(spec: RunSpec) -> dict[str, JsonValue]:
    limits: dict[str, JsonValue] = {
        "max_image_bytes": spec.limits.max_image_bytes,
        "max_image_pixels": spec.limits.max_image_pixels,
    }
    return {"dataset": spec.dataset.model_dump(mode="json"), "limits": limits}
