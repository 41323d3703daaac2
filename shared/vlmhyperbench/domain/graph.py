"""The graph of a run: its steps, the steps that each of them needs, and the number of rows that it writes. Pure.

Every step of a run is created here; planning, scheduling and closing follow from the graph and from the properties of
the step kinds (`domain.steps`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from vlmhyperbench.domain.digests import digest_of
from vlmhyperbench.domain.judging import METRIC, is_judge, judging_of, verdicts
from vlmhyperbench.domain.needs import devices_of, is_simulated, server_of
from vlmhyperbench.domain.pipelines import AskedModel, Key, PipelineTarget, asked_models, needed_by
from vlmhyperbench.domain.specs import ImportTarget, MetricSpec, RunSpec
from vlmhyperbench.domain.steps import STEPS, StepKind
from vlmhyperbench_sdk.types import JsonObject

STOPPABLE: Final = "is_stoppable"
"""Parameter of a shard that a stop rule may end; its worker renews the lease more often, to learn of it soon."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A node of a run's graph."""

    no: int
    kind: StepKind
    needs: tuple[int, ...] = ()
    """Numbers of the steps whose jobs have to end, or to start, before it."""
    params: JsonObject = field(default_factory=dict)
    """Parameters of its jobs."""
    target_digest: str | None = None
    """Digest of its target if that is not the run's own: that of a judge, or of a member of a pipeline."""
    rows: int = 1
    """Number of rows that it writes per answer of the run, if it writes facts."""
    shard_size: int | None = None
    """Maximum number of rows of one of its jobs; None: one job writes all rows."""
    phase_params: JsonObject = field(default_factory=dict)
    is_timed: bool = True
    """Whether the speed of its requests counts, so that it is alone on its devices."""
    devices: int = 0
    """Number of devices that its target needs."""
    is_simulated: bool = False
    """Whether the engine of its target is simulated."""
    server: str | None = None
    """The server that it asks, if the platform does not run it."""
    restarts: bool = False
    """Whether it restarts as a whole after an interruption; its phase is then opened by the claim that measures it."""


def steps_of(spec: RunSpec) -> tuple[Step, ...]:
    """Return the steps of a run: INDEX, the answers, their judges, SCORE, REPORT.

    The answers come from GENERATE or IMPORT, or from the members of a pipeline and COMBINE.
    """
    steps = [Step(no=0, kind=StepKind.INDEX)]
    steps += _members(spec, spec.target) if isinstance(spec.target, PipelineTarget) else [_answers(spec)]
    answers = steps[-1].no
    for metric in filter(is_judge, spec.metrics):
        steps.append(_judge(spec, metric, no=len(steps), answers=answers))
    if spec.metrics:
        steps.append(Step(no=len(steps), kind=StepKind.SCORE, needs=tuple(range(answers, len(steps)))))
    if spec.reports:
        steps.append(Step(no=len(steps), kind=StepKind.REPORT, needs=(len(steps) - 1,)))
    return tuple(steps)


def answers_step(steps: Sequence[Step]) -> Step:
    """Return the step that writes the run's answers."""
    return next(step for step in steps if STEPS[step.kind].counts)


def _answers(spec: RunSpec) -> Step:
    """Return the step that asks the target, or imports a file.

    A run with a stop rule has one shard, since its samples are asked in one random order.
    """
    is_file = isinstance(spec.target, ImportTarget)
    is_one_job = is_file or spec.scenario.is_timed or spec.stop is not None
    return Step(
        no=1,
        kind=StepKind.IMPORT if is_file else StepKind.GENERATE,
        needs=(0,),
        params={STOPPABLE: True} if spec.stop else {},
        shard_size=None if is_one_job else spec.limits.shard_size,
        phase_params={"in_flight": spec.scenario.in_flight, "scenario": spec.scenario.name},
        is_timed=not spec.shares_device,
        devices=devices_of(spec.target),
        is_simulated=is_simulated(spec.target),
        server=server_of(spec.target),
        restarts=spec.scenario.is_timed,
    )


def _members(spec: RunSpec, pipeline: PipelineTarget) -> list[Step]:
    """Return a step for each model that a pipeline asks, and the one that makes the answers of theirs."""
    numbers = {asked.key: no for no, asked in enumerate(asked_models(pipeline), start=1)}
    steps = [_member(spec, pipeline, asked, numbers) for asked in asked_models(pipeline)]
    combined = Step(
        no=len(steps) + 1,
        kind=StepKind.COMBINE,
        needs=tuple(numbers.values()),
        is_timed=False,
        phase_params={"scenario": spec.scenario.name},
    )
    return [*steps, combined]


def _member(spec: RunSpec, pipeline: PipelineTarget, asked: AskedModel, numbers: Mapping[Key, int]) -> Step:
    target = asked.model.target
    return Step(
        no=numbers[asked.key],
        kind=StepKind.MEMBER,
        needs=tuple(numbers[other.key] for other in needed_by(pipeline, asked)) or (0,),
        params=asked.params,
        target_digest=digest_of(target),
        shard_size=spec.limits.shard_size,
        is_timed=not spec.shares_device,
        devices=devices_of(target),
        is_simulated=is_simulated(target),
        server=server_of(target),
        phase_params={**asked.params, "in_flight": spec.scenario.in_flight},
    )


def _judge(spec: RunSpec, metric: MetricSpec, *, no: int, answers: int) -> Step:
    judging = judging_of(metric)
    return Step(
        no=no,
        kind=StepKind.JUDGE,
        needs=(answers,),
        params={METRIC: metric.label},
        target_digest=digest_of(judging.target),
        rows=verdicts(judging, 1),
        shard_size=spec.limits.shard_size,
        is_timed=False,
        devices=devices_of(judging.target),
        is_simulated=is_simulated(judging.target),
        server=server_of(judging.target),
        phase_params={METRIC: metric.label, "in_flight": judging.in_flight},
    )
