"""Which jobs and phases a run and an experiment consist of: pure values, from the spec and what INDEX found."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias

from pydantic import JsonValue

from vlmhyperbench.domain.digests import digest_of
from vlmhyperbench.domain.graph import ANSWERS, Step, steps_of
from vlmhyperbench.domain.specs import RunSpec
from vlmhyperbench.domain.steps import STEPS, StepKind
from vlmhyperbench_sdk.load import PhaseKind
from vlmhyperbench_sdk.types import JsonObject

ACCURACY_PHASE = 1
"""Number of the phase that the scheduler opens for all shards of a closed-loop run."""

NeedsState: TypeAlias = Literal["DONE", "ENDED", "STARTED"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedJob:
    """A job before it has an id: `needs` are places in the same plan."""

    step: int
    kind: StepKind
    scope: Literal["run", "experiment"] = "run"
    needs: tuple[int, ...] = ()
    needs_state: NeedsState = "DONE"
    """`STARTED`: it works while the jobs that it needs still run, and waits for their end by itself."""
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


def expand_run(spec: RunSpec, *, samples: int) -> Expansion:
    """Plan what follows INDEX: the jobs and phases of all other steps.

    A closed-loop run has one accuracy phase for all its shards, with ordinal = repeat · samples + sample. A timed
    scenario is one job that restarts whole: its phase is opened by the claim that measures it. SCORE watches a run
    that may stop early.
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
        job = PlannedJob(
            step=step.no,
            kind=step.kind,
            needs=tuple(place for other in needed for place in places[other.no]),
            needs_state=_needs_state(spec, step, needed),
            params=step.params,
            target_digest=step.target_digest,
        )
        phase = _phase_of(step, total * step.rows, no=first_phase + len(phases))
        shards = [job] if phase is None else _shards(job, step, phase)
        phases += [phase] if phase is not None and not step.restarts else []
        places[step.no] = range(len(jobs), len(jobs) + len(shards))
        jobs += shards
    return Expansion(total=total, phases=tuple(phases), jobs=tuple(jobs))


def _phase_of(step: Step, count: int, *, no: int) -> PlannedPhase | None:
    """Say in which phase a step's rows lie; None where it writes no facts."""
    kind, counts = STEPS[step.kind].phase, STEPS[step.kind].counts
    if kind is None:
        return None
    return PlannedPhase(no=no, step=step.no, kind=kind, counts=counts, params=step.phase_params, count=count)


def _shards(job: PlannedJob, step: Step, phase: PlannedPhase) -> list[PlannedJob]:
    """Divide the rows of a phase among jobs."""
    size = step.shard_size or max(phase.count, 1)
    no = None if step.restarts else phase.no
    starts = range(0, phase.count, size)
    return [replace(job, phase=no, range_start=start, range_end=min(start + size, phase.count)) for start in starts]


def _needs_state(spec: RunSpec, step: Step, needed: Sequence[Step]) -> NeedsState:
    """Say when a step may begin: while inference runs that it watches, or after optional steps even if one failed."""
    reads, writes = STEPS[step.kind].samples == "answers", STEPS[step.kind].writes_facts
    if spec.stop is not None and reads and not writes and any(STEPS[other.kind].counts for other in needed):
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
