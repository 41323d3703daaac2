"""An estimate is compared with the memory that a load may use: the reserve is subtracted in one place."""

from __future__ import annotations

from pathlib import Path

import pytest

from vlmhyperbench.data.pipeline_memory import execution_of, models_of
from vlmhyperbench.data.usable_memory import less_reserve, usable_memory
from vlmhyperbench.domain.fallbacks import GIB
from vlmhyperbench.domain.needs import MemoryNeed
from vlmhyperbench.domain.pipelines import MemberSpec, PipelineTarget, StageSpec
from vlmhyperbench.domain.placement import DeviceNow
from vlmhyperbench.domain.specs import ModelTarget
from vlmhyperbench_sdk.free_memory import FreeMemory


def test_each_accelerator_and_the_machine_keep_a_reserve() -> None:
    two = less_reserve(FreeMemory(host_bytes=10 * GIB, device_bytes=30 * GIB, devices=2, host_total_bytes=40 * GIB))
    assert (two.host_bytes, two.device_bytes, two.devices) == (8 * GIB, 28 * GIB, 2)
    none = less_reserve(FreeMemory(host_bytes=None, device_bytes=None, devices=0))
    assert (none.host_bytes, none.device_bytes, none.devices) == (None, None, 0)
    full = less_reserve(FreeMemory(host_bytes=GIB // 2, device_bytes=GIB // 2, devices=1))
    assert (full.host_bytes, full.device_bytes) == (0, 0)


def test_a_container_with_a_limit_keeps_the_reserve_of_its_limit(tmp_path: Path) -> None:
    (tmp_path / "proc" / "self").mkdir(parents=True)
    (tmp_path / "proc" / "meminfo").write_text(f"MemTotal: {512 * 2**20} kB\nMemAvailable: {500 * 2**20} kB\n")
    (tmp_path / "proc" / "self" / "cgroup").write_text("0::/\n")
    own = tmp_path / "sys" / "fs" / "cgroup"
    own.mkdir(parents=True)
    (own / "memory.max").write_text(f"{16 * GIB}\n")
    (own / "memory.current").write_text(f"{GIB}\n")
    (own / "memory.stat").write_text("inactive_file 0\n")
    assert usable_memory({"CUDA_VISIBLE_DEVICES": ""}, root=tmp_path).host_bytes == 14 * GIB
    (own / "memory.max").write_text("max\n")
    assert usable_memory({"CUDA_VISIBLE_DEVICES": ""}, root=tmp_path).host_bytes == 500 * GIB - 512 * GIB // 20


def _pipeline() -> PipelineTarget:
    members = tuple(
        MemberSpec(name=name, target=ModelTarget(model=name, version="1", backend="b", backend_class="b"))
        for name in ("a", "b")
    )
    return PipelineTarget(pipeline="p", version="1", stages=(StageSpec(id="s", members=members),))


def test_models_that_are_too_large_together_are_summed_as_they_are_and_not_as_a_ladder_would_load_them() -> None:
    pipeline = _pipeline()
    large = MemoryNeed(device_bytes=48 * GIB, min_device_bytes=0, min_host_bytes=0)
    card = DeviceNow(no=0, memory_bytes=24 * GIB, name="card")
    chosen, known = execution_of(pipeline, dict.fromkeys(models_of(pipeline), large), card, 23 * GIB)
    assert (chosen.mode, chosen.need_bytes) == ("sequential", 96 * GIB)
    assert list(known.values()) == [48 * GIB] * 2


@pytest.mark.parametrize(("have", "mode"), [(24, "persistent"), (23, "sequential")])
def test_a_pipeline_is_judged_by_its_needs_with_their_margin_or_by_measured_peaks(have: int, mode: str) -> None:
    pipeline = _pipeline()
    needs = [MemoryNeed(device_bytes=10 * GIB, margin=1.2), MemoryNeed(device_bytes=2, peaks={"card": 11 * GIB})]
    card = DeviceNow(no=0, memory_bytes=24 * GIB, name="card")
    chosen, known = execution_of(pipeline, dict(zip(models_of(pipeline), needs, strict=True)), card, have * GIB)
    assert chosen.mode == mode
    assert chosen.need_bytes == sum(need or 0 for need in known.values())
    assert list(known.values()) == [12 * GIB, round(11 * 1.05 * GIB + 0.5)]
