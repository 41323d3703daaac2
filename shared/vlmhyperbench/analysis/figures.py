"""Figures as values: what a chart says, with its alternative text and its data table, before anybody draws it.

Renderers are `vlmhyperbench.reports.plots.to_plotly` and `to_matplotlib`; both draw any `FigureSpec`. Every string here
may come from a data set or a model, so labels are cleaned and cut when a figure is made.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy

from vlmhyperbench.analysis.labels import clean, short
from vlmhyperbench.analysis.performance import nearest_rank

MAX_CURVE_POINTS = 400
"""A longer distribution is drawn by that many of its exact order statistics."""
PERCENTILES = (1, 5, 10, 25, 50, 75, 90, 95, 99, 100)

Cell = str | float | int | None
FigureKind = Literal["interval", "curve", "histogram", "bars", "matrix"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """A value with its confidence interval, and what it is the value of."""

    label: str
    value: float | None
    low: float | None = None
    high: float | None = None
    n: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """One axis; a bound that is None follows the data."""

    title: str
    unit: str = ""
    low: float | None = None
    high: float | None = None

    @property
    def label(self) -> str:
        return f"{self.title}, {self.unit}" if self.unit else self.title


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """One line, one set of dots or one set of bars.

    A histogram's `x` are bin edges and has one entry more than `y`; a bar's or an interval's `y` is the position of its
    category. None in `x` leaves the place empty.
    """

    name: str
    x: tuple[float | None, ...]
    y: tuple[float, ...]
    low: tuple[float | None, ...] = ()
    """Lower ends of the intervals, or empty. Shape: (points,)."""
    high: tuple[float | None, ...] = ()
    """Upper ends. Shape: (points,)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """A reference line across the plot."""

    axis: Literal["x", "y"]
    at: float
    label: str
    series: int | None = None
    """Draw it in the colour of that series."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FigureTable:
    """The numbers of a figure, for readers who want or need them as text."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]

    @property
    def is_number(self) -> tuple[bool, ...]:
        """Which columns hold numbers only, so that writers can align them."""
        return tuple(not any(isinstance(row[i], str) for row in self.rows) for i in range(len(self.columns)))


@dataclass(frozen=True, slots=True, kw_only=True)
class FigureSpec:
    """One figure."""

    name: str
    """Slug: file name of the figure and anchor in a report."""
    kind: FigureKind
    title: str
    alt: str
    """One or two sentences with the numbers that the picture shows."""
    x: Axis
    y: Axis
    table: FigureTable
    series: tuple[Series, ...] = ()
    categories: tuple[str, ...] = ()
    """Names of the rows, first on top: of an interval, bars or matrix figure."""
    columns: tuple[str, ...] = ()
    """Names of a matrix's columns."""
    cells: tuple[tuple[float | None, ...], ...] = ()
    """A matrix's values. Shape: (categories, columns)."""
    cell_labels: tuple[tuple[str, ...], ...] = ()
    """What is written into the cells. Shape: (categories, columns)."""
    marks: tuple[Mark, ...] = ()
    note: str = ""
    """How to read it, in one sentence."""


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
    """Draw values with intervals by category: quality by group, or differences from a baseline.

    Args:
        name: slug.
        title: headline.
        axis: the value's axis; missing bounds are taken around the intervals.
        groups: what a category is, as `document class`.
        series: per series its intervals; categories are the union of their labels in order of appearance.
        within: ends of the scale, which the axis does not leave.
        zero_line: label of a line at 0, for differences.
        note: how to read it.
    """
    categories = tuple(dict.fromkeys(clean(point.label) for points in series.values() for point in points))
    place = {label: index for index, label in enumerate(categories)}
    drawn: list[Series] = []
    rows: list[tuple[Cell, ...]] = []
    said: list[str] = []
    for series_name, points in series.items():
        shown = clean(series_name)
        drawn.append(
            Series(
                name=shown,
                x=tuple(point.value for point in points),
                y=tuple(float(place[clean(point.label)]) for point in points),
                low=tuple(point.low for point in points),
                high=tuple(point.high for point in points),
            )
        )
        rows += [(clean(p.label), shown, p.value, p.low, p.high, p.n) for p in points]
        known = [p for p in points if p.value is not None]
        if known:
            worst, best = min(known, key=_value), max(known, key=_value)
            least, most = f"{short(worst.value)} ({clean(worst.label)})", f"{short(best.value)} ({clean(best.label)})"
            said.append(f"{shown}: from {least} to {most}")
    shown_values = [value for one in drawn for value in (*one.x, *one.low, *one.high)]
    low, high = _bounds([*shown_values, 0.0] if zero_line else shown_values, within=within)
    return FigureSpec(
        name=name,
        kind="interval",
        title=title,
        alt=f"{title}. {'; '.join(said) or 'No value is known'}.",
        x=Axis(
            title=axis.title,
            unit=axis.unit,
            low=low if axis.low is None else axis.low,
            high=high if axis.high is None else axis.high,
        ),
        y=Axis(title=groups),
        table=FigureTable(columns=(groups, "series", axis.title, "low", "high", "n"), rows=tuple(rows)),
        series=tuple(drawn),
        categories=categories,
        marks=(Mark(axis="x", at=0.0, label=zero_line),) if zero_line else (),
        note=note,
    )


