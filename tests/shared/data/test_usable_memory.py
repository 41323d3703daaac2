"""An estimate is compared with the memory that a load may use: the reserve is subtracted in one place."""

from __future__ import annotations

from pathlib import Path

import psutil
import pytest

from vlmhyperbench.data.pipeline_memory import execution_of, models_of
from vlmhyperbench.data.usable_memory import less_reserve, usable_memory
from vlmhyperbench.domain.fallbacks import GIB
from vlmhyperbench.domain.needs import MemoryNeed
from vlmhyperbench.domain.pipelines import MemberSpec, PipelineTarget, StageSpec
from vlmhyperbench.domain.placement import DeviceNow
from vlmhyperbench.domain.specs import ModelTarget
from vlmhyperbench_sdk.free_memory import FreeMemory

TOTAL = 16 * GIB


def test_each_accelerator_and_the_machine_keep_a_reserve() -> None:
    two = less_reserve(FreeMemory(host_bytes=10 * GIB, device_bytes=30 * GIB, devices=2), TOTAL)
    assert (two.host_bytes, two.device_bytes, two.devices) == (9 * GIB, 28 * GIB, 2)
    none = less_reserve(FreeMemory(host_bytes=None, device_bytes=None, devices=0), TOTAL)
    assert (none.host_bytes, none.device_bytes, none.devices) == (None, None, 0)
    full = less_reserve(FreeMemory(host_bytes=GIB // 2, device_bytes=GIB // 2, devices=1), TOTAL)
    assert (full.host_bytes, full.device_bytes) == (0, 0)


@pytest.mark.skipif(not Path("/proc/meminfo").exists(), reason="the free memory is read from /proc/meminfo")
def test_what_may_be_used_of_this_machine_is_less_than_what_is_free() -> None:
    usable = usable_memory().host_bytes
    assert usable is not None
    assert usable <= psutil.virtual_memory().total - GIB


def _pipeline() -> PipelineTarget:
    members = tuple(
        MemberSpec(name=name, target=ModelTarget(model=name, version="1", backend="b", backend_class="b"))
        for name in ("a", "b")
    )
    return PipelineTarget(pipeline="p", version="1", stages=(StageSpec(id="s", members=members),))


@pytest.mark.parametrize(("have", "mode"), [(24, "persistent"), (23, "sequential")])
def test_a_pipeline_is_judged_by_its_needs_with_their_margin_or_by_measured_peaks(have: int, mode: str) -> None:
    pipeline = _pipeline()
    needs = [MemoryNeed(device_bytes=10 * GIB, margin=1.2), MemoryNeed(device_bytes=2, peaks={"card": 11 * GIB})]
    card = DeviceNow(no=0, memory_bytes=24 * GIB, name="card")
    chosen, known = execution_of(pipeline, dict(zip(models_of(pipeline), needs, strict=True)), card, have * GIB)
    assert chosen.mode == mode
    assert chosen.need_bytes == sum(need or 0 for need in known.values())
    assert list(known.values()) == [12 * GIB, round(11 * 1.05 * GIB + 0.5)]
