"""How measured values are distributed: curves of exact order statistics, and histograms."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy
import numpy.typing as npt

from vlmhyperbench.analysis.figures.spec import Axis, Cell, FigureSpec, FigureTable, Mark, Series
from vlmhyperbench.analysis.labels import distinct, short
from vlmhyperbench.analysis.performance import nearest_rank

MAX_CURVE_POINTS = 400
"""A longer distribution is drawn by that many of its exact order statistics."""
PERCENTILES = (1, 5, 10, 25, 50, 75, 90, 95, 99, 100)

FloatArray = npt.NDArray[numpy.float64]


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
    names = distinct(series)
    for series_name, values in series.items():
        if not values:
            continue
        ordered = sorted(values)
        ranks = _ranks(len(ordered))
        shown = names[series_name]
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
    name: str,
    title: str,
    *,
    axis: Axis,
    series: Mapping[str, Sequence[float]],
    is_whole: bool = False,
    note: str = "",
) -> FigureSpec:
    """Draw how often values fell into equal bins, the same bins for every series; the last takes all beyond p99.5.

    Bins of whole numbers (`is_whole`) hold the same number of them each: `3–5` is 3, 4 and 5.
    """
    names = distinct(series)
    known = {names[series_name]: sorted(values) for series_name, values in series.items() if values}
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
    edges = _whole_edges(low, high, bins) if is_whole else _edges(low, high, bins)
    drawn: list[Series] = []
    said: list[str] = []
    for shown, values in known.items():
        counts, _ = numpy.histogram(numpy.minimum(values, edges[-1]), bins=edges)
        drawn.append(
            Series(name=shown, x=tuple(float(edge) for edge in edges), y=tuple(float(count) for count in counts))
        )
        fullest = int(numpy.argmax(counts))
        said.append(
            f"{shown}: the fullest bin is {_bin(float(edges[fullest]), float(edges[fullest + 1]), is_whole=is_whole)}"
            f" {axis.unit}".rstrip()
        )
    rows: tuple[tuple[Cell, ...], ...] = tuple(
        (_bin(float(edges[i]), float(edges[i + 1]), is_whole=is_whole), *(int(one.y[i]) for one in drawn))
        for i in range(len(edges) - 1)
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


def _percentile(ordered: Sequence[float], percent: float) -> float:
    found = nearest_rank(ordered, percent)
    assert found is not None, "empty series are left out"  # noqa: S101
    return found


def _ranks(count: int) -> list[int]:
    if count <= MAX_CURVE_POINTS:
        return list(range(1, count + 1))
    return sorted({max(1, math.ceil(i / (MAX_CURVE_POINTS - 1) * count)) for i in range(MAX_CURVE_POINTS)})


def _edges(low: float, high: float, bins: int) -> FloatArray:
    return numpy.linspace(low, high if high > low else low + 1.0, bins + 1)


def _whole_edges(low: float, high: float, bins: int) -> FloatArray:
    width = math.ceil((high - low + 1) / bins)
    count = math.ceil((high - low + 1) / width)
    return low - 0.5 + width * numpy.arange(count + 1, dtype=numpy.float64)


def _bin(low: float, high: float, *, is_whole: bool) -> str:
    if not is_whole:
        return f"{short(low)}–{short(high)}"
    first, last = round(low + 0.5), round(high - 0.5)
    return str(first) if first == last else f"{first}–{last}"
