"""A target with a ladder gets a whole device that its smallest load fits, instead of a refusal."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.shared.domain.builders_of_jobs import device_now, worker_now
from vlmhyperbench.domain.needs import MemoryNeed, Need
from vlmhyperbench.domain.steps import StepKind
from vlmhyperbench.domain.unfit import why_unfit


@pytest.mark.parametrize(
    ("least", "needed"), [((10, 20), 100), ((101, 0), 150), ((None, None), 150), ((10, None), 150)]
)
def test_a_load_that_can_be_smaller_takes_the_whole_device(least: tuple[int | None, int | None], needed: int) -> None:
    memory = MemoryNeed(device_bytes=150, host_bytes=10, min_device_bytes=least[0], min_host_bytes=least[1])
    need = Need(kind=StepKind.GENERATE, memory=memory)
    assert need.bytes_on(device_now(memory_bytes=100)) == needed


def test_a_load_that_fits_takes_what_it_needs() -> None:
    memory = MemoryNeed(device_bytes=80, min_device_bytes=10, min_host_bytes=0)
    assert Need(kind=StepKind.GENERATE, memory=memory).bytes_on(device_now(memory_bytes=100)) == 80
    assert Need(kind=StepKind.GENERATE, memory=memory.whole).bytes_on(device_now(memory_bytes=50)) == 80


@pytest.mark.parametrize(
    ("is_accelerator", "peak", "needed", "basis"),
    [
        (False, 160, 237, "the estimate of 0 MiB, as a peak of 0 MiB was measured with shorter prompts"),
        (False, 240, 252, "the measured peak of 0 MiB x 1.05"),
        (True, 160, 168, "the measured peak of 0 MiB x 1.05"),
        (False, 500, 300, "the measured peak of 0 MiB x 1.05"),
    ],
    ids=["untouched cache", "measured more", "accelerator", "too large"],
)
def test_a_peak_of_a_processor_does_not_replace_what_longer_prompts_take(
    is_accelerator: bool, peak: int, needed: int, basis: str
) -> None:
    memory = MemoryNeed(
        device_bytes=7, host_bytes=230, min_device_bytes=0, min_host_bytes=1, margin=2.0, peaks={"d": peak}
    )
    device = replace(device_now(name="d", memory_bytes=300), is_accelerator=is_accelerator)
    need = Need(kind=StepKind.GENERATE, memory=memory)
    assert (need.bytes_on(device), need.basis(device)) == (needed, basis)
    unknown = Need(kind=StepKind.GENERATE, memory=MemoryNeed(peaks={"d": 100}))
    assert unknown.bytes_on(device) == 105


@given(st.integers(1, 10**12), st.integers(1, 10**12), st.integers(1, 4))
def test_a_target_that_has_run_on_a_device_fits_a_device_of_its_name(
    peak: int, memory_bytes: int, devices: int
) -> None:
    memory = MemoryNeed(device_bytes=memory_bytes, margin=1.2, peaks={"card": peak})
    need = Need(kind=StepKind.GENERATE, devices=devices, memory=memory)
    needed = need.bytes_on(device_now(memory_bytes=memory_bytes, name="card"))
    assert needed is not None
    assert needed >= peak
    assert (needed <= memory_bytes) == (peak <= memory_bytes)


def test_a_peak_near_the_size_of_the_device_fits_where_it_was_measured() -> None:
    need = Need(kind=StepKind.GENERATE, memory=MemoryNeed(device_bytes=70, peaks={"card": 98}))
    device = device_now(memory_bytes=100, name="card")
    assert need.bytes_on(device) == 100
    assert why_unfit(need, [worker_now(devices=(device,))]) is None
    assert why_unfit(need, [worker_now(devices=(device_now(memory_bytes=97, name="card"),))]) is not None
