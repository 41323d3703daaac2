"""Timers that would let two claims own one job are refused."""

from __future__ import annotations

import pytest

from vlmhyperbench.domain.timers import Timers


@pytest.mark.parametrize(
    "values",
    [
        {"lease_s": 28.0},
        {"self_fence_s": 6.0},
        {"stale_worker_s": 6.0},
        {"forget_worker_s": 29.0},
        {"poll_s": 15.0},
        {"tick_s": 15.0},
    ],
)
def test_timers_that_break_an_inequality_are_refused(values: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="must hold"):
        Timers.model_validate(values)


def test_the_timers_that_nobody_has_set_are_in_order() -> None:
    timers = Timers()
    assert timers.heartbeat_s < timers.self_fence_s < timers.lease_s
