"""Points in a plane: quality against latency or memory, with the ones that nothing beats joined."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from vlmhyperbench.analysis.figures.spec import Axis, Cell, FigureSpec, FigureTable, Series
from vlmhyperbench.analysis.labels import distinct, printable, short, some

MAX_LABELLED = 12
"""With more points than that only the joined ones are labelled."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spot:
    """A point with its name; the interval is that of `y`."""

    label: str
    x: float
    y: float
    low: float | None = None
    high: float | None = None
    is_front: bool
    """No other point is at least as good in both and better in one."""


def front_figure(
    name: str, title: str, *, x: Axis, y: Axis, spots: Sequence[Spot], front: str, rest: str, note: str = ""
) -> FigureSpec:
    """Draw points, and a line through those of the front, from left to right.

    Args:
        name: slug.
        title: headline.
        x: horizontal axis.
        y: vertical axis.
        spots: in any order.
        front: what the joined points are called.
        rest: what the others are called.
        note: how to read it.
    """
    labels = distinct(spot.label for spot in spots)
    ordered = sorted(spots, key=lambda spot: (spot.x, spot.y, spot.label))
    on, off = [spot for spot in ordered if spot.is_front], [spot for spot in ordered if not spot.is_front]
    title = printable(title)
    said = [f"{labels[spot.label]} at {short(spot.x)} and {short(spot.y)}" for spot in on]
    rows: tuple[tuple[Cell, ...], ...] = tuple(
        (labels[spot.label], spot.x, spot.y, spot.low, spot.high, front if spot.is_front else rest) for spot in ordered
    )
    return FigureSpec(
        name=name,
        kind="scatter",
        title=title,
        alt=f"{title}. {front[:1].upper()}{front[1:]}: {some(said, nothing='none')}.",
        x=x,
        y=y,
        table=FigureTable(columns=("run", x.label, y.label, "low", "high", "front"), rows=rows),
        series=tuple(
            Series(
                name=kind,
                x=tuple(spot.x for spot in found),
                y=tuple(spot.y for spot in found),
                low=tuple(spot.low for spot in found),
                high=tuple(spot.high for spot in found),
                labels=tuple(labels[spot.label] for spot in found) if is_front or len(spots) <= MAX_LABELLED else (),
                is_joined=is_front,
                tone=None if is_front else "neutral",
            )
            for kind, found, is_front in ((front, on, True), (rest, off, False))
            if found
        ),
        note=note,
    )
