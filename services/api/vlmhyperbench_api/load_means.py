"""The means of repeated loads: Student's t interval over runs that differ in their seed alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final
from uuid import UUID

from vlmhyperbench.db import artifacts, experiments, runs
from vlmhyperbench.domain.specs import RunSpec
from vlmhyperbench.errors import InvalidInput, NotFound
from vlmhyperbench.runtime import Runtime
from vlmhyperbench.wire.loads import LOAD_TASK, LoadMeans, RepeatedValue
from vlmhyperbench_api.summaries import stored_summary

if TYPE_CHECKING:
    from vlmhyperbench.summaries.speeds import Performance

_TIMES: Final = {"ttft": "ttft_user_ms", "tpot": "tpot_ms", "latency": "latency_ms"}


async def means_of(runtime: Runtime, experiment_id: UUID, *, project_id: str) -> LoadMeans:
    """Return the means over the loads that have ended; one without a summary has no value, so there is no mean.

    Raises:
        NotFound: there is no such experiment.
        InvalidInput: its runs are no loads, or differ in more than their seed.
    """
    async with runtime.database.transaction() as session:
        if await experiments.get(session, experiment_id, project_id=project_id) is None:
            raise NotFound(f"There is no experiment {experiment_id}.", cure="List the experiments.")
        repeats = await runs.of_experiment(session, experiment_id)
        ended = [run for run in repeats if run.state.is_terminal]
        files = {run.id: await artifacts.of_run(session, run.id) for run in ended}
    if len({_without_seed(run.pinned_spec()) for run in repeats}) != 1 or repeats[0].pinned_spec().task != LOAD_TASK:
        raise InvalidInput(
            f"The runs of the experiment {experiment_id} are not the same load with several seeds.",
            cure="Start one by POST /api/v1/loads/repeats.",
        )
    summaries = [await stored_summary(runtime.storage, files[run.id]) for run in ended]
    speeds = [summary.performance if summary is not None else None for summary in summaries]
    states = {(each.state or "not known") if each is not None else "invalid" for each in speeds}
    return LoadMeans(
        repeats=len(repeats),
        ended=len(ended),
        valid=False if states - {"valid", "not known"} else None if states != {"valid"} else True,
        metrics=_means(speeds) if speeds else {},
    )


def _means(speeds: Sequence[Performance | None]) -> dict[str, RepeatedValue]:
    from vlmhyperbench.analysis.load_metrics import STATED  # imports scipy on first use
    from vlmhyperbench.analysis.repeats import mean_of_repeats

    return {
        name: RepeatedValue.model_validate(_fields(mean_of_repeats([_value(each, name) for each in speeds])))
        for name in STATED
        if any(_value(each, name) is not None for each in speeds)
    }


def _fields(mean: object) -> dict[str, object]:
    return {name: getattr(mean, name) for name in RepeatedValue.model_fields}


def _value(speeds: Performance | None, name: str) -> float | None:
    """Return a metric of a run by the name that `vlmhyperbench load` has for it."""
    if speeds is None:
        return None
    if name == "goodput_per_s":
        return speeds.goodput.per_s if speeds.goodput is not None else None
    if name == "requests_per_s":
        return speeds.samples_per_s
    if name == "output_tokens_per_s":
        return speeds.output_tokens_per_s
    time, _, percent = name.rpartition("_p")
    percentiles = speeds.percentiles.get(_TIMES[time], ())
    return next((each.adjusted for each in percentiles if each.percent == float(percent)), None)


def _without_seed(spec: RunSpec) -> str:
    dataset, scenario = spec.dataset.model_copy(update={"seed": 0}), spec.scenario.model_copy(update={"seed": 0})
    return spec.model_copy(update={"dataset": dataset, "scenario": scenario}).model_dump_json()
