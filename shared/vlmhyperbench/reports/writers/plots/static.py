"""Draw a `FigureSpec` with matplotlib, without pyplot and without global state."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import TYPE_CHECKING

import matplotlib as mpl
import numpy
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator, NullLocator

from vlmhyperbench.analysis.figures import FigureSpec, Series
from vlmhyperbench.analysis.labels import short
from vlmhyperbench.reports.writers.plots.axes import begins_at_zero, log_axis
from vlmhyperbench.reports.writers.plots.legends import BEHIND, add_legend, draw_marks, legend_size, with_marks
from vlmhyperbench.reports.writers.plots.palette import LIGHT, MARKERS, MATRIX_SHADE, colour_of, series_colour

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WIDTH = 9.4
_LINES = ("-", (0, (5, 2)), (0, (5, 1.5, 1, 1.5)), (0, (1, 1.5)))
_STYLE = {
    "axes.axisbelow": True,
    "axes.edgecolor": LIGHT["muted"],
    "axes.facecolor": "none",
    "axes.grid": True,
    "axes.labelcolor": LIGHT["muted"],
    "axes.labelsize": 10,
    "axes.spines.left": False,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "figure.facecolor": "none",
    "font.family": "DejaVu Sans",
    "font.size": 10,
    "grid.color": LIGHT["grid"],
    "grid.linewidth": 0.8,
    "legend.fontsize": 10,
    "legend.frameon": False,
    "legend.labelcolor": LIGHT["ink"],
    "savefig.facecolor": "none",
    "svg.fonttype": "none",
    "text.color": LIGHT["ink"],
    "text.parse_math": False,
    "xtick.color": LIGHT["muted"],
    "ytick.color": LIGHT["muted"],
    "ytick.left": False,
}


def to_matplotlib(spec: FigureSpec) -> Figure:
    """Return a matplotlib figure of a spec; the title is left to the page around it."""
    with drawing_style():
        figure = Figure(figsize=(WIDTH, _height(spec)), layout="constrained")
        axes = figure.add_subplot()
        _DRAW[spec.kind](axes, spec)
        axes.set_xlabel(spec.x.label)
        axes.tick_params(length=3)
    return figure


@contextmanager
def drawing_style() -> Iterator[None]:
    """Apply the style while drawing and saving; characters that the font lacks are drawn in the reader's font."""
    with mpl.rc_context(_STYLE), warnings.catch_warnings():  # type: ignore[arg-type]  # matplotlib lists keys as literals
        warnings.filterwarnings("ignore", message=r"Glyph .* missing from font", category=UserWarning)
        yield


def _height(spec: FigureSpec) -> float:
    _, rows = legend_size(spec)
    legend = 0.15 + 0.22 * rows if rows else 0.0
    match spec.kind:
        case "interval":
            return 0.85 + legend + len(spec.categories) * max(0.34, 0.2 * len(spec.series))
        case "bars":
            return 0.85 + legend + len(spec.categories) * max(0.36, 0.22 * len(spec.series))
        case "stacked":
            return 0.85 + legend + 0.4 * len(spec.categories)
        case "scatter":
            return 4.1 + legend
        case "timeline":
            return 2.3 + legend
        case "matrix":
            return 1.0 + 0.42 * len(spec.categories)
        case _:
            return 3.1 + legend


def _draw_interval(axes: Axes, spec: FigureSpec) -> None:
    step = 0.62 / max(1, len(spec.series))
    for index, series in enumerate(spec.series):
        colour = colour_of(series, index)
        shift = (index - (len(spec.series) - 1) / 2) * step
        points = [
            (x, y + shift, low, high)
            for x, y, low, high in zip(series.x, series.y, series.low, series.high, strict=True)
            if x is not None
        ]
        for _, y, low, high in points:
            if low is not None and high is not None:
                axes.plot([low, high], [y, y], color=colour, linewidth=2.2, solid_capstyle="round", alpha=0.45)
        axes.plot(
            [point[0] for point in points],
            [point[1] for point in points],
            linestyle="none",
            marker=MARKERS[index % len(MARKERS)],
            markersize=6.5,
            color=colour,
            label=series.name,
        )
    _name_rows(axes, spec)
    axes.set_xlim(spec.x.low, spec.x.high)
    draw_marks(axes, spec)
    add_legend(axes, spec)


