"""A worker refuses engines that need hardware on declared GPUs, whatever a scheduler has placed there."""

from __future__ import annotations

from dataclasses import replace

import pytest

from vlmhyperbench.domain.specs import ModelTarget
from vlmhyperbench.errors import Conflict
from vlmhyperbench.worker.devices import DeviceInfo
from vlmhyperbench_inference_worker.declared import check_declared

GPU = DeviceInfo(no=0, kind="gpu", uuid="declared-box-0", name="L4", memory_bytes=24, is_declared=True)


def target(backend_class: str) -> ModelTarget:
    return ModelTarget(model="m", version="1.0.0", backend="b", backend_class=backend_class)


def test_an_engine_that_needs_hardware_is_refused_on_a_declared_gpu() -> None:
    with pytest.raises(Conflict) as refused:
        check_declared(target("llamacpp"), [GPU])
    assert refused.value.code == "declared_device"
    assert "declared-box-0" in refused.value.message


@pytest.mark.parametrize(
    ("backend_class", "device"),
    [
        ("simulated", GPU),
        ("llamacpp", replace(GPU, kind="cpu")),
        ("llamacpp", replace(GPU, is_declared=False)),
    ],
    ids=["a simulated engine", "a declared processor", "a real GPU"],
)
def test_all_else_is_accepted(backend_class: str, device: DeviceInfo) -> None:
    check_declared(target(backend_class), [device])
