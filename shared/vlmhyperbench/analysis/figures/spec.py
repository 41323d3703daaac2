"""A figure as a value: data, alternative text and table, independent of how it is drawn.

Renderers are `vlmhyperbench.reports.writers.plots.to_plotly` and `to_matplotlib`; both draw any `FigureSpec`. Every
string may come from a data set or a model, so labels are cleaned and cut when a figure is made.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import Literal

from vlmhyperbench_sdk.errors import InvalidInput

MAX_ELEMENTS = 20_000
"""Largest number of points and cells, and of names and lines, of a figure."""
MAX_NUMBER = 1e100
"""Largest number of a figure: the arithmetic of renderers could overflow with larger ones."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,149}")
_SPACES = str.maketrans("\u00a0\u202f", "  ")

Cell = str | float | int | None
FigureKind = Literal["interval", "curve", "histogram", "timeline", "bars", "stacked", "scatter", "matrix"]
SeriesTone = Literal["good", "neutral", "bad"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """An axis; a bound that is None follows the data."""

    title: str
    unit: str = ""
    low: float | None = None
    high: float | None = None
    is_log: bool = False
    """Whether the scale is logarithmic, with numbers above 0 only: for x of curves, histograms and scatters."""

    @property
    def label(self) -> str:
        return f"{self.title}, {self.unit}" if self.unit else self.title


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """A line, a set of dots or a set of bars.

    In a histogram or a timeline `x` are the edges of bins, one more than `y`. In bars and intervals `y` is the index of
    the category, and None in `x` leaves its row empty. Intervals are those of `x`, in a scatter those of `y`.
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
    """Whether a line joins a scatter's points in order, or a timeline has steps instead of dots."""
    tone: SeriesTone | None = None
    """Meaning of the series, which decides its colour; None takes the next colour."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """A reference line across the plot."""

    axis: Literal["x", "y"]
    at: float
    label: str
    series: int | None = None
    """Index of the series whose colour the line has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FigureTable:
    """Numbers of a figure as a table, for readers who cannot or do not want to use the picture."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]

    def __post_init__(self) -> None:
        if any(len(row) != len(self.columns) for row in self.rows):
            raise InvalidInput(
                "A row of a figure's table does not have one value for each column.", cure="Correct the table."
            )

    @property
    def is_number(self) -> tuple[bool, ...]:
        """Whether each column contains numbers only, so that writers can align it."""
        return tuple(not any(isinstance(row[i], str) for row in self.rows) for i in range(len(self.columns)))


@dataclass(frozen=True, slots=True, kw_only=True)
class FigureSpec:
    """A figure that renderers can draw."""

    name: str
    """Slug: file name of the figure and anchor in a report."""
    kind: FigureKind
    title: str
    alt: str
    """Alternative text: one or two sentences with the numbers of the figure."""
    x: Axis
    y: Axis
    table: FigureTable
    series: tuple[Series, ...] = ()
    categories: tuple[str, ...] = ()
    """Names of the rows of intervals, bars or a matrix, from top to bottom."""
    columns: tuple[str, ...] = ()
    """Names of a matrix's columns."""
    cells: tuple[tuple[float | None, ...], ...] = ()
    """Values of a matrix. Shape: (categories, columns)."""
    cell_labels: tuple[tuple[str, ...], ...] = ()
    """Texts of a matrix's cells. Shape: (categories, columns)."""
    marks: tuple[Mark, ...] = ()
    note: str = ""
    """How to read the figure, in one sentence."""

    def __post_init__(self) -> None:
        fault = next(_faults(self), None)
        if fault is not None:
            message = f"The figure {self.name!r} cannot be drawn: {fault}."
            raise InvalidInput(message, cure="Correct the values of the figure.")


def _faults(spec: FigureSpec) -> Iterator[str]:
    """Yield the reasons for which a renderer could not draw a figure."""
    if _NAME.fullmatch(spec.name) is None:
        yield "its name has other characters than letters, digits, `_` and `-`, or none"
    if not all(label.translate(_SPACES).isprintable() for label in _labels(spec)):
        yield "a label has characters that cannot be printed"
    if len(spec.categories) * len(spec.columns) + sum(len(series.x) for series in spec.series) > MAX_ELEMENTS:
        yield f"it holds more than {MAX_ELEMENTS} points and cells"
    if len(spec.categories) + len(spec.columns) + len(spec.series) + len(spec.marks) > MAX_ELEMENTS:
        yield f"it holds more than {MAX_ELEMENTS} names and lines"
    if not all(math.isfinite(number) and abs(number) <= MAX_NUMBER for number in _numbers(spec)):
        yield f"a number is not between -{MAX_NUMBER} and {MAX_NUMBER}"
    if spec.x.is_log and any(number <= 0 for number in _x_values(spec)):
        yield "a number on a logarithmic axis is not above 0"
    if any(mark.series is not None and not 0 <= mark.series < len(spec.series) for mark in spec.marks):
        yield "a line belongs to a series that does not exist"
    for grid in (spec.cells, spec.cell_labels):
        if spec.kind == "matrix" and [len(line) for line in grid] != [len(spec.columns)] * len(spec.categories):
            yield "it does not have one cell for each row and column"
    for series in spec.series:
        yield from _series_faults(spec, series)


def _series_faults(spec: FigureSpec, series: Series) -> Iterator[str]:
    is_binned = spec.kind in {"histogram", "timeline"}
    if len(series.x) != len(series.y) + is_binned:
        yield f"the numbers of values in x and y of the series {series.name!r} do not fit each other"
    if is_binned and len(spec.table.rows) != len(series.y):
        yield f"the table does not have one row for each bin of the series {series.name!r}"
    if any(len(ends) != len(series.x) for ends in _per_point(spec, series)):
        yield f"the series {series.name!r} does not have one interval or label for each point"
    if spec.kind in {"interval", "bars", "stacked"} and any(y not in range(len(spec.categories)) for y in series.y):
        yield f"the series {series.name!r} names a row that does not exist"
    if spec.kind == "scatter" and not series.x:
        yield f"the series {series.name!r} has no point"
    if (is_binned or spec.kind in {"curve", "scatter"}) and None in series.x:
        yield f"x of the series {series.name!r} lacks a value"
    elif (is_binned or spec.kind == "curve") and any(low > high for low, high in pairwise(_known(series.x))):
        yield f"x of the series {series.name!r} does not ascend"


def _per_point(spec: FigureSpec, series: Series) -> Sequence[Sequence[float | str | None]]:
    """Return the sequences of a series that must have an entry for each point."""
    match spec.kind:
        case "interval":
            return series.low, series.high
        case "scatter":
            return [entries for entries in (series.low, series.high, series.labels) if entries]
        case _:
            return ()


def _known(values: Sequence[float | None]) -> list[float]:
    return [value for value in values if value is not None]


def _labels(spec: FigureSpec) -> Iterator[str]:
    yield from (spec.title, spec.x.label, spec.y.label, *spec.categories, *spec.columns)
    yield from chain((series.name for series in spec.series), (mark.label for mark in spec.marks), *spec.cell_labels)
    yield from chain(*(series.labels for series in spec.series))


def _x_values(spec: FigureSpec) -> Iterator[float]:
    """Yield all numbers on the x axis."""
    bounds = (spec.x.low, spec.x.high)
    marks = (mark.at for mark in spec.marks if mark.axis == "x")
    numbers: Iterator[float | None] = chain(bounds, marks, *(line.x for line in spec.series))
    return (number for number in numbers if number is not None)


def _numbers(spec: FigureSpec) -> Iterator[float]:
    bounds = (spec.x.low, spec.x.high, spec.y.low, spec.y.high)
    series = (numbers for line in spec.series for numbers in (line.x, line.y, line.low, line.high))
    numbers: Iterator[float | None] = chain(bounds, (mark.at for mark in spec.marks), *series, *spec.cells)
    return (number for number in numbers if number is not None)
