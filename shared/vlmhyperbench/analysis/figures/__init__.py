"""Figures as values, and the functions that make them from numbers."""

from __future__ import annotations

from vlmhyperbench.analysis.figures.counts import bars_figure, stacked_figure
from vlmhyperbench.analysis.figures.distributions import cdf_figure, histogram_figure, log_histogram_figure
from vlmhyperbench.analysis.figures.intervals import Point, interval_figure
from vlmhyperbench.analysis.figures.loads import Load, load_figure
from vlmhyperbench.analysis.figures.matrices import matrix_figure
from vlmhyperbench.analysis.figures.scatters import Spot, front_figure
from vlmhyperbench.analysis.figures.spec import Axis, FigureKind, FigureSpec, FigureTable, Mark, Series, SeriesTone
from vlmhyperbench.analysis.figures.timelines import timeline_figure

__all__ = [
    "Axis",
    "FigureKind",
    "FigureSpec",
    "FigureTable",
    "Load",
    "Mark",
    "Point",
    "Series",
    "SeriesTone",
    "Spot",
    "bars_figure",
    "cdf_figure",
    "front_figure",
    "histogram_figure",
    "interval_figure",
    "load_figure",
    "log_histogram_figure",
    "matrix_figure",
    "stacked_figure",
    "timeline_figure",
]
