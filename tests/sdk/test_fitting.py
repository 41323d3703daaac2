"""Whether a model fits into free memory, and what the free memory of a machine is."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.wording import Wording
from vlmhyperbench_sdk.errors import InvalidInput
from vlmhyperbench_sdk.fitting import refuse_if_too_large, shortage
from vlmhyperbench_sdk.free_memory import FreeMemory, free_memory
from vlmhyperbench_sdk.protocols import MemoryEstimate

GIB = 2**30
SMI = """#!/bin/sh
printf '0, GPU-aaaa, 1024\\n1, GPU-bbbb, 2048\\n'
"""


def _estimate(device: float, host: float, *knobs: str) -> MemoryEstimate:
    return MemoryEstimate(device_bytes=int(device * GIB), host_bytes=int(host * GIB), source="static", knobs=knobs)


def _free(device: float | None, host: float | None, devices: int | None = 1) -> FreeMemory:
    return FreeMemory(
        device_bytes=None if device is None else int(device * GIB),
        host_bytes=None if host is None else int(host * GIB),
        devices=devices,
    )


@pytest.mark.parametrize(
    ("estimate", "free", "fits"),
    [
        (_estimate(8, 1), _free(8, 1), True),
        (_estimate(8.1, 1), _free(8, 1), False),
        (_estimate(8, 1.1), _free(8, 1), False),
        (_estimate(8, 1), _free(None, 9, devices=0), True),  # without an accelerator all is the machine's memory
        (_estimate(8, 1), _free(None, 8.9, devices=0), False),
        (_estimate(8, 1), _free(None, 2, devices=2), True),  # the accelerators' memory is unknown
        (_estimate(8, 1), _free(None, None, devices=0), True),
        (_estimate(8, 1), _free(None, 2, devices=None), True),  # there may be a part of an accelerator
        (_estimate(8, 3), _free(None, 2, devices=None), False),
        (_estimate(0, 0), _free(0, 0), True),
    ],
)
def test_a_model_is_refused_only_where_it_certainly_does_not_fit(
    estimate: MemoryEstimate, free: FreeMemory, fits: bool
) -> None:
    assert (shortage(estimate, free) is None) == fits


def test_a_refusal_names_need_have_and_the_parameters_that_help(wording: Wording) -> None:
    with pytest.raises(InvalidInput) as refused:
        refuse_if_too_large("big", _estimate(16, 1, "max_model_len", "quantization"), _free(8, 64))
    assert refused.value.code == "does_not_fit"
    wording(refused.value)
    with pytest.raises(InvalidInput) as refused:
        refuse_if_too_large("big", _estimate(0, 100), _free(8, 64))
    wording(refused.value)
    refuse_if_too_large("unknown", None, _free(0, 0))


def test_the_free_memory_of_this_machine_is_that_of_its_processes() -> None:
    total = int(Path("/proc/meminfo").read_text().split()[1]) * 1024
    host = free_memory().host_bytes
    assert host is not None
    assert 0 < host <= total


@pytest.mark.parametrize(
    ("chosen", "free"),
    [
        (None, (3072, 2)),
        ("1", (2048, 1)),
        ("GPU-aaaa", (1024, 1)),
        ("", (None, 0)),
        ("MIG-cccc", (None, None)),
    ],
)
def test_only_the_accelerators_that_a_process_may_use_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chosen: str | None, free: tuple[int | None, int | None]
) -> None:
    program = tmp_path / "nvidia-smi"
    program.write_text(SMI)
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    measured = free_memory({} if chosen is None else {"CUDA_VISIBLE_DEVICES": chosen})
    mib = None if measured.device_bytes is None else measured.device_bytes // 2**20
    assert (mib, measured.devices) == free
