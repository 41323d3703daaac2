"""A target with a ladder gets a whole device that its smallest load fits, instead of a refusal."""

from __future__ import annotations

import pytest

from tests.shared.domain.builders_of_jobs import device_now
from vlmhyperbench.domain.needs import MemoryNeed, Need
from vlmhyperbench.domain.steps import StepKind


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
