"""Series of measurements, each over new connections: repeats until their mean is precise, and sweeps."""

from __future__ import annotations

import dataclasses
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from vlmhyperbench.analysis.load_metrics import STATED, Stopped, Until, check_metric, look_at, mean_over
from vlmhyperbench.analysis.load_result import LoadResult
from vlmhyperbench.load.idle import IdleProbe
from vlmhyperbench.load.measure import Control
from vlmhyperbench.load.workload import Scenario, Workload
from vlmhyperbench_sdk.errors import InvalidInput, Unavailable

if TYPE_CHECKING:
    from vlmhyperbench.analysis.repeats import RepeatedMean

Measure = Callable[[Workload, str], Awaitable[LoadResult]]
"""Measures a load; the text is its name within the series, and of the folder of its record."""

Axis = Literal["rate", "concurrency"]

HEADLINE: Mapping[Scenario, str] = {
    "single_stream": "latency_p90",
    "multi_stream": "latency_p99",
    "offline": "output_tokens_per_s",
    "server": "ttft_p99",
    "interactive": "ttft_p99",
}
"""Scenario → its headline metric, whose mean must be precise unless another metric is named."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Repeats:
    """Several measurements of the same load; repeat i has the seed of the load plus i."""

    valid: bool
    metrics: Mapping[str, RepeatedMean]
    """Metric → mean over the repeats with Student's t interval: at 95 % for a fixed number of repeats, and wider if the
    interval was checked after every repeat to decide when to stop."""
    stopped: Stopped | None
    """The result of the stop rule, if there was one."""
    runs: tuple[LoadResult, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepPoint:
    """One load of a sweep."""

    value: float
    settled_s: float | None
    """Seconds after this point until the server was idle again; None if it was not."""
    result: LoadResult


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """Measurements of a load at several rates or concurrencies; point i has the seed of the load plus i."""

    valid: bool
    axis: Axis
    idle_ttft_ms: float
    """Time to first token of a request to the idle server, before the first point."""
    points: tuple[SweepPoint, ...]


async def repeat(
    workload: Workload, measure: Measure, control: Control, *, max_repeats: int, until: Until | None = None
) -> Repeats:
    """Measure a load `max_repeats` times, or until a metric is precise; a cancelled measurement is kept as invalid.

    Raises:
        InvalidInput: there is no such metric.
        Unavailable: nothing could be measured.
    """
    runs: list[LoadResult] = []
    if until is not None:
        check_metric(until.metric)
    stopped: Stopped | None = None
    while len(runs) < max_repeats and not control.is_stopped:
        control.report(f"repeat {len(runs) + 1} of {'at most ' if until else ''}{max_repeats}")
        seeded = dataclasses.replace(workload, seed=workload.seed + len(runs))
        result = await _unless_stopped(measure(seeded, f"{len(runs) + 1:03}"), control, is_first=not runs)
        if result is None:
            break
        runs.append(result)
        if until is not None:
            stopped = look_at(runs, until)
            if stopped.is_reached:
                break
    return Repeats(
        valid=all(run.valid for run in runs) and not control.is_stopped,
        metrics={name: mean_over(runs, name, may_stop=until is not None) for name in STATED},
        stopped=stopped,
        runs=tuple(runs),
    )


async def sweep(
    workload: Workload,
    measure: Measure,
    control: Control,
    *,
    axis: Axis,
    values: Sequence[float],
    idle: IdleProbe,
) -> Sweep:
    """Measure a load at each value; the server is idle before each measurement.

    Raises:
        InvalidInput: the load cannot be planned at one of the values.
        Unavailable: nothing could be measured.
    """
    idle_ttft_ms = await idle.begin()
    points: list[SweepPoint] = []
    for number, value in enumerate(values, 1):
        if control.is_stopped:
            break
        control.report(f"{axis} {value:g}, point {number} of {len(values)}")
        # Each point has its own seed, so its prompts are in no cache of the server.
        seeded = dataclasses.replace(at_value(workload, axis, value), seed=workload.seed + number - 1)
        result = await _unless_stopped(measure(seeded, f"{axis}-{value:g}"), control, is_first=not points)
        if result is None:
            break
        settled_s = await idle.wait() if number < len(values) and not control.is_stopped else 0.0
        points.append(SweepPoint(value=value, settled_s=settled_s, result=result))
    is_settled = all(point.settled_s is not None for point in points)
    return Sweep(
        valid=all(point.result.valid for point in points) and is_settled and len(points) == len(values),
        axis=axis,
        idle_ttft_ms=idle_ttft_ms,
        points=tuple(points),
    )


def at_value(workload: Workload, axis: Axis, value: float) -> Workload:
    """Return the load with one value of an axis.

    Raises:
        InvalidInput: the load does not have this axis, or the value does not fit it.
    """
    if axis == "concurrency":
        if workload.is_open_loop or workload.scenario == "single_stream" or value < 1 or value != int(value):
            raise InvalidInput(
                f"--sweep concurrency={value:g} does not fit {workload.scenario}.",
                cure="For offline and multi_stream give whole numbers; for server sweep the rate: --sweep rate=5,10.",
            )
        if workload.samples_per_query not in (0, value):
            raise InvalidInput(
                f"--sweep concurrency={value:g} does not fit the preset, whose queries have "
                f"{workload.samples_per_query} samples.",
                cure="Leave out --sweep or --preset.",
            )
        return dataclasses.replace(workload, streams=int(value))
    if workload.arrivals is None or workload.trace:
        raise InvalidInput(
            f"--sweep rate does not fit {'a trace' if workload.trace else workload.scenario}, which has no rate.",
            cure="Give --scenario server or interactive, without --trace.",
        )
    if workload.arrivals.process == "ramp":
        raise InvalidInput(
            "--arrivals ramp has no constant rate, so neither --sweep rate nor --search-rate fits it.",
            cure="Give --arrivals poisson, constant, gamma or burst.",
        )
    return dataclasses.replace(workload, arrivals=dataclasses.replace(workload.arrivals, rate_per_s=value))


async def _unless_stopped(measured: Awaitable[LoadResult], control: Control, *, is_first: bool) -> LoadResult | None:
    """Return a result; None if it was stopped before anything was measured and there are earlier results."""
    try:
        return await measured
    except Unavailable:
        if control.is_stopped and not is_first:
            return None
        raise
