"""What a run would ask and what each device has for it, from its spec and the number of its samples. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias

from vlmhyperbench.domain.graph import steps_of
from vlmhyperbench.domain.judging import is_judge, judging_of, verdicts
from vlmhyperbench.domain.needs import Need
from vlmhyperbench.domain.pipelines import PipelineTarget, asked_models
from vlmhyperbench.domain.placement import DeviceNow, WorkerNow
from vlmhyperbench.domain.specs import ImportTarget, RunSpec
from vlmhyperbench.domain.steps import STEPS

MAX_SHARDS = 500
"""Maximum number of shards in a plan on paper: a limit far above the dataset's size must not make billions of jobs."""

RequestKind: TypeAlias = Literal["warmup", "baseline", "answers", "member", "judge"]
Fit: TypeAlias = Literal["fits", "fits_later", "takes_all", "too_small", "unavailable"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestCount:
    """Requests of one kind."""

    kind: RequestKind
    count: int | None
    """None if the number of samples is not known."""
    metric: str | None = None
    """Label of the judge that asks them."""
    member: str | None = None
    """Model of the pipeline that is asked, as `stage/name`, with what it does there unless it answers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceFit:
    """What a target needs of a device, and whether the device has it."""

    worker: WorkerNow
    device: DeviceNow
    need_bytes: int | None
    """None if nothing is known, so that the job takes the whole device."""
    basis: str
    """How the bytes are known; empty if they are not."""
    fit: Fit


def requests_of(spec: RunSpec, samples: int | None) -> list[RequestCount]:
    """Return how many requests of each kind a run would send; kinds without any are left out.

    A stop rule may end the answers earlier, and answers that are reused are not asked again.
    """
    if isinstance(spec.target, ImportTarget):
        return []
    scenario = spec.scenario
    bound = scenario.bound if scenario.is_timed else None
    answers = bound if bound is not None else None if samples is None else samples * spec.decoding.n
    jobs = 1 if scenario.is_timed or spec.stop is not None else _ceil(answers or 1, spec.limits.shard_size)
    most = scenario.warmup_requests if samples is None else min(scenario.warmup_requests, samples)
    if isinstance(spec.target, PipelineTarget):
        models = list(asked_models(spec.target))
        counted = [RequestCount(kind="warmup", count=most * jobs * len(models))]
        # What merges or repairs is asked at most about every answer.
        counted += [RequestCount(kind="member", count=answers, member=asked.label) for asked in models]
    else:
        counted = [
            RequestCount(kind="warmup", count=most * jobs),
            RequestCount(kind="baseline", count=scenario.baseline_requests),
            RequestCount(kind="answers", count=answers),
        ]
    for metric in filter(is_judge, spec.metrics):
        asked = None if answers is None else verdicts(judging_of(metric), answers)
        counted.append(RequestCount(kind="judge", count=asked, metric=metric.label))
    return [requests for requests in counted if requests.count != 0]


def in_few_shards(spec: RunSpec, answers: int) -> RunSpec:
    """Return a spec with shards so large that a plan on paper of this number of answers stays small."""
    size = max(spec.limits.shard_size, _ceil(answers, MAX_SHARDS))
    return spec.model_copy(update={"limits": spec.limits.model_copy(update={"shard_size": size})})


def needs_of_run(spec: RunSpec) -> Iterator[Need]:
    """Yield the need of each step of a run that asks a target on a worker's devices, its memory still unknown."""
    for step in steps_of(spec):
        if STEPS[step.kind].asks is not None and step.devices:
            yield Need(
                kind=step.kind,
                target_digest=step.target_digest or spec.target_digest,
                is_timed=step.is_timed,
                devices=step.devices,
                is_simulated=step.is_simulated,
            )


def fit_of(need: Need, worker: WorkerNow, device: DeviceNow) -> DeviceFit:
    """Compare what a target needs of one device with what the device has, now and when nothing else runs on it."""
    need_bytes = need.bytes_on(device)
    is_real = not (device.is_declared and device.is_accelerator) or need.is_simulated
    is_free = not device.is_exclusive and not (need.is_timed and device.jobs)
    fit: Fit = "fits_later"
    if worker.drained is not None or not device.is_usable or not is_real:
        fit = "unavailable"
    elif need_bytes is None:
        fit = "takes_all"
    elif need_bytes > device.memory_bytes:
        fit = "too_small"
    elif is_free and need_bytes <= device.left_bytes(need):
        fit = "fits"
    basis = "" if need_bytes is None else need.basis(device)
    return DeviceFit(worker=worker, device=device, need_bytes=need_bytes, basis=basis, fit=fit)


def _ceil(value: int, divisor: int) -> int:
    return -(-value // divisor)
