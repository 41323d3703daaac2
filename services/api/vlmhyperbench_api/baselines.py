"""The run that a stop rule compares with: looked up when a run is submitted, so that a wrong one is refused at once."""

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
    """Return the spec of a run that is submitted by itself, with the baseline of its stop rule.

    `experiment_id` is that of the run which it repeats: the baseline stays the same.

    Raises:
        InvalidInput: the rule names no baseline, or one that cannot be compared with.
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
    """Refuse to run again what was re-scored in the meantime by metrics that its rule cannot work with."""
    labels = [metric.label for metric in spec.metrics]
    if wanted not in labels or any(map(is_judge, spec.metrics)):
        raise InvalidInput(
            f"stop.metric: the run is scored by {', '.join(labels)}; its rule needs {wanted}, and no judge beside it.",
            cure="Say what the run is now, with its metrics and its rule.",
        )


async def check_baseline(session: AsyncSession, spec: RunSpec, *, project_id: str) -> None:
    """Check that the run which a stop rule names can be compared with.

    Raises:
        InvalidInput: it does not exist in the project, has no answers, or asked something else.
    """
    if spec.stop is None or spec.stop.baseline is None:
        return
    found = await runs.get(session, spec.stop.baseline, project_id=project_id)
    if found is None:
        raise InvalidInput(f"stop.baseline: there is no run {spec.stop.baseline}.", cure=_CURE, code="unknown_name")
    if found.state in {RunState.FAILED, RunState.CANCELLED}:
        raise InvalidInput(f"stop.baseline: the run {found.name!r} has ended {found.state.lower()}.", cure=_CURE)
    if not are_paired(found.pinned_spec(), spec):
        message = f"stop.baseline: the run {found.name!r} asked other samples, or asked them another number of times."
        raise InvalidInput(message, cure=_CURE)
    phase = await phases.get(session, found.id, ACCURACY_PHASE)
    may_stop = found.pinned_spec().stop is not None and not found.state.is_terminal
    if may_stop or (phase is not None and phase.state is PhaseState.STOPPED):
        message = f"stop.baseline: the run {found.name!r} stops early itself, so it lacks answers to compare with."
        raise InvalidInput(message, cure=_CURE)