def _draw_curve(axes: Axes, spec: FigureSpec) -> None:
    for index, series in enumerate(spec.series):
        axes.step(
            [value for value in series.x if value is not None],
            series.y,
            where="post",
            color=colour_of(series, index),
            linewidth=2.0,
            linestyle=_LINES[index % len(_LINES)],
            label=with_marks(spec, index),
        )
    axes.set_ylim(0, 1.02)
    if not _scale(axes, spec) and begins_at_zero(spec):
        axes.set_xlim(left=0)
    axes.set_ylabel(spec.y.label)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.0%}"))
    draw_marks(axes, spec)
    add_legend(axes, spec)


def _draw_histogram(axes: Axes, spec: FigureSpec) -> None:
    for index, series in enumerate(spec.series):
        edges = [value for value in series.x if value is not None]
        colour = colour_of(series, index)
        if len(spec.series) == 1:
            axes.bar(
                edges[:-1], series.y, width=numpy.diff(edges) * 0.92, align="edge", color=colour, label=series.name
            )
        else:
            axes.stairs(series.y, edges, color=colour, fill=True, alpha=0.16)
            axes.stairs(
                series.y,
                edges,
                color=colour,
                linewidth=1.8,
                linestyle=_LINES[index % len(_LINES)],
                label=with_marks(spec, index),
            )
    highest = max((y for series in spec.series for y in series.y), default=0.0) or 1.0
    axes.set_ylabel(spec.y.label)
    axes.set_ylim(0, highest * (1.5 if spec.marks and len(spec.series) == 1 else 1.05))
    axes.yaxis.set_major_locator(MaxNLocator(5, integer=True))
    axes.grid(visible=False, axis="x")
    if not _scale(axes, spec) and all(edge is None or edge % 1 == 0.5 for series in spec.series for edge in series.x):
        axes.xaxis.set_major_locator(MaxNLocator(8, integer=True, min_n_ticks=1))  # bins of whole numbers
    draw_marks(axes, spec)
    add_legend(axes, spec)


def _draw_timeline(axes: Axes, spec: FigureSpec) -> None:
    for index, series in enumerate(spec.series):
        edges = [value for value in series.x if value is not None]
        colour = colour_of(series, index)
        if series.is_joined:
            axes.stairs(
                series.y,
                edges,
                color=colour,
                linewidth=1.8,
                linestyle=_LINES[index % len(_LINES)],
                label=series.name,
            )
            continue
        dots = [((low + high) / 2, y) for (low, high), y in zip(pairwise(edges), series.y, strict=True) if y]
        axes.plot(
            [x for x, _ in dots],
            [y for _, y in dots],
            linestyle="none",
            marker="x",
            markersize=6.5,
            markeredgewidth=1.8,
            color=colour,
            label=series.name,
        )
    axes.set_ylabel(spec.y.label)
    axes.set_xlim(spec.x.low, spec.x.high)
    axes.set_ylim(bottom=0)
    axes.yaxis.set_major_locator(MaxNLocator(4, steps=[1, 2, 5, 10]))
    draw_marks(axes, spec)
    add_legend(axes, spec)


def _scale(axes: Axes, spec: FigureSpec) -> bool:
    """Make the x axis logarithmic if the figure has such an axis, and return whether it has."""
    axis = log_axis(spec)
    if axis is None:
        return False
    axes.set_xscale("log")
    axes.set_xlim(axis.low, axis.high)
    axes.xaxis.set_major_locator(FixedLocator(list(axis.ticks)))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: short(value)))
    return True


def _draw_bars(axes: Axes, spec: FigureSpec) -> None:
    thick = 0.68 / max(1, len(spec.series))
    longest = max((value for series in spec.series for value in series.x if value is not None), default=1.0) or 1.0
    for index, series in enumerate(spec.series):
        shift = (index - (len(spec.series) - 1) / 2) * thick
        lengths = [value or 0.0 for value in series.x]
        axes.barh(
            [y + shift for y in series.y],
            lengths,
            height=thick * 0.9,
            color=colour_of(series, index),
            label=series.name,
        )
        for y, length in zip(series.y, lengths, strict=True):
            axes.text(length + longest * 0.01, y + shift, short(length), va="center", fontsize=9, color=LIGHT["ink"])
    _name_rows(axes, spec)
    axes.set_xlim(0, longest * 1.1)
    axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
    add_legend(axes, spec)


