"""Whether a model fits into free memory, and what the free memory of a machine is."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.wording import Wording
from vlmhyperbench_sdk.errors import InvalidInput
from vlmhyperbench_sdk.fitting import refuse_if_too_large, shortage
from vlmhyperbench_sdk.free_memory import FreeMemory, free_memory, host_total
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


def _machine(root: Path, *, own: str = "", maximum: str | None = None) -> Path:
    """Write the kernel's files of a machine of 512 GiB with 300 free, and of a cgroup that uses 3 of what it may."""
    (root / "proc" / "self").mkdir(parents=True)
    (root / "proc" / "meminfo").write_text(
        f"MemTotal:       {512 * 2**20} kB\nMemFree:        1 kB\nMemAvailable:   {300 * 2**20} kB\n"
    )
    (root / "proc" / "self" / "cgroup").write_text(f"0::/{own}\n")
    if maximum is not None:
        folder = root / "sys" / "fs" / "cgroup" / own
        folder.mkdir(parents=True)
        (folder / "memory.max").write_text(f"{maximum}\n")
        (folder / "memory.current").write_text(f"{3 * GIB}\n")
        (folder / "memory.stat").write_text(f"anon {GIB}\ninactive_file {2 * GIB}\n")
    return root


@pytest.mark.parametrize(
    ("own", "maximum", "free", "total"),
    [
        ("", f"{16 * GIB}", 15, 16),  # a container sees its own cgroup as the root
        ("user.slice/a", f"{16 * GIB}", 15, 16),
        ("", f"{2 * GIB}", 1, 2),
        ("", f"{1024 * GIB}", 300, 512),  # the machine has less than the limit allows
        ("", "max", 300, 512),
        ("", None, 300, 512),
    ],
)
def test_free_memory_and_its_total_are_of_the_cgroup_where_that_has_less(
    tmp_path: Path, own: str, maximum: str | None, free: int, total: int
) -> None:
    measured = free_memory({}, root=_machine(tmp_path, own=own, maximum=maximum))
    assert (measured.host_bytes, measured.host_total_bytes) == (free * GIB, total * GIB)


def test_the_memory_of_a_machine_without_these_files_is_unknown(tmp_path: Path) -> None:
    measured = free_memory({}, root=tmp_path)
    assert (measured.host_bytes, measured.host_total_bytes, host_total(tmp_path)) == (None, None, None)


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
