"""Round steps and ticks: of a logarithmic axis, and of bins of time."""

from __future__ import annotations

import math

MIN_TICKS = 4
_MANTISSAS = ((1.0,), (1.0, 3.0), (1.0, 2.0, 5.0), (1.0, 1.5, 2.0, 3.0, 5.0, 7.0))


def round_step(least: float) -> float:
    """Return the smallest of 1, 2 and 5 times a power of ten that is not below `least`, which is above 0."""
    power = 10.0 ** math.floor(math.log10(least))
    return next(step for step in (power, 2 * power, 5 * power, 10 * power) if step >= least * (1 - 1e-12))


def log_ticks(low: float, high: float) -> tuple[float, ...]:
    """Return round numbers between two that are above 0, at least `MIN_TICKS` where that is possible.

    They are 1, 2 or 5 times powers of ten where the range is wide, and equally far apart where it is narrow.
    """
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for mantissas in _MANTISSAS:
        ticks = tuple(
            tick for decade in decades for mantissa in mantissas if low <= (tick := mantissa * 10.0**decade) <= high
        )
        if len(ticks) >= MIN_TICKS:
            return ticks
    if high <= low:
        return (low,)
    step = round_step((high - low) / (MIN_TICKS + 2))
    first = math.ceil(low / step)
    return tuple(number * step for number in range(first, math.floor(high / step) + 1))