def _draw_stacked(axes: Axes, spec: FigureSpec) -> None:
    ends = [0.0] * len(spec.categories)
    longest = max((sum(series.x[i] or 0.0 for series in spec.series) for i in range(len(ends))), default=0.0) or 1.0
    for index, series in enumerate(spec.series):
        lengths = [value or 0.0 for value in series.x]
        axes.barh(series.y, lengths, left=ends, height=0.62, color=colour_of(series, index), label=series.name)
        for y, length, end in zip(series.y, lengths, ends, strict=True):
            if length > 0.05 * longest:
                axes.text(
                    end + length / 2, y, short(length), ha="center", va="center", fontsize=9, color=LIGHT["paper"]
                )
        ends = [end + length for end, length in zip(ends, lengths, strict=True)]
    _name_rows(axes, spec)
    axes.set_xlim(0, longest * 1.02)
    axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
    add_legend(axes, spec)


def _draw_scatter(axes: Axes, spec: FigureSpec) -> None:
    for index, series in enumerate(spec.series):
        colour = colour_of(series, index)
        points = [x for x in series.x if x is not None]
        for x, low, high in zip(points, series.low, series.high, strict=False):
            if low is not None and high is not None:
                axes.plot([x, x], [low, high], color=colour, linewidth=2.0, solid_capstyle="round", alpha=0.4)
        axes.plot(
            points,
            series.y,
            linestyle="-" if series.is_joined else "none",
            linewidth=1.4,
            marker=MARKERS[index % len(MARKERS)],
            markersize=7,
            color=colour,
            label=series.name,
            zorder=2.1 if series.tone is None else 2.0,
        )
    axes.set_xlim(spec.x.low, spec.x.high)
    axes.margins(x=0.08, y=0.14)
    if spec.y.low is not None:
        highest = max((y for series in spec.series for y in series.y), default=0.0) or 1.0
        marked = max((mark.at for mark in spec.marks if mark.axis == "y"), default=0.0)
        axes.set_ylim(spec.y.low, spec.y.low + 1.18 * (max(highest, marked) - spec.y.low))
    axes.set_ylabel(spec.y.label)
    for series in spec.series:
        _name_points(axes, series)
    draw_marks(axes, spec)
    add_legend(axes, spec)


def _name_points(axes: Axes, series: Series) -> None:
    left, right = axes.get_xlim()
    points = [x for x in series.x if x is not None]
    # The name of a point is on the side to which the line does not go.
    is_below = series.is_joined and series.y[-1:] > series.y[:1]
    for x, y, label in zip(points, series.y, series.labels, strict=False):
        is_right = x > left + 0.66 * (right - left)
        axes.annotate(
            label,
            (x, y),
            xytext=(-8 if is_right else 8, -14 if is_below else 7),
            textcoords="offset points",
            ha="right" if is_right else "left",
            fontsize=9.5,
            color=LIGHT["ink"],
            bbox=BEHIND,
        )


def _draw_matrix(axes: Axes, spec: FigureSpec) -> None:
    axes.grid(visible=False)
    for row, line in enumerate(spec.cells):
        for column, shade in enumerate(line):
            if shade is None:
                continue
            axes.add_patch(
                mpl.patches.Rectangle(
                    (column - 0.485, row - 0.46),
                    0.97,
                    0.92,
                    facecolor=series_colour(0),
                    alpha=0.05 + (MATRIX_SHADE - 0.05) * min(1.0, max(0.0, shade)),
                    linewidth=0,
                )
            )
            axes.text(column, row, spec.cell_labels[row][column], ha="center", va="center", fontsize=9.5)
    axes.set_xlim(-0.5, max(0.5, len(spec.columns) - 0.5))
    axes.set_xticks(range(len(spec.columns)), spec.columns, rotation=30 if len(spec.columns) > 7 else 0)
    for label in axes.get_xticklabels():
        label.set_horizontalalignment("right" if len(spec.columns) > 7 else "center")
    axes.xaxis.set_ticks_position("bottom")
    axes.spines["bottom"].set_visible(False)
    _name_rows(axes, spec)
    axes.set_ylabel(spec.y.label)


def _name_rows(axes: Axes, spec: FigureSpec) -> None:
    axes.set_yticks(range(len(spec.categories)), spec.categories)
    axes.tick_params(axis="y", labelcolor=LIGHT["ink"], labelsize=10)
    axes.set_ylim(max(1, len(spec.categories)) - 0.5, -0.5)
    axes.grid(visible=False, axis="y")


_DRAW: dict[str, Callable[[Axes, FigureSpec], None]] = {
    "interval": _draw_interval,
    "curve": _draw_curve,
    "histogram": _draw_histogram,
    "timeline": _draw_timeline,
    "bars": _draw_bars,
    "stacked": _draw_stacked,
    "scatter": _draw_scatter,
    "matrix": _draw_matrix,
}
