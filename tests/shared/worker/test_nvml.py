"""Which GPUs are left to a worker: those that CUDA shows its engine, too."""

from __future__ import annotations

import pytest

from vlmhyperbench.worker.nvml import Gpu, visible

GPUS = [Gpu(no=no, uuid=f"GPU-{letter}{no}00", name="x", memory_bytes=80) for no, letter in enumerate("aab")]


@pytest.mark.parametrize(
    ("chosen", "left"),
    [
        (None, [0, 1, 2]),
        ("2,0", [2, 0]),
        (" 1 ", [1]),
        ("GPU-b", [2]),
        ("GPU-a100", [1]),
        ("GPU-a", []),  # two begin so
        ("", []),
        ("1,7,0", [1]),
        ("1,1,0", [1]),
        ("-1", []),
        ("MIG-7", [2]),
        ("MIG-8", []),
    ],
)
def test_a_worker_offers_the_devices_that_its_engine_sees(chosen: str | None, left: list[int]) -> None:
    assert [gpu.no for gpu in visible(GPUS, chosen, parents={"MIG-7": "GPU-b200"})] == left
