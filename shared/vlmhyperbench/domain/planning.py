"""Plan the jobs and phases of runs and experiments, from the spec and the number of samples. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias

from pydantic import JsonValue

from vlmhyperbench.domain.digests import digest_of
from vlmhyperbench.domain.graph import Step, answers_step, steps_of
from vlmhyperbench.domain.specs import RunSpec
from vlmhyperbench.domain.steps import STEPS, StepKind
from vlmhyperbench_sdk.load import PhaseKind
from vlmhyperbench_sdk.types import JsonObject

ACCURACY_PHASE = 1
"""Number of the phase with the answers of a closed-loop run, which all its shards share."""

NeedsState: TypeAlias = Literal["DONE", "ENDED", "STARTED"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedJob:
    """A job before it has an id; `needs` are indices in the same plan."""

    step: int
    kind: StepKind
    scope: Literal["run", "experiment"] = "run"
    needs: tuple[int, ...] = ()
    needs_state: NeedsState = "DONE"
    """State that the needed jobs must have reached; `STARTED` lets it run while they still run."""
    phase: int | None = None
    range_start: int | None = None
    range_end: int | None = None
    """Ordinals [start, end) of a job that writes facts."""
    params: JsonObject = field(default_factory=dict)
    target_digest: str | None = None
    """Digest of its target if that is not the run's own: that of a judge, or of a member of a pipeline."""
    is_timed: bool = True
    devices: int = 0
    is_simulated: bool = False
    server: str | None = None


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
    """The plan of a run whose samples are known: its number of requests, its phases and its remaining jobs."""

    total: int
    phases: tuple[PlannedPhase, ...]
    jobs: tuple[PlannedJob, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExperimentPlan:
    """Jobs of an experiment itself, and of each of its runs in the order of the specs."""

    jobs: tuple[PlannedJob, ...]
    runs: tuple[tuple[PlannedJob, ...], ...]


def dataset_digest(spec: RunSpec) -> str:
    """Return the digest of what determines the samples; runs with equal digests share one sample manifest."""
    return digest_of(_samples_inputs(spec))


def index_digest(spec: RunSpec) -> str:
    """Return the digest of all inputs of INDEX, the draw of examples too; runs with equal digests share one job."""
    return digest_of(_index_inputs(spec))


def are_paired(first: RunSpec, second: RunSpec) -> bool:
    """Return whether two runs have the same task, samples and repeats, so that one can be the baseline of the other."""
    return (first.task, first.decoding.n, dataset_digest(first)) == (
        second.task,
        second.decoding.n,
        dataset_digest(second),
    )


def plan_run(spec: RunSpec, *, is_fresh: bool = False) -> list[PlannedJob]:
    """Plan a run at submission: only its INDEX job; `expand_run` plans the rest once the samples are known.

    `is_fresh` enumerates the dataset again even if an earlier manifest could be used.
    """
    index = _index(spec, "run")
    return [replace(index, params={**index.params, "is_fresh": True}) if is_fresh else index]


def plan_experiment(specs: Sequence[RunSpec]) -> ExperimentPlan:
    """Plan an experiment at submission: one INDEX job per dataset and draw of examples, which runs share."""
    shared = {digest for digest, uses in Counter(map(index_digest, specs)).items() if uses > 1}
    jobs = {index_digest(spec): _index(spec, "experiment") for spec in specs if index_digest(spec) in shared}
    runs = tuple(() if index_digest(spec) in shared else tuple(plan_run(spec)) for spec in specs)
    return ExperimentPlan(jobs=tuple(jobs.values()), runs=runs)


def expand_run(spec: RunSpec, *, samples: int) -> Expansion:
    """Plan the jobs and phases of all steps after INDEX.

    A closed-loop run has one accuracy phase for all its shards, with ordinal = repeat · samples + sample. A timed
    scenario is one job that restarts as a whole; the claim that measures it opens its phase. In a run with a stop rule,
    SCORE starts with the inference and watches it.
    """
    bound = spec.scenario.bound if spec.scenario.is_timed else None
    return _plan(spec, steps_of(spec)[1:], bound or samples * spec.decoding.n, first_phase=ACCURACY_PHASE)


def plan_rescoring(spec: RunSpec, *, total: int, reused: Sequence[int] = (ACCURACY_PHASE,)) -> Expansion:
    """Plan a run that reuses the answers of another run: the jobs and phases of all steps after the answers.

    Args:
        spec: spec of the new run.
        total: number of requests of the reused answers.
        reused: numbers of the reused phases.
    """
    steps = steps_of(spec)
    return _plan(spec, steps[answers_step(steps).no + 1 :], total, first_phase=max(reused, default=0) + 1)


def _plan(spec: RunSpec, steps: Sequence[Step], total: int, *, first_phase: int) -> Expansion:
    """Plan the phases and jobs of steps; `total` is the number of answers that the run gets or reuses."""
    phases: list[PlannedPhase] = []
    jobs: list[PlannedJob] = []
    job_numbers: dict[int, range] = {}
    writing = sorted((step for step in steps if STEPS[step.kind].writes_facts), key=lambda step: not _counts(step))
    phase_numbers = {step.no: no for no, step in enumerate(writing, start=first_phase)}
    for step in steps:
        needed = [other for other in steps if other.no in step.needs]
        job = PlannedJob(
            step=step.no,
            kind=step.kind,
            needs=tuple(number for other in needed for number in job_numbers[other.no]),
            needs_state=_needs_state(spec, step, needed),
            params=step.params,
            target_digest=step.target_digest,
            is_timed=step.is_timed,
            devices=step.devices,
            is_simulated=step.is_simulated,
            server=step.server,
        )
        phase = _phase_of(step, total * step.rows, no=phase_numbers.get(step.no, 0))
        shards = [job] if phase is None else _shards(job, step, phase)
        phases += [phase] if phase is not None and not step.restarts else []
        job_numbers[step.no] = range(len(jobs), len(jobs) + len(shards))
        jobs += shards
    return Expansion(total=total, phases=tuple(phases), jobs=tuple(jobs))


def _counts(step: Step) -> bool:
    return STEPS[step.kind].counts


def _phase_of(step: Step, count: int, *, no: int) -> PlannedPhase | None:
    """Return the phase of a step's rows; None if it writes no facts."""
    kind, counts = STEPS[step.kind].phase, _counts(step)
    if kind is None:
        return None
    return PlannedPhase(no=no, step=step.no, kind=kind, counts=counts, params=step.phase_params, count=count)


def _shards(job: PlannedJob, step: Step, phase: PlannedPhase) -> list[PlannedJob]:
    """Split the rows of a phase into jobs."""
    size = step.shard_size or max(phase.count, 1)
    no = None if step.restarts else phase.no
    starts = range(0, phase.count, size)
    return [replace(job, phase=no, range_start=start, range_end=min(start + size, phase.count)) for start in starts]


def _needs_state(spec: RunSpec, step: Step, needed: Sequence[Step]) -> NeedsState:
    """Return the state that the needed jobs must have reached before a step starts."""
    reads, writes = STEPS[step.kind].samples == "answers", STEPS[step.kind].writes_facts
    if spec.stop is not None and reads and not writes and any(map(_counts, needed)):
        return "STARTED"  # SCORE watches the inference
    # An optional step that failed does not block the steps after it.
    return "ENDED" if any(STEPS[other.kind].is_optional for other in needed) else "DONE"


def _index(spec: RunSpec, scope: Literal["run", "experiment"]) -> PlannedJob:
    params: JsonObject = {
        **_index_inputs(spec),
        "dataset_digest": dataset_digest(spec),
        "index_digest": index_digest(spec),
    }
    return PlannedJob(step=0, kind=StepKind.INDEX, scope=scope, params=params)


def _index_inputs(spec: RunSpec) -> dict[str, JsonValue]:
    few_shot = spec.prompt.few_shot
    drawn: dict[str, JsonValue] = {} if few_shot is None else {"few_shot": few_shot.model_dump(mode="json")}
    return _samples_inputs(spec) | drawn


def _samples_inputs(spec: RunSpec) -> dict[str, JsonValue]:
    limits: dict[str, JsonValue] = {
        "max_image_bytes": spec.limits.max_image_bytes,
        "max_image_pixels": spec.limits.max_image_pixels,
    }
    return {"dataset": spec.dataset.model_dump(mode="json"), "limits": limits}
