"""Points in a plane, such as quality against latency, with the points of the Pareto front joined."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from vlmhyperbench.analysis.figures.spec import Axis, Cell, FigureSpec, FigureTable, Series
from vlmhyperbench.analysis.labels import distinct, join_parts, printable, short

MAX_LABELLED = 12
"""Largest number of points that are all labelled; with more, only those of the front are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spot:
    """A labelled point; the interval is that of `y`."""

    label: str
    x: float
    y: float
    low: float | None = None
    high: float | None = None
    is_front: bool
    """Whether the point is on the Pareto front."""


def front_figure(
    name: str, title: str, *, x: Axis, y: Axis, spots: Sequence[Spot], front: str, rest: str, note: str = ""
) -> FigureSpec:
    """Draw points, and a line through those of the front, from left to right.

    Args:
        name: Slug.
        title: Headline.
        x: Horizontal axis.
        y: Vertical axis.
        spots: Points in any order.
        front: Name of the series of the front.
        rest: Name of the series of all other points.
        note: How to read the figure.
    """
    labels = distinct(spot.label for spot in spots)
    ordered = sorted(spots, key=lambda spot: (spot.x, spot.y, spot.label))
    on, off = [spot for spot in ordered if spot.is_front], [spot for spot in ordered if not spot.is_front]
    title = printable(title)
    sentences = [f"{labels[spot.label]} at {short(spot.x)} and {short(spot.y)}" for spot in on]
    rows: tuple[tuple[Cell, ...], ...] = tuple(
        (labels[spot.label], spot.x, spot.y, spot.low, spot.high, front if spot.is_front else rest) for spot in ordered
    )
    return FigureSpec(
        name=name,
        kind="scatter",
        title=title,
        alt=f"{title}. {front[:1].upper()}{front[1:]}: {join_parts(sentences, nothing='none')}.",
        x=x,
        y=y,
        table=FigureTable(columns=("run", x.label, y.label, "low", "high", "front"), rows=rows),
        series=tuple(
            Series(
                name=kind,
                x=tuple(spot.x for spot in points),
                y=tuple(spot.y for spot in points),
                low=tuple(spot.low for spot in points),
                high=tuple(spot.high for spot in points),
                labels=tuple(labels[spot.label] for spot in points) if is_front or len(spots) <= MAX_LABELLED else (),
                is_joined=is_front,
                tone=None if is_front else "neutral",
            )
            for kind, points, is_front in ((front, on, True), (rest, off, False))
            if points
        ),
        note=note,
    )
