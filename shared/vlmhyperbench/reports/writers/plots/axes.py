"""Where an x axis begins and ends, and what stands on a logarithmic one: the same for both renderers."""

from __future__ import annotations

from dataclasses import dataclass

from vlmhyperbench.analysis.figures import FigureSpec
from vlmhyperbench.analysis.scales import log_ticks

_NEAR = 0.5
"""Lowest over highest place from which on an axis need not begin at 0."""
_ROOM = 0.03
"""Share of the axis that stays free at either end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogAxis:
    """Ends and ticks, all above 0."""

    low: float
    high: float
    ticks: tuple[float, ...]


def begins_at_zero(spec: FigureSpec) -> bool:
    """Whether 0 is near enough to what is drawn; else most of the axis would be empty."""
    places = [place for series in spec.series for place in series.x if place is not None]
    return not places or min(places) < _NEAR * max(places)


def log_axis(spec: FigureSpec) -> LogAxis | None:
    """Lay out the x axis of a figure that wants a logarithmic one and has something to show on it."""
    places = [place for series in spec.series for place in series.x if place is not None]
    if not spec.x.is_log or not places:
        return None
    low = min(places) if spec.x.low is None else spec.x.low
    high = max(places) if spec.x.high is None else spec.x.high
    room = (high / low) ** _ROOM if high > low else 2.0
    low, high = low / room, high * room
    return LogAxis(low=low, high=high, ticks=log_ticks(low, high))
