"""What a run would ask, and what each device has for it."""

from __future__ import annotations

from dataclasses import replace
from uuid import uuid4

import pytest

from tests.support.builders import run_spec
from vlmhyperbench.domain.ground import Ground
from vlmhyperbench.domain.needs import MemoryNeed, Need
from vlmhyperbench.domain.placement import DeviceNow, WorkerNow
from vlmhyperbench.domain.run_plan import MAX_SHARDS, Fit, fit_of, in_few_shards, needs_of_run, requests_of
from vlmhyperbench.domain.scenarios import ScenarioSpec
from vlmhyperbench.domain.specs import Decoding, ImportTarget, Limits, MetricSpec, ModelTarget, RunSpec
from vlmhyperbench.domain.steps import StepKind

GIB = 2**30
MODEL = ModelTarget(model="m", version="1.0.0", backend="b", backend_class="b", engine_params={"tensor_parallel": 2})


def _spec(**choices: object) -> RunSpec:
    return run_spec().model_copy(update=choices)


def _counts(spec: RunSpec, samples: int | None) -> dict[str, int | None]:
    return {requests.kind: requests.count for requests in requests_of(spec, samples)}


def test_every_sample_is_asked_as_often_as_decoding_says_and_each_shard_warms_up() -> None:
    spec = _spec(decoding=Decoding(n=3), limits=Limits(shard_size=10))
    assert _counts(spec, 10) == {"warmup": 6, "answers": 30}
    assert _counts(spec, 1) == {"warmup": 1, "answers": 3}


def test_without_the_number_of_samples_only_the_warm_up_is_known() -> None:
    assert _counts(_spec(), None) == {"warmup": 2, "answers": None}


def test_a_timed_scenario_has_its_own_number_of_requests_and_a_baseline() -> None:
    scenario = ScenarioSpec(kind="multi_stream", requests=50, baseline_requests=5, warmup_requests=0)
    assert _counts(_spec(scenario=scenario), None) == {"baseline": 5, "answers": 50}


def test_a_judge_is_asked_about_every_answer_in_both_orders() -> None:
    judge = MetricSpec(
        name="judge",
        profile="v1",
        version="1.0.0",
        class_path="vlmhyperbench.scoring.judge:Judge",
        params={
            "target": MODEL.model_dump(mode="json"),
            "prompt": {"name": "p", "version": "1.0.0"},
            "labels": {"yes": 1, "no": 0},
            "title": "Judge",
        },
    )
    spec = _spec(metrics=(judge,))
    assert _counts(spec, 4) == {"warmup": 2, "answers": 4, "judge": 8}
    assert _counts(spec, None)["judge"] is None
    (need,) = needs_of_run(spec)
    assert (need.kind, need.devices, need.target_digest == spec.target_digest) == (StepKind.JUDGE, 2, False)


def test_imported_answers_ask_nothing() -> None:
    assert requests_of(_spec(target=ImportTarget(model_name="m", format="f", answers="a" * 64)), 10) == []


def test_a_model_needs_devices_and_an_endpoint_none() -> None:
    assert list(needs_of_run(_spec())) == []
    spec = _spec(target=MODEL)
    (need,) = needs_of_run(spec)
    assert (need.devices, need.is_timed, need.target_digest) == (2, True, spec.target_digest)


def test_a_plan_of_any_number_of_answers_has_a_bounded_number_of_shards() -> None:
    assert in_few_shards(_spec(), 5).limits.shard_size == 1000
    assert -(-(10**12) // in_few_shards(_spec(), 10**12).limits.shard_size) == MAX_SHARDS


DEVICE = DeviceNow(no=0, memory_bytes=8 * GIB, name="GPU")
NEED = Need(kind=StepKind.GENERATE, memory=MemoryNeed(device_bytes=4 * GIB))


@pytest.mark.parametrize(
    ("device", "need", "fit"),
    [
        (DEVICE, NEED, "fits"),
        (DEVICE, replace(NEED, memory=MemoryNeed()), "takes_all"),
        (replace(DEVICE, memory_bytes=3 * GIB), NEED, "too_small"),
        (replace(DEVICE, reserved_bytes=5 * GIB, jobs=1), replace(NEED, is_timed=False), "fits_later"),
        (replace(DEVICE, reserved_bytes=2 * GIB, jobs=1), replace(NEED, is_timed=False), "fits"),
        (replace(DEVICE, reserved_bytes=2 * GIB, jobs=1), NEED, "fits_later"),
        (replace(DEVICE, is_exclusive=True, jobs=1), replace(NEED, is_timed=False), "fits_later"),
        (replace(DEVICE, is_broken=True), NEED, "unavailable"),
        (replace(DEVICE, is_declared=True), NEED, "unavailable"),
        (replace(DEVICE, is_declared=True), replace(NEED, is_simulated=True), "fits"),
    ],
)
def test_a_device_is_compared_with_the_need(device: DeviceNow, need: Need, fit: Fit) -> None:
    verdict = fit_of(need, _worker(device), device)
    assert verdict.fit == fit
    assert (verdict.basis == "") == (verdict.need_bytes is None)


def test_a_drained_worker_is_not_available() -> None:
    assert fit_of(NEED, replace(_worker(DEVICE), drained="by me: fans"), DEVICE).fit == "unavailable"


def _worker(device: DeviceNow) -> WorkerNow:
    ground = Ground(machine="m", gpus=frozenset())
    return WorkerNow(id=uuid4(), kind="inference", queue="q", slots=1, busy=0, devices=(device,), ground=ground)
