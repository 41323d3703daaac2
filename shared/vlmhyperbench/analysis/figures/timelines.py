"""Rates and counts over time, in equal bins of a run's time."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import pairwise

from vlmhyperbench.analysis.figures.spec import Axis, Cell, FigureSpec, FigureTable, Series
from vlmhyperbench.analysis.labels import distinct, join_parts, short

_TIME = Axis(title="time since the first request was due", unit="s")


def timeline_figure(
    name: str,
    title: str,
    *,
    y: Axis,
    edges_s: Sequence[float],
    series: Mapping[str, Sequence[float]],
    dotted: Collection[str] = (),
    note: str = "",
) -> FigureSpec:
    """Draw steps over time, one per bin.

    Args:
        name: Slug.
        title: Headline.
        y: Axis of the values.
        edges_s: Edges of the bins. Shape: (bins + 1,).
        series: Name → one value per bin. Shape of each: (bins,).
        dotted: Names of series of failures, which are drawn as dots.
        note: How to read the figure.
    """
    names = distinct(series)
    drawn = tuple(
        Series(
            name=names[key],
            x=tuple(edges_s),
            y=tuple(values),
            is_joined=key not in dotted,
            tone="bad" if key in dotted else None,
        )
        for key, values in series.items()
    )
    sentences = [
        f"{curve.name}: at most {short(peak)} {y.unit}".rstrip() + f", after {short(edges_s[curve.y.index(peak)])} s"
        for curve in drawn
        if (peak := max(curve.y, default=0.0))
    ]
    rows: tuple[tuple[Cell, ...], ...] = tuple(
        (f"{short(start)}–{short(end)}", *(curve.y[number] for curve in drawn))
        for number, (start, end) in enumerate(pairwise(edges_s))
    )
    return FigureSpec(
        name=name,
        kind="timeline",
        title=title,
        alt=f"{title}. {join_parts(sentences, nothing='Nothing happened')}.",
        x=Axis(title=_TIME.title, unit=_TIME.unit, low=edges_s[0], high=edges_s[-1]),
        y=y,
        table=FigureTable(columns=(_TIME.unit, *(curve.name for curve in drawn)), rows=rows),
        series=drawn,
        note=note,
    )