def cdf_figure(
    name: str, title: str, *, axis: Axis, series: Mapping[str, Sequence[float]], note: str = ""
) -> FigureSpec:
    """Draw the share of requests that were at least so fast, from exact order statistics.

    `series` maps a name to one value per request, in any order; an empty series is left out. The table holds
    nearest-rank percentiles.
    """
    drawn: list[Series] = []
    marks: list[Mark] = []
    columns: list[tuple[str, list[float]]] = []
    said: list[str] = []
    for series_name, values in series.items():
        if not values:
            continue
        ordered = sorted(values)
        ranks = _ranks(len(ordered))
        shown = clean(series_name)
        drawn.append(
            Series(name=shown, x=tuple(ordered[r - 1] for r in ranks), y=tuple(r / len(ordered) for r in ranks))
        )
        columns.append((shown, [_percentile(ordered, q) for q in PERCENTILES]))
        p50, p99 = _percentile(ordered, 50), _percentile(ordered, 99)
        marks += [
            Mark(axis="x", at=at, label=f"p{q} {short(at)}", series=len(drawn) - 1) for q, at in ((50, p50), (99, p99))
        ]
        said.append(f"{shown}: p50 {short(p50)}, p99 {short(p99)}, slowest {short(ordered[-1])} {axis.unit}".rstrip())
    rows: tuple[tuple[Cell, ...], ...] = tuple(
        (f"p{q}" if q < 100 else "max", *(values[i] for _, values in columns)) for i, q in enumerate(PERCENTILES)
    )
    return FigureSpec(
        name=name,
        kind="curve",
        title=title,
        alt=f"{title}. {'; '.join(said) or 'Nothing was measured'}.",
        x=axis,
        y=Axis(title="share of requests", low=0.0, high=1.0),
        table=FigureTable(
            columns=("percentile", *(f"{shown}, {axis.unit}" if axis.unit else shown for shown, _ in columns)),
            rows=rows if columns else (),
        ),
        series=tuple(drawn),
        marks=tuple(marks),
        note=note,
    )


def histogram_figure(
    name: str, title: str, *, axis: Axis, series: Mapping[str, Sequence[float]], note: str = ""
) -> FigureSpec:
    """Draw how often values fell into equal bins, the same bins for every series; the last takes all beyond p99.5."""
    known = {clean(series_name): sorted(values) for series_name, values in series.items() if values}
    if not known:
        empty = FigureTable(columns=("bin",), rows=())
        alt = f"{title}. Nothing was measured."
        return FigureSpec(
            name=name, kind="histogram", title=title, alt=alt, x=axis, y=Axis(title="requests"), table=empty
        )
    low = min(values[0] for values in known.values())
    high = max(_percentile(values, 99.5) for values in known.values())
    fewest = min(len(values) for values in known.values())
    bins = max(8, min(40, math.ceil(2 * fewest ** (1 / 3) * 1.5)))
    edges = numpy.linspace(low, high if high > low else low + 1.0, bins + 1)
    drawn: list[Series] = []
    said: list[str] = []
    for shown, values in known.items():
        counts, _ = numpy.histogram(numpy.minimum(values, edges[-1]), bins=edges)
        drawn.append(
            Series(name=shown, x=tuple(float(edge) for edge in edges), y=tuple(float(count) for count in counts))
        )
        fullest = int(numpy.argmax(counts))
        said.append(
            f"{shown}: most values lie between {short(float(edges[fullest]))} and "
            f"{short(float(edges[fullest + 1]))} {axis.unit}".rstrip()
        )
    rows: tuple[tuple[Cell, ...], ...] = tuple(
        (f"{short(float(edges[i]))}–{short(float(edges[i + 1]))}", *(int(one.y[i]) for one in drawn))
        for i in range(bins)
    )
    return FigureSpec(
        name=name,
        kind="histogram",
        title=title,
        alt=f"{title}. {'; '.join(said)}.",
        x=axis,
        y=Axis(title="requests", low=0.0),
        table=FigureTable(columns=(axis.label, *(one.name for one in drawn)), rows=rows),
        series=tuple(drawn),
        note=note,
    )


