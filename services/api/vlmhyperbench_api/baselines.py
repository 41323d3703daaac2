"""The baseline run of a stop rule: checked at submission, so that an invalid baseline is refused at once."""

from __future__ import annotations

from uuid import UUID

from vlmhyperbench.db import phases, runs
from vlmhyperbench.db.engine import AsyncSession
from vlmhyperbench.domain.judging import is_judge
from vlmhyperbench.domain.planning import ACCURACY_PHASE, are_paired
from vlmhyperbench.domain.specs import RunSpec
from vlmhyperbench.domain.states import PhaseState, RunState
from vlmhyperbench.errors import InvalidInput

_CURE = "Name a run of the same task and samples, asked equally often, that was not cancelled and did not fail."


async def pin_baseline(
    session: AsyncSession, spec: RunSpec, *, project_id: str, experiment_id: UUID | None = None
) -> RunSpec:
    """Return the spec of a run that is submitted without an experiment, with the baseline of its stop rule pinned.

    `experiment_id` is the experiment of the run that this one repeats; the baseline is then taken from there.

    Raises:
        InvalidInput: the rule names no baseline, or a run that cannot serve as one.
    """
    if spec.stop is None:
        return spec
    _check_metric(spec, spec.stop.metric)
    baseline = spec.stop.baseline
    if baseline is None and experiment_id is not None:
        others = await runs.of_experiment(session, experiment_id)
        baseline = next((other.id for other in others if are_paired(other.pinned_spec(), spec)), None)
    if baseline is None:
        raise InvalidInput("stop.baseline: a run by itself has no first run to compare with.", cure=_CURE)
    pinned = spec.model_copy(update={"stop": spec.stop.model_copy(update={"baseline": baseline})})
    await check_baseline(session, pinned, project_id=project_id)
    return pinned


def _check_metric(spec: RunSpec, wanted: str) -> None:
    """Refuse a stop rule whose metric the run lacks, which happens when the parent was re-scored by other metrics."""
    labels = [metric.label for metric in spec.metrics]
    if wanted not in labels or any(map(is_judge, spec.metrics)):
        raise InvalidInput(
            f"stop.metric: the run is scored by {', '.join(labels)}; its rule needs {wanted}, and no judge.",
            cure="Say what the run is now, with its metrics and its rule.",
        )


async def check_baseline(session: AsyncSession, spec: RunSpec, *, project_id: str) -> None:
    """Check that the run named by a stop rule can serve as its baseline.

    Raises:
        InvalidInput: it does not exist in the project, lacks answers, or has other samples or repeats.
    """
    if spec.stop is None or spec.stop.baseline is None:
        return
    baseline = await runs.get(session, spec.stop.baseline, project_id=project_id)
    if baseline is None:
        raise InvalidInput(f"stop.baseline: there is no run {spec.stop.baseline}.", cure=_CURE, code="unknown_name")
    if baseline.state in {RunState.FAILED, RunState.CANCELLED}:
        raise InvalidInput(f"stop.baseline: the run {baseline.name!r} has ended {baseline.state.lower()}.", cure=_CURE)
    if not are_paired(baseline.pinned_spec(), spec):
        message = (
            f"stop.baseline: the run {baseline.name!r} asked other samples, or asked them another number of times."
        )
        raise InvalidInput(message, cure=_CURE)
    phase = await phases.get(session, baseline.id, ACCURACY_PHASE)
    may_stop = baseline.pinned_spec().stop is not None and not baseline.state.is_terminal
    if may_stop or (phase is not None and phase.state is PhaseState.STOPPED):
        message = f"stop.baseline: the run {baseline.name!r} stops early itself, so it lacks answers to compare with."
        raise InvalidInput(message, cure=_CURE)
