"""Which jobs and phases a run and an experiment consist of: pure values, from the spec and what INDEX found."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias

from pydantic import JsonValue

from vlmhyperbench.domain.digests import digest_of
from vlmhyperbench.domain.judging import METRIC, is_judge, judging_of, verdicts
from vlmhyperbench.domain.specs import ImportTarget, MetricSpec, RunSpec
from vlmhyperbench.domain.steps import STEPS, StepKind
from vlmhyperbench_sdk.load import PhaseKind
from vlmhyperbench_sdk.types import JsonObject

ANSWERS = 1
"""Number of the step that brings a run's answers; INDEX is 0."""

ACCURACY_PHASE = 1
"""Number of the phase that the scheduler opens for all shards of a closed-loop run."""

STOPPABLE = "is_stoppable"
"""Param of a shard that a stop rule may end: its worker asks more often whether it did."""


NeedsState: TypeAlias = Literal["DONE", "ENDED", "STARTED"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A node of a run's graph."""

    no: int
    kind: StepKind
    needs: tuple[int, ...] = ()
    """Numbers of the steps that come before it."""
    metric: MetricSpec | None = None
    """Of a step that asks the target of a metric."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedJob:
    """A job before it has an id: `needs` are places in the same plan."""

    step: int
    kind: StepKind
    scope: Literal["run", "experiment"] = "run"
    needs: tuple[int, ...] = ()
    needs_state: NeedsState = "DONE"
    """`STARTED`: it works beside the jobs that it needs, and waits for their end by itself."""
    phase: int | None = None
    range_start: int | None = None
    range_end: int | None = None
    """Ordinals [start, end) of a job that writes facts."""
    params: JsonObject = field(default_factory=dict)
    target_digest: str | None = None
    """Of a target that is not the run's own: a judge's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedPhase:
    """A phase that the scheduler opens."""

    no: int
    step: int
    kind: PhaseKind
    counts: bool
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


def steps_of(spec: RunSpec) -> tuple[Step, ...]:
    """Draw a run's graph: INDEX, what brings the answers, the judges that read them, SCORE, then REPORT."""
    brings = StepKind.IMPORT if isinstance(spec.target, ImportTarget) else StepKind.GENERATE
    steps = [Step(no=0, kind=StepKind.INDEX), Step(no=ANSWERS, kind=brings, needs=(0,))]
    for metric in filter(is_judge, spec.metrics):
        steps.append(Step(no=len(steps), kind=StepKind.JUDGE, needs=(ANSWERS,), metric=metric))
    if spec.metrics:
        steps.append(Step(no=len(steps), kind=StepKind.SCORE, needs=tuple(range(ANSWERS, len(steps)))))
    if spec.reports:
        steps.append(Step(no=len(steps), kind=StepKind.REPORT, needs=(len(steps) - 1,)))
    return tuple(steps)


def expand_run(spec: RunSpec, *, samples: int) -> Expansion:
    """Plan what follows INDEX: the jobs and phases of all other steps.

    A closed-loop run has one accuracy phase for all its shards, with ordinal = repeat · samples + sample. A timed
    scenario is one job that restarts whole: its phase is opened by the claim that measures it. A run that may stop
    early is one shard, since its samples are asked in one random order, and SCORE watches it.
    """
    bound = spec.scenario.bound if spec.scenario.is_timed else None
    return _plan(spec, steps_of(spec)[ANSWERS:], bound or samples * spec.decoding.n, first_phase=ACCURACY_PHASE)


def plan_rescoring(spec: RunSpec, *, total: int, kept: Sequence[int] = (ACCURACY_PHASE,)) -> Expansion:
    """Plan a run that keeps another's answers, phases included: what follows the step that brought them.

    Args:
        spec: what it is now.
        total: requests of the answers that are kept.
        kept: numbers of the phases that they are in.
    """
    return _plan(spec, steps_of(spec)[ANSWERS + 1 :], total, first_phase=max(kept, default=0) + 1)


def _plan(spec: RunSpec, steps: Sequence[Step], total: int, *, first_phase: int) -> Expansion:
    """Plan the phases and jobs of steps; `total` is how many answers the run gets, or keeps."""
    phases: list[PlannedPhase] = []
    jobs: list[PlannedJob] = []
    places: dict[int, range] = {}
    for step in steps:
        needed = [other for other in steps if other.no in step.needs]
        needs = tuple(place for other in needed for place in places[other.no])
        planned: Sequence[PlannedJob]
        if STEPS[step.kind].writes_facts:
            phase, planned = _asking(spec, step, total, phase=first_phase + len(phases))
            phases += [phase] if phase else []
        else:
            planned = [PlannedJob(step=step.no, kind=step.kind, needs_state=_needs_state(spec, step, needed))]
        places[step.no] = range(len(jobs), len(jobs) + len(planned))
        jobs += [replace(job, needs=needs) for job in planned]
    return Expansion(total=total, phases=tuple(phases), jobs=tuple(jobs))


def _asking(spec: RunSpec, step: Step, total: int, *, phase: int) -> tuple[PlannedPhase | None, list[PlannedJob]]:
    """Plan a step that writes facts: its shards, and the phase that they share unless a claim opens its own."""
    kind, counts = STEPS[step.kind].phase, STEPS[step.kind].counts
    assert kind is not None, "a step that writes facts has a kind of phase"  # noqa: S101
    if step.metric is not None:
        judging = judging_of(step.metric)
        params: JsonObject = {METRIC: step.metric.label, "in_flight": judging.in_flight}
        count, size = verdicts(judging, total), spec.limits.shard_size
        shard = PlannedJob(step=step.no, kind=step.kind, params=params, target_digest=digest_of(judging.target))
    else:
        params = {"in_flight": spec.scenario.in_flight, "scenario": spec.scenario.name}
        is_whole = spec.scenario.is_timed or spec.stop is not None or isinstance(spec.target, ImportTarget)
        count, size = total, total if is_whole else spec.limits.shard_size
        shard = PlannedJob(step=step.no, kind=step.kind, params={STOPPABLE: True} if spec.stop else {})
        if spec.scenario.is_timed:
            return None, [replace(shard, range_start=0, range_end=count)]
    planned = PlannedPhase(no=phase, step=step.no, kind=kind, counts=counts, params=params, count=count)
    starts = range(0, count, max(size, 1))
    return planned, [
        replace(shard, phase=phase, range_start=start, range_end=min(start + size, count)) for start in starts
    ]


def _needs_state(spec: RunSpec, step: Step, needed: Sequence[Step]) -> NeedsState:
    """Say when a step may begin: beside inference that it watches, or after optional steps even if one has failed."""
    watches = spec.stop is not None and STEPS[step.kind].samples == "answers"
    if watches and any(STEPS[other.kind].counts for other in needed):
        return "STARTED"
    return "ENDED" if any(STEPS[other.kind].is_optional for other in needed) else "DONE"


def _index(spec: RunSpec, scope: Literal["run", "experiment"]) -> PlannedJob:
    params: JsonObject = {**_index_inputs(spec), "dataset_digest": dataset_digest(spec)}
    return PlannedJob(step=0, kind=StepKind.INDEX, scope=scope, params=params)


def _index_inputs(spec: RunSpec) -> dict[str, JsonValue]:
    limits: dict[str, JsonValue] = {
        "max_image_bytes": spec.limits.max_image_bytes,
        "max_image_pixels": spec.limits.max_image_pixels,
    }
    return {"dataset": spec.dataset.model_dump(mode="json"), "limits": limits}
