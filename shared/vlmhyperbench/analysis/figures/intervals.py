"""Values with confidence intervals by category: quality by group, differences from a baseline."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from vlmhyperbench.analysis.figures.spec import Axis, Cell, FigureSpec, FigureTable, Mark, Series
from vlmhyperbench.analysis.labels import clean, distinct, printable, short


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """A labelled value with its confidence interval."""

    label: str
    value: float | None
    low: float | None = None
    high: float | None = None
    n: int | None = None


def interval_figure(
    name: str,
    title: str,
    *,
    axis: Axis,
    groups: str,
    series: Mapping[str, Sequence[Point]],
    within: tuple[float, float] | None = None,
    zero_line: str = "",
    note: str = "",
) -> FigureSpec:
    """Draw values with intervals by category, such as quality by group or differences from a baseline.

    Args:
        name: Slug.
        title: Headline.
        axis: Axis of the values; missing bounds follow the intervals.
        groups: What a category stands for, such as `document class`.
        series: Name → points; categories are the union of their labels in order of appearance.
        within: Ends of the scale, beyond which the axis does not extend.
        zero_line: Label of a line at 0, for differences.
        note: How to read the figure.
    """
    labels = distinct(point.label for points in series.values() for point in points)
    row_of = {label: row for row, label in enumerate(labels)}
    names = distinct(series)
    title, groups = printable(title), clean(groups)
    drawn: list[Series] = []
    rows: list[tuple[Cell, ...]] = []
    sentences: list[str] = []
    for series_name, points in series.items():
        shown = names[series_name]
        drawn.append(
            Series(
                name=shown,
                x=tuple(point.value for point in points),
                y=tuple(float(row_of[point.label]) for point in points),
                low=tuple(point.low for point in points),
                high=tuple(point.high for point in points),
            )
        )
        rows += [(labels[point.label], shown, point.value, point.low, point.high, point.n) for point in points]
        known = [point for point in points if point.value is not None]
        if known:
            ends = (min(known, key=_value), max(known, key=_value))
            lowest, highest = (f"{short(point.value)} ({labels[point.label]})" for point in ends)
            sentences.append(f"{shown}: from {lowest} to {highest}")
    shown_values = [value for points in drawn for value in (*points.x, *points.low, *points.high)]
    low, high = _bounds([*shown_values, 0.0] if zero_line else shown_values, within=within)
    return FigureSpec(
        name=name,
        kind="interval",
        title=title,
        alt=f"{title}. {'; '.join(sentences) or 'No value is known'}.",
        x=Axis(
            title=printable(axis.title),
            unit=axis.unit,
            low=low if axis.low is None else axis.low,
            high=high if axis.high is None else axis.high,
        ),
        y=Axis(title=groups),
        table=FigureTable(columns=(groups, "series", printable(axis.title), "low", "high", "n"), rows=tuple(rows)),
        series=tuple(drawn),
        categories=tuple(labels.values()),
        marks=(Mark(axis="x", at=0.0, label=zero_line),) if zero_line else (),
        note=note,
    )


def _value(point: Point) -> float:
    return -math.inf if point.value is None else point.value


def _bounds(values: Sequence[float | None], *, within: tuple[float, float] | None) -> tuple[float | None, float | None]:
    known = [value for value in values if value is not None]
    if not known:
        return within or (None, None)
    pad = 0.06 * (max(known) - min(known)) or 0.05
    low, high = min(known) - pad, max(known) + pad
    return (low, high) if within is None else (max(low, within[0] - pad / 4), min(high, within[1] + pad / 4))
