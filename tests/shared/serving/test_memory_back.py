"""Memory of an unloaded model is waited for by a number of readings, so that a busy machine gets no fewer."""

from __future__ import annotations

import pytest

from vlmhyperbench.serving.memory_back import BACK_READINGS, Unloaded, unload_measured, wait_until_back

pytestmark = pytest.mark.anyio


class Memory:
    """Free bytes as they are read one after the other, the last one again and again."""

    def __init__(self, *free: int | None) -> None:
        self.free = list(free)
        self.readings = 0

    def __call__(self) -> int | None:
        self.readings += 1
        return self.free.pop(0) if len(self.free) > 1 else self.free[0]


async def no_pause(_: float) -> None:
    """Wait for nothing."""


async def unload() -> None:
    """End nothing."""


@pytest.mark.parametrize(
    ("free", "back", "readings"),
    [((10, 40, 70, 100), 60, 3), ((10, 40), 30, BACK_READINGS), ((10, None), 0, 2), ((5,), 0, BACK_READINGS)],
    ids=["three quarters", "never enough", "unknown", "less than before"],
)
async def test_memory_is_waited_for_until_three_quarters_are_back(
    free: tuple[int | None, ...], back: int, readings: int
) -> None:
    memory = Memory(*free)
    assert await wait_until_back(10, 80, memory, pause=no_pause) == back
    assert memory.readings == readings


async def test_no_more_is_waited_for_than_is_used_and_nothing_where_nothing_is_known() -> None:
    memory = Memory(60, 90)
    assert await unload_measured(unload, 80, memory, total=100, pause=no_pause) == Unloaded(held=40, back=30)
    assert memory.readings == 2
    assert await unload_measured(unload, 80, Memory(None), pause=no_pause) == Unloaded(held=80, back=0)
    unread = Memory(1)
    assert await unload_measured(unload, 0, unread, pause=no_pause) == Unloaded(held=0, back=0)
    assert unread.readings == 0
