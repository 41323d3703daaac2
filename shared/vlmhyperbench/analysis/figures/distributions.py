"""Distributions of measured values: curves of exact order statistics, and histograms."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

import numpy

from vlmhyperbench.analysis.distributions import FloatArray, IntArray, Ordered, ordered
from vlmhyperbench.analysis.figures.spec import Axis, Cell, FigureSpec, FigureTable, Mark, Series
from vlmhyperbench.analysis.labels import distinct, short

MAX_CURVE_POINTS = 400
"""Largest number of points of a curve; a longer distribution is drawn by this many of its exact order statistics."""
PERCENTILES = (1, 5, 10, 25, 50, 75, 90, 95, 99, 100)
MARKED = (50, 90, 99)
WIDE = 100.0
"""Smallest ratio of the slowest to the fastest value with which the axis of a curve is logarithmic."""
MIN_BINS, MAX_BINS = 8, 40
_PER_DECADE = (500, 200, 100, 50, 20, 10, 5)

Values: TypeAlias = Sequence[float] | FloatArray | Ordered
"""One value per request, in any order, or values with counts."""


def cdf_figure(
    name: str,
    title: str,
    *,
    axis: Axis,
    series: Mapping[str, Values],
    of: str = "requests",
    note: str = "",
) -> FigureSpec:
    """Draw cumulative distributions from exact order statistics.

    Args:
        name: Slug.
        title: Headline.
        axis: Axis of the values; it is logarithmic where the slowest value is at least `WIDE` times the fastest.
        series: Name → values; an empty series is left out.
        of: What the values belong to.
        note: How to read the figure.
    """
    known = _known(series)
    drawn: list[Series] = []
    marks: list[Mark] = []
    sentences: list[str] = []
    for shown, values in known.items():
        ranks = _ranks(values.n)
        points = tuple(values.at(ranks).tolist())
        drawn.append(Series(name=shown, x=points, y=tuple((ranks / values.n).tolist())))
        p50, p99 = values.percentile(50), values.percentile(99)
        marks += [
            Mark(axis="x", at=at, label=f"p{q} {short(at)}", series=len(drawn) - 1) for q, at in ((50, p50), (99, p99))
        ]
        slowest = f"{short(points[-1])} {axis.unit}".rstrip()
        sentences.append(f"{shown}: p50 {short(p50)}, p99 {short(p99)}, slowest {slowest}")
    rows: tuple[tuple[Cell, ...], ...] = tuple(
        (f"p{q}" if q < 100 else "max", *(values.percentile(q) for values in known.values())) for q in PERCENTILES
    )
    return FigureSpec(
        name=name,
        kind="curve",
        title=title,
        alt=f"{title}. {'; '.join(sentences) or 'Nothing was measured'}.",
        x=replace(axis, is_log=_is_wide(list(known.values()))),
        y=Axis(title=f"share of {of}", low=0.0, high=1.0),
        table=FigureTable(
            columns=("percentile", *(f"{shown}, {axis.unit}" if axis.unit else shown for shown in known)),
            rows=rows if known else (),
        ),
        series=tuple(drawn),
        marks=tuple(marks),
        note=note,
    )


def histogram_figure(
    name: str, title: str, *, axis: Axis, series: Mapping[str, Values], is_whole: bool = False, note: str = ""
) -> FigureSpec:
    """Draw counts of values in bins of equal width, the same for every series; the last bin includes all above p99.5.

    Bins of whole numbers (`is_whole`) contain the same number of whole numbers each: `3–5` is 3, 4 and 5.
    """
    known = _known(series)
    if not known:
        return _empty(name, title, axis)
    low = min(float(values.values[0]) for values in known.values())
    high = max(values.percentile(99.5) for values in known.values())
    edges = _whole_edges(low, high, _bins(known)) if is_whole else _edges(low, high, _bins(known))
    return _histogram(name, title, axis=axis, known=known, edges=edges, is_whole=is_whole, note=note)


def log_histogram_figure(
    name: str, title: str, *, axis: Axis, series: Mapping[str, Values], note: str = ""
) -> FigureSpec:
    """Draw counts of values in bins of equal ratio on a logarithmic axis, with p50, p90 and p99 marked.

    The edges of bins are whole fractions of decades, the same in every figure. Where a value is 0 or less, which a
    logarithmic axis cannot show, the figure is `histogram_figure`.
    """
    known = _known(series)
    if not known or any(values.values[0] <= 0 for values in known.values()):
        return histogram_figure(name, title, axis=axis, series=series, note=note)
    low = min(float(values.values[0]) for values in known.values())
    high = max(float(values.values[-1]) for values in known.values())
    edges = _log_edges(low, high, _bins(known))
    marks = tuple(
        Mark(axis="x", at=at, label=f"p{percent} {short(at)}", series=index)
        for index, values in enumerate(known.values())
        for percent in MARKED
        for at in (values.percentile(percent),)
    )
    return _histogram(
        name, title, axis=replace(axis, is_log=True), known=known, edges=edges, is_whole=False, note=note, marks=marks
    )


def _histogram(
    name: str,
    title: str,
    *,
    axis: Axis,
    known: Mapping[str, Ordered],
    edges: FloatArray,
    is_whole: bool,
    note: str,
    marks: tuple[Mark, ...] = (),
) -> FigureSpec:
    drawn: list[Series] = []
    sentences: list[str] = []
    for index, (shown, values) in enumerate(known.items()):
        counts = _counts(values, edges)
        drawn.append(Series(name=shown, x=tuple(edges.tolist()), y=tuple(counts.tolist())))
        fullest = int(numpy.argmax(counts))
        percentiles = ", ".join(mark.label for mark in marks if mark.series == index)
        sentences.append(
            f"{shown}: the fullest bin is {_bin(float(edges[fullest]), float(edges[fullest + 1]), is_whole=is_whole)}"
            f" {axis.unit}".rstrip()
            + (f"; {percentiles}" if percentiles else "")
        )
    rows: tuple[tuple[Cell, ...], ...] = tuple(
        (_bin(float(edges[i]), float(edges[i + 1]), is_whole=is_whole), *(int(curve.y[i]) for curve in drawn))
        for i in range(len(edges) - 1)
    )
    return FigureSpec(
        name=name,
        kind="histogram",
        title=title,
        alt=f"{title}. {'; '.join(sentences)}.",
        x=axis,
        y=Axis(title="requests", low=0.0),
        table=FigureTable(columns=(axis.label, *(curve.name for curve in drawn)), rows=rows),
        series=tuple(drawn),
        marks=marks,
        note=f"{_counted(known)} {note}".rstrip() if marks else note,
    )


def _empty(name: str, title: str, axis: Axis) -> FigureSpec:
    return FigureSpec(
        name=name,
        kind="histogram",
        title=title,
        alt=f"{title}. Nothing was measured.",
        x=axis,
        y=Axis(title="requests"),
        table=FigureTable(columns=("bin",), rows=()),
    )


def _known(series: Mapping[str, Values]) -> dict[str, Ordered]:
    """Return the series that are not empty, sorted, under names that can be drawn."""
    names = distinct(series)
    by_name = {
        names[name]: values if isinstance(values, Ordered) else ordered(values) for name, values in series.items()
    }
    return {name: values for name, values in by_name.items() if values.n}


def _counted(known: Mapping[str, Ordered]) -> str:
    """Write the numbers of values, as `n = 20.` or `n: a 20, b 30.`."""
    counts = {name: f"{values.n:,}".replace(",", "\u202f") for name, values in known.items()}
    if len(counts) == 1:
        return f"n = {next(iter(counts.values()))}."
    return f"n: {', '.join(f'{name} {count}' for name, count in counts.items())}."


def _is_wide(known: Sequence[Ordered]) -> bool:
    low = min((float(values.values[0]) for values in known), default=0.0)
    high = max((float(values.values[-1]) for values in known), default=0.0)
    return low > 0 and high / low >= WIDE


def _ranks(count: int) -> IntArray:
    if count <= MAX_CURVE_POINTS:
        return numpy.arange(1, count + 1)
    steps = numpy.arange(MAX_CURVE_POINTS) / (MAX_CURVE_POINTS - 1) * count
    return numpy.unique(numpy.maximum(1, numpy.ceil(steps).astype(numpy.int64)))


def _bins(known: Mapping[str, Ordered]) -> int:
    min_n = min(values.n for values in known.values())
    return max(MIN_BINS, min(MAX_BINS, math.ceil(3 * math.cbrt(min_n))))


def _counts(values: Ordered, edges: FloatArray) -> FloatArray:
    """Count the values in every bin; the first and the last bin include all values beyond them."""
    below = numpy.searchsorted(values.values, edges[1:-1])
    ends = numpy.concatenate(([0], values.up_to))[numpy.concatenate(([0], below, [values.values.size]))]
    return numpy.diff(ends).astype(numpy.float64)


def _edges(low: float, high: float, bins: int) -> FloatArray:
    return numpy.linspace(low, high if high > low else low + 1.0, bins + 1)


def _whole_edges(low: float, high: float, bins: int) -> FloatArray:
    width = math.ceil((high - low + 1) / bins)
    count = math.ceil((high - low + 1) / width)
    return low - 0.5 + width * numpy.arange(count + 1, dtype=numpy.float64)


def _log_edges(low: float, high: float, bins: int) -> FloatArray:
    """Return the edges of the finest fixed grid that needs at most `bins` bins, extended to at least `MIN_BINS`."""
    for per_decade in _PER_DECADE:
        first = math.floor(math.log10(low) * per_decade)
        last = math.floor(math.log10(high) * per_decade) + 1
        if last - first <= bins:
            break
    missing = max(0, MIN_BINS - (last - first))
    exponents = numpy.arange(first - missing // 2, last + missing - missing // 2 + 1)
    edges: FloatArray = 10.0 ** (exponents / per_decade)
    return edges


def _bin(low: float, high: float, *, is_whole: bool) -> str:
    if not is_whole:
        return f"{short(low)}–{short(high)}"
    first, last = round(low + 0.5), round(high - 0.5)
    return str(first) if first == last else f"{first}–{last}"
