"""Which GPUs are left to a worker: those that CUDA shows its engine, too."""

from __future__ import annotations

import pytest

from vlmhyperbench.worker.nvml import Gpu, visible

GPUS = [Gpu(no=no, uuid=f"GPU-{letter}{no}00", name="x", memory_bytes=80) for no, letter in enumerate("aab")]
SLICES = [Gpu(no=3, uuid=f"MIG-{letter}00", name="x", memory_bytes=10, slice_of="GPU-c300") for letter in "ab"]


@pytest.mark.parametrize(
    ("chosen", "left"),
    [
        (None, ["GPU-a000", "GPU-a100", "GPU-b200", "MIG-a00", "MIG-b00"]),
        ("2,0", ["GPU-b200", "GPU-a000"]),
        (" 1 ", ["GPU-a100"]),
        ("GPU-b", ["GPU-b200"]),
        ("GPU-a100", ["GPU-a100"]),
        ("GPU-a", []),  # two begin so
        ("", []),
        ("1,7,0", ["GPU-a100"]),
        ("1,1,0", ["GPU-a100"]),
        ("-1", []),
        ("MIG-b", ["MIG-b00"]),
        ("MIG-a00,0", ["MIG-a00", "GPU-a000"]),
        ("MIG-", []),
        ("MIG-8", []),
        ("GPU-c", ["MIG-a00", "MIG-b00"]),
        ("3", ["MIG-a00", "MIG-b00"]),
        ("3,MIG-a", ["MIG-a00", "MIG-b00"]),
    ],
)
def test_a_worker_offers_the_devices_that_its_engine_sees(chosen: str | None, left: list[str]) -> None:
    assert [gpu.uuid for gpu in visible([*GPUS, *SLICES], chosen)] == left
