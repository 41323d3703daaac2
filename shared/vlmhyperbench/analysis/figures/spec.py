"""A figure as a value: what a chart says, with its alternative text and its data table, before anybody draws it.

Renderers are `vlmhyperbench.reports.plots.to_plotly` and `to_matplotlib`; both draw any `FigureSpec`. Every string here
may come from a data set or a model, so labels are cleaned and cut when a figure is made.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Cell = str | float | int | None
FigureKind = Literal["interval", "curve", "histogram", "bars", "matrix"]


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