def bars_figure(
    name: str, title: str, *, axis: Axis, groups: str, series: Mapping[str, Mapping[str, int]], note: str = ""
) -> FigureSpec:
    """Draw counts by category as horizontal bars: error kinds, wins and losses."""
    categories = tuple(dict.fromkeys(clean(label) for counts in series.values() for label in counts))
    counted = {clean(k): {clean(label): n for label, n in counts.items()} for k, counts in series.items()}
    said = [
        f"{shown}: " + (", ".join(f"{label} {n}" for label, n in counts.items()) or "none")
        for shown, counts in counted.items()
    ]
    return FigureSpec(
        name=name,
        kind="bars",
        title=title,
        alt=f"{title}. {'; '.join(said)}.",
        x=Axis(title=axis.title, unit=axis.unit, low=0.0, high=axis.high),
        y=Axis(title=groups),
        table=FigureTable(
            columns=(groups, *counted),
            rows=tuple(_count_row(label, counted) for label in categories),
        ),
        series=tuple(
            Series(
                name=shown,
                x=tuple(float(counts.get(label, 0)) for label in categories),
                y=tuple(float(index) for index in range(len(categories))),
            )
            for shown, counts in counted.items()
        ),
        categories=categories,
        note=note,
    )


def matrix_figure(
    name: str,
    title: str,
    *,
    rows: tuple[str, Sequence[str]],
    columns: tuple[str, Sequence[str]],
    cells: Mapping[tuple[str, str], tuple[float, str]],
    note: str = "",
) -> FigureSpec:
    """Draw a grid of values: flips between two runs, or quality by two groups at once.

    Args:
        name: slug.
        title: headline.
        rows: what the rows are, and their labels.
        columns: the same for the columns.
        cells: (row, column) → (shade between 0 and 1, what is written there); a missing cell stays empty.
        note: how to read it.
    """
    pairs = [[cells.get((row, column)) for column in columns[1]] for row in rows[1]]
    labels = tuple(tuple("" if cell is None else cell[1] for cell in line) for line in pairs)
    row_names, column_names = tuple(clean(row) for row in rows[1]), tuple(clean(column) for column in columns[1])
    said = [
        f"{row_names[i]} and {column_names[j]}: {text}"
        for i, line in enumerate(labels)
        for j, text in enumerate(line)
        if text
    ]
    return FigureSpec(
        name=name,
        kind="matrix",
        title=title,
        alt=f"{title}. {'; '.join(said[:8]) or 'Empty'}{'; …' if len(said) > 8 else ''}.",
        x=Axis(title=columns[0]),
        y=Axis(title=rows[0]),
        table=FigureTable(
            columns=(f"{rows[0]} \\ {columns[0]}", *column_names),
            rows=tuple((row, *line) for row, line in zip(row_names, labels, strict=True)),
        ),
        categories=row_names,
        columns=column_names,
        cells=tuple(tuple(None if cell is None else cell[0] for cell in line) for line in pairs),
        cell_labels=labels,
        note=note,
    )


def _count_row(label: str, counted: Mapping[str, Mapping[str, int]]) -> tuple[Cell, ...]:
    return (label, *(counts.get(label, 0) for counts in counted.values()))


def _percentile(ordered: Sequence[float], percent: float) -> float:
    found = nearest_rank(ordered, percent)
    assert found is not None, "empty series are left out"  # noqa: S101
    return found


def _value(point: Point) -> float:
    return -math.inf if point.value is None else point.value


def _ranks(count: int) -> list[int]:
    if count <= MAX_CURVE_POINTS:
        return list(range(1, count + 1))
    return sorted({max(1, math.ceil(i / (MAX_CURVE_POINTS - 1) * count)) for i in range(MAX_CURVE_POINTS)})


def _bounds(values: Sequence[float | None], *, within: tuple[float, float] | None) -> tuple[float | None, float | None]:
    known = [value for value in values if value is not None]
    if not known:
        return within or (None, None)
    pad = 0.06 * (max(known) - min(known)) or 0.05
    low, high = min(known) - pad, max(known) + pad
    return (low, high) if within is None else (max(low, within[0] - pad / 4), min(high, within[1] + pad / 4))
