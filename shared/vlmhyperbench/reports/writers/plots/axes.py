"""The range of an x axis and the ticks of a logarithmic one, for both renderers."""

from __future__ import annotations

from dataclasses import dataclass

from vlmhyperbench.analysis.figures import FigureSpec
from vlmhyperbench.analysis.scales import log_ticks

_NEAR = 0.5
"""Minimum ratio of the lowest to the highest value for an axis that does not begin at 0."""
_ROOM = 0.03
"""Share of the axis that stays free at either end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogAxis:
    """Ends and ticks, all above 0."""

    low: float
    high: float
    ticks: tuple[float, ...]


def begins_at_zero(spec: FigureSpec) -> bool:
    """Whether the axis begins at 0; it does not if most of it would be empty."""
    values = _values(spec)
    return not values or min(values) < _NEAR * max(values)


def log_axis(spec: FigureSpec) -> LogAxis | None:
    """Return the range and ticks of a logarithmic x axis; None if it is linear, or the figure has no values."""
    values = _values(spec)
    if not spec.x.is_log or not values:
        return None
    low = min(values) if spec.x.low is None else spec.x.low
    high = max(values) if spec.x.high is None else spec.x.high
    room = (high / low) ** _ROOM if high > low else 2.0
    low, high = low / room, high * room
    return LogAxis(low=low, high=high, ticks=log_ticks(low, high))


def _values(spec: FigureSpec) -> list[float]:
    return [x for series in spec.series for x in series.x if x is not None]
