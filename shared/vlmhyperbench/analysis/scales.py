"""Round numbers for axes: steps of time bins, and ticks of a logarithmic axis."""

from __future__ import annotations

import math

MIN_TICKS = 4
_MANTISSAS = ((1.0,), (1.0, 3.0), (1.0, 2.0, 5.0), (1.0, 1.5, 2.0, 3.0, 5.0, 7.0))


def round_step(min_step: float) -> float:
    """Return the smallest step of 1, 2 or 5 times a power of ten that is at least `min_step`, which is above 0."""
    power = 10.0 ** math.floor(math.log10(min_step))
    return next(step for step in (power, 2 * power, 5 * power, 10 * power) if step >= min_step * (1 - 1e-12))


def log_ticks(low: float, high: float) -> tuple[float, ...]:
    """Return round numbers from `low` to `high`, which are above 0: at least `MIN_TICKS` where possible.

    They are round multiples of powers of ten where the range is wide, and evenly spaced where it is narrow.
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
