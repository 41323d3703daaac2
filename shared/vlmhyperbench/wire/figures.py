"""Bodies of figures: as Plotly JSON, with their alternative text and the table of their numbers."""

from __future__ import annotations

from pydantic import JsonValue

from vlmhyperbench.wire.base import Output


class FigureSummary(Output):
    """A figure in a list."""

    name: str
    kind: str
    title: str
    alt: str
    """Alternative text: one or two sentences with the numbers of the figure."""
    note: str = ""
    """How to read the figure."""


class FigureNumbers(Output):
    """The numbers of a figure as a table."""

    columns: list[str]
    rows: list[list[str | float | int | None]]


class Figure(FigureSummary):
    """A figure that Plotly can draw: `Plotly.newPlot(element, plotly.data, plotly.layout, plotly.config)`."""

    table: FigureNumbers
    plotly: JsonValue


class Figures(Output):
    """The figures of a report or a comparison."""

    items: list[FigureSummary]
