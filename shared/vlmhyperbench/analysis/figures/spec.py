"""A figure as a value: what a chart says, with its alternative text and its data table, before anybody draws it.

Renderers are `vlmhyperbench.reports.writers.plots.to_plotly` and `to_matplotlib`; both draw any `FigureSpec`. Every
string here may come from a data set or a model, so labels are cleaned and cut when a figure is made.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import Literal

from vlmhyperbench_sdk.errors import InvalidInput

MAX_THINGS = 20_000
"""More points, cells and lines than that are no figure."""
FURTHEST = 1e100
"""Renderers compute with what they draw: a number beyond that could overflow on the way."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,149}")
_SPACES = str.maketrans("\u00a0\u202f", "  ")

Cell = str | float | int | None
FigureKind = Literal["interval", "curve", "histogram", "timeline", "bars", "stacked", "scatter", "matrix"]
SeriesTone = Literal["good", "neutral", "bad"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """One axis; a bound that is None follows the data."""

    title: str
    unit: str = ""
    low: float | None = None
    high: float | None = None
    is_log: bool = False
    """Equal ratios take equal room, and everything on it is above 0: x of curves, histograms and scatters."""

    @property
    def label(self) -> str:
        return f"{self.title}, {self.unit}" if self.unit else self.title


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """One line, one set of dots or one set of bars.

    `x` of a histogram or a timeline are bin edges and has one entry more than `y`; a bar's or an interval's `y` is the
    position of its category. None in `x` leaves the place empty. Intervals are those of `x`, in a scatter those of `y`.
    """

    name: str
    x: tuple[float | None, ...]
    y: tuple[float, ...]
    low: tuple[float | None, ...] = ()
    """Lower ends of the intervals, or empty. Shape: (points,)."""
    high: tuple[float | None, ...] = ()
    """Upper ends. Shape: (points,)."""
    labels: tuple[str, ...] = ()
    """Names of a scatter's points. Shape: (points,)."""
    is_joined: bool = False
    """A scatter's points are joined by a line, in their order; a timeline's bins are steps instead of dots."""
    tone: SeriesTone | None = None
    """What it means; it is drawn in the colour of that instead of the next one."""


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

    def __post_init__(self) -> None:
        if any(len(row) != len(self.columns) for row in self.rows):
            raise InvalidInput("A row of a figure's table does not fit its columns.")

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
    """Names of the rows, first on top: of intervals, bars and a matrix."""
    columns: tuple[str, ...] = ()
    """Names of a matrix's columns."""
    cells: tuple[tuple[float | None, ...], ...] = ()
    """A matrix's values. Shape: (categories, columns)."""
    cell_labels: tuple[tuple[str, ...], ...] = ()
    """What is written into the cells. Shape: (categories, columns)."""
    marks: tuple[Mark, ...] = ()
    note: str = ""
    """How to read it, in one sentence."""

    def __post_init__(self) -> None:
        wrong = next(_faults(self), None)
        if wrong is not None:
            raise InvalidInput(f"The figure {self.name!r} cannot be drawn: {wrong}.")


def _faults(spec: FigureSpec) -> Iterator[str]:
    """Say what a renderer could not draw."""
    if _NAME.fullmatch(spec.name) is None:
        yield "its name is no slug"
    if not all(label.translate(_SPACES).isprintable() for label in _labels(spec)):
        yield "a label has characters that cannot be printed"
    if len(spec.categories) * len(spec.columns) + sum(len(series.x) for series in spec.series) > MAX_THINGS:
        yield f"it holds more than {MAX_THINGS} points and cells"
    if len(spec.categories) + len(spec.columns) + len(spec.series) + len(spec.marks) > MAX_THINGS:
        yield f"it holds more than {MAX_THINGS} names and lines"
    if not all(math.isfinite(number) and abs(number) <= FURTHEST for number in _numbers(spec)):
        yield f"a number is not between -{FURTHEST} and {FURTHEST}"
    if spec.x.is_log and any(number <= 0 for number in _places(spec)):
        yield "a place on a logarithmic axis is not above 0"
    if any(mark.series is not None and not 0 <= mark.series < len(spec.series) for mark in spec.marks):
        yield "a line belongs to no series"
    for grid in (spec.cells, spec.cell_labels):
        if spec.kind == "matrix" and [len(line) for line in grid] != [len(spec.columns)] * len(spec.categories):
            yield "its cells do not fit its rows and columns"
    for series in spec.series:
        yield from _series_faults(spec, series)


def _series_faults(spec: FigureSpec, series: Series) -> Iterator[str]:
    is_binned = spec.kind in {"histogram", "timeline"}
    if len(series.x) != len(series.y) + is_binned:
        yield f"x and y of the series {series.name!r} do not fit"
    if is_binned and len(spec.table.rows) != len(series.y):
        yield f"the table does not fit the bins of the series {series.name!r}"
    if any(len(ends) != len(series.x) for ends in _per_point(spec, series)):
        yield f"the intervals or labels of the series {series.name!r} do not fit"
    if spec.kind in {"interval", "bars", "stacked"} and any(y not in range(len(spec.categories)) for y in series.y):
        yield f"the series {series.name!r} names a row that does not exist"
    if spec.kind == "scatter" and not series.x:
        yield f"the series {series.name!r} has no point"
    if (is_binned or spec.kind in {"curve", "scatter"}) and None in series.x:
        yield f"x of the series {series.name!r} has a hole"
    elif (is_binned or spec.kind == "curve") and any(low > high for low, high in pairwise(_known(series.x))):
        yield f"x of the series {series.name!r} does not ascend"


def _per_point(spec: FigureSpec, series: Series) -> Sequence[Sequence[float | str | None]]:
    """What a series must have an entry for each point of."""
    match spec.kind:
        case "interval":
            return series.low, series.high
        case "scatter":
            return [found for found in (series.low, series.high, series.labels) if found]
        case _:
            return ()


def _known(values: Sequence[float | None]) -> list[float]:
    return [value for value in values if value is not None]


def _labels(spec: FigureSpec) -> Iterator[str]:
    yield from (spec.title, spec.x.label, spec.y.label, *spec.categories, *spec.columns)
    yield from chain((series.name for series in spec.series), (mark.label for mark in spec.marks), *spec.cell_labels)
    yield from chain(*(series.labels for series in spec.series))


def _places(spec: FigureSpec) -> Iterator[float]:
    """Everything that lies on the x axis."""
    bounds = (spec.x.low, spec.x.high)
    marks = (mark.at for mark in spec.marks if mark.axis == "x")
    found: Iterator[float | None] = chain(bounds, marks, *(line.x for line in spec.series))
    return (number for number in found if number is not None)


def _numbers(spec: FigureSpec) -> Iterator[float]:
    bounds = (spec.x.low, spec.x.high, spec.y.low, spec.y.high)
    series = (numbers for line in spec.series for numbers in (line.x, line.y, line.low, line.high))
    found: Iterator[float | None] = chain(bounds, (mark.at for mark in spec.marks), *series, *spec.cells)
    return (number for number in found if number is not None)
