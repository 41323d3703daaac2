"""Turn the flags of `load` into a plan: a workload, a target, and a series of measurements."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from vlmhyperbench.analysis.load_metrics import Until, check_metric
from vlmhyperbench.analysis.load_result import PresetUsed
from vlmhyperbench.cli.load.flags import (
    ClientFlags,
    LimitFlags,
    ScheduleFlags,
    SeriesFlags,
    SloFlags,
    TargetFlags,
    WorkloadFlags,
)
from vlmhyperbench.cli.load.parsing import (
    check_fit,
    check_socket,
    complete_url,
    parse_extra_body,
    parse_precision,
    parse_slo,
    parse_sweep,
    read_image,
    read_key,
)
from vlmhyperbench.domain.arrivals import Arrivals
from vlmhyperbench.load.bodies import Images, RequestContent
from vlmhyperbench.load.images import parse_sizes
from vlmhyperbench.load.measure import Target
from vlmhyperbench.load.presets import with_preset
from vlmhyperbench.load.series import HEADLINE, Axis
from vlmhyperbench.load.trace import read_trace
from vlmhyperbench.load.workload import Scenario, Workload
from vlmhyperbench_sdk.errors import InvalidInput
from vlmhyperbench_sdk.load import Endpoint

REQUESTS, STREAMS = 100, 8
REQUESTS_PER_STREAM = 4
MAX_REPEATS = 30
PAIRS = 5
BASELINE = 20
TURNS, THINK_SECONDS = 4, 1.0
IMAGE_SIZE = "512x512"
_KEY: Final = "api_key"


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """How often and at which values a load is measured: repeats, a sweep, a search, or pairs."""

    repeats: int = 1
    until: Until | None = None
    axis: Axis | None = None
    values: tuple[float, ...] = ()
    is_search: bool = False
    first_per_s: float | None = None
    max_probes: int = 1
    against: Endpoint | None = None
    """The second server of pairs, of which there are `repeats`."""

    @property
    def is_repeated(self) -> bool:
        """Whether the same load is measured several times."""
        return self.against is None and (self.repeats > 1 or self.until is not None)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedLoad:
    """The plan that the flags describe."""

    workload: Workload
    target: Target
    series: Series
    preset: PresetUsed | None = None


def plan_load(
    url: str,
    target: TargetFlags,
    *,
    workload: WorkloadFlags,
    schedule: ScheduleFlags,
    limits: LimitFlags,
    slo: SloFlags,
    series: SeriesFlags,
    client: ClientFlags,
) -> PlannedLoad:
    """Turn the flags into a plan.

    Raises:
        InvalidInput: a flag is malformed, or flags do not fit together; the message names the flag.
        NotFound: a file or socket does not exist.
    """
    limits_ms = parse_slo(slo.slo)
    endpoint, secrets = _endpoint(url, target)
    _check_flags(workload, schedule)
    axis, values = parse_sweep(series.sweep) if series.sweep is not None else (None, ())
    is_by_rate = axis == "rate" or slo.search_rate
    scenario = schedule.scenario or ("server" if is_by_rate or schedule.preset == "vlm" else "offline")
    described = _workload(
        scenario,
        _content(target.model, workload),
        _arrivals(schedule, next(iter(values), 1.0) if is_by_rate else None),
        schedule=schedule,
        limits=limits,
        client=client,
    )
    is_counted = (
        scenario == "interactive"
        or slo.search_rate
        or schedule.preset is not None
        or any((limits.requests, limits.duration, described.trace))
    )
    if not is_counted:
        max_streams = int(max(values)) if axis == "concurrency" else described.streams
        described = replace(described, requests=max(REQUESTS, REQUESTS_PER_STREAM * max_streams))
    used = None
    if schedule.preset is not None:
        described, limits_ms, used = with_preset(described, schedule.preset, limits_ms)
    second = series.against
    return PlannedLoad(
        workload=described,
        target=Target(endpoint=endpoint, secrets=secrets, slo=limits_ms),
        series=Series(
            repeats=series.repeats
            or (PAIRS if second is not None else MAX_REPEATS if series.until_precision is not None else 1),
            against=None if second is None else replace(endpoint, url=complete_url(second), unix_socket=None),
            until=_until(series.until_precision, series.precision_of, scenario),
            axis=axis,
            values=values,
            is_search=slo.search_rate,
            first_per_s=schedule.rate,
            max_probes=slo.probes,
        ),
        preset=used,
    )


def _endpoint(url: str, flags: TargetFlags) -> tuple[Endpoint, dict[str, str]]:
    full_url = complete_url(url)
    secrets = {_KEY: f"Bearer {read_key(flags.api_key_env)}"} if flags.api_key_env else {}
    endpoint = Endpoint(
        url=full_url,
        headers={"Authorization": _KEY} if secrets else {},
        unix_socket=None if flags.unix_socket is None else check_socket(flags.unix_socket),
        verify=not flags.insecure,
    )
    return endpoint, secrets


def _check_flags(workload: WorkloadFlags, schedule: ScheduleFlags) -> None:
    """Refuse flags that would have no effect."""
    is_interactive = schedule.scenario == "interactive"
    check_fit(
        {
            "--conversations": (schedule.conversations is not None, is_interactive, "--scenario interactive"),
            "--turns": (schedule.turns is not None, is_interactive, "--scenario interactive"),
            "--think": (schedule.think is not None, is_interactive, "--scenario interactive"),
            "--to-rate": (schedule.to_rate is not None, schedule.arrivals == "ramp", "--arrivals ramp"),
            "--arrivals ramp": (schedule.arrivals == "ramp", schedule.to_rate is not None, "--to-rate"),
            "--burst-size": (schedule.burst_size > 1, schedule.arrivals == "burst", "--arrivals burst"),
            "--cv": (schedule.cv != 1.0, schedule.arrivals == "gamma", "--arrivals gamma"),
            "--speed": (schedule.speed != 1.0, schedule.trace is not None, "--trace"),
            "--trace": (schedule.trace is not None, schedule.rate is None, "no --rate"),
            "--image-reuse": (workload.image_reuse > 0, workload.images > 0, "--images"),
            "--image-size": (workload.image_size is not None, workload.images > 0, "--images"),
        }
    )


def _content(model: str, flags: WorkloadFlags) -> RequestContent:
    sizes = parse_sizes(flags.image_size or IMAGE_SIZE)
    return RequestContent(
        model=model,
        prompt=flags.prompt,
        prompt_tokens=flags.prompt_tokens,
        output_tokens=flags.output_tokens,
        max_tokens_field=flags.max_tokens_field,
        media=tuple(map(read_image, flags.image)),
        images=Images(count=flags.images, sizes=sizes, reuse=flags.image_reuse) if flags.images else None,
        extra_body=parse_extra_body(flags.extra_body, ignore_eos=flags.ignore_eos),
    )


def _arrivals(flags: ScheduleFlags, first_per_s: float | None) -> Arrivals | None:
    """Return the arrivals at the given rate, or at the first rate of a sweep or search; None without a rate."""
    rate_per_s = flags.rate if flags.rate is not None else first_per_s
    if rate_per_s is None:
        return None
    return Arrivals(
        process=flags.arrivals,
        rate_per_s=rate_per_s,
        cv=flags.cv,
        burst_size=flags.burst_size,
        last_rate_per_s=flags.to_rate,
    )


def _workload(
    scenario: Scenario,
    content: RequestContent,
    arrivals: Arrivals | None,
    *,
    schedule: ScheduleFlags,
    limits: LimitFlags,
    client: ClientFlags,
) -> Workload:
    is_interactive = scenario == "interactive"
    count = schedule.conversations if is_interactive else limits.requests
    baseline = BASELINE if scenario == "multi_stream" else 0
    return Workload(
        scenario=scenario,
        content=content,
        requests=limits.requests,
        duration_s=limits.duration,
        streams=schedule.concurrency or min(STREAMS, count or STREAMS, limits.max_in_flight or STREAMS),
        arrivals=arrivals,
        trace=tuple(read_trace(schedule.trace)) if schedule.trace is not None else (),
        speed=schedule.speed,
        warmup=limits.warmup,
        timeout_s=limits.timeout,
        seed=client.seed,
        processes=client.processes,
        conversations=schedule.conversations,
        baseline=baseline if limits.baseline is None else limits.baseline,
        turns=(TURNS if schedule.turns is None else schedule.turns) if is_interactive else 1,
        think_s=THINK_SECONDS if schedule.think is None else schedule.think,
        max_in_flight=limits.max_in_flight,
    )


def _until(precision: str | None, metric: str | None, scenario: Scenario) -> Until | None:
    if precision is None:
        if metric is not None:
            raise InvalidInput(
                "--precision-of needs --until-precision.", cure="Give it too, for example --until-precision 2%."
            )
        return None
    until = Until(metric=metric or HEADLINE[scenario], precision=parse_precision(precision))
    check_metric(until.metric)
    return until
