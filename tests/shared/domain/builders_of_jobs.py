"""Specs, workers and windows with defaults, for the tests of planning and scheduling."""

from __future__ import annotations

from datetime import UTC, datetime
from uuid import UUID, uuid4

from vlmhyperbench.domain.ground import Ground
from vlmhyperbench.domain.judging import CLASS_PATH, Judging
from vlmhyperbench.domain.placement import DeviceNow, WorkerNow
from vlmhyperbench.domain.scenarios import ScenarioSpec
from vlmhyperbench.domain.specs import (
    DatasetSpec,
    Decoding,
    Limits,
    MetricSpec,
    ModelTarget,
    PromptSpec,
    RunSpec,
)

NOW = datetime(2026, 1, 1, tzinfo=UTC)

METRIC = MetricSpec(name="exact_match", profile="default", version="1.0.0", class_path="exact_match")


JUDGING = Judging(
    target=ModelTarget(model="wise", version="1.0.0", backend="simulated", backend_class="simulated"),
    prompt=PromptSpec(name="same", version="1.0.0", user_prompt="{{ metadata.first }} | {{ metadata.second }}"),
    labels={"yes": 1.0, "no": 0.0},
    title="Wise one",
)


def judge_metric(*, repeats: int = 1, **changes: object) -> MetricSpec:
    judging = JUDGING.model_copy(update={"decoding": Decoding(n=repeats), **changes})
    params = judging.model_dump(mode="json")
    return MetricSpec(name="judged", profile="v1", version="1.0.0", class_path=CLASS_PATH, params=params)


def run_spec(
    *,
    model: str = "tiny",
    dataset: str = "invoices",
    samples_per_shard: int = 1000,
    answers: int = 1,
    scenario: ScenarioSpec | None = None,
    metrics: tuple[MetricSpec, ...] = (METRIC,),
    reports: tuple[str, ...] = ("html",),
    max_image_bytes: int = 1000,
) -> RunSpec:
    return RunSpec(
        target=ModelTarget(model=model, version="1.0.0", backend="simulated", backend_class="simulated"),
        task="reading",
        task_version="1.0.0",
        dataset=DatasetSpec(name=dataset, version="1.0.0", type="synthetic"),
        prompt=PromptSpec(name="plain", version="1.0.0"),
        metrics=metrics,
        reports=reports,
        decoding=Decoding(n=answers),
        scenario=scenario or ScenarioSpec(),
        limits=Limits(shard_size=samples_per_shard, max_image_bytes=max_image_bytes),
    )


def worker_now(
    kind: str = "inference",
    *,
    slots: int = 1,
    busy: int = 0,
    resident: tuple[str, ...] = (),
    devices: tuple[DeviceNow, ...] = (),
    worker_id: UUID | None = None,
    queue: str = "q",
    ground: Ground | None = None,
) -> WorkerNow:
    """Make a live worker, by default on a machine of its own."""
    worker_id = worker_id or uuid4()
    return WorkerNow(
        id=worker_id,
        kind=kind,
        queue=queue,
        slots=slots,
        busy=busy,
        resident=frozenset(resident),
        devices=devices,
        ground=ground or Ground(machine=str(worker_id)),
    )


def device_now(no: int = 0, *, memory_bytes: int = 100, is_free: bool = True, name: str = "card") -> DeviceNow:
    """Make a device, free or held by a job that has it alone."""
    return DeviceNow(
        no=no,
        memory_bytes=memory_bytes,
        reserved_bytes=0 if is_free else memory_bytes,
        jobs=0 if is_free else 1,
        is_exclusive=not is_free,
        name=name,
        uuid=f"card-{no}",
    )
