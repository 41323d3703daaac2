"""The names of reference lines, and the legend in as many columns as fit the width of a figure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vlmhyperbench.analysis.figures import FigureSpec, Mark
from vlmhyperbench.reports.writers.plots.palette import LIGHT, series_colour

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_LEGEND_CHARACTERS, _HANDLE = 92, 9
"""Width of a figure in characters, and the part of it that the sign of a series takes."""
BEHIND = {"facecolor": LIGHT["paper"], "edgecolor": "none", "pad": 1.0}
"""Background of a name, so that no line goes through it."""


def draw_marks(axes: Axes, spec: FigureSpec) -> None:
    """Draw the reference lines; those of a single series are named."""
    for number, mark in enumerate(spec.marks):
        colour = LIGHT["muted"] if mark.series is None else series_colour(mark.series)
        if mark.axis == "y":
            axes.axhline(mark.at, color=colour, linewidth=1.3, linestyle=(0, (2, 2)), label=mark.label)
        elif mark.series is None or len(spec.series) == 1:
            axes.axvline(mark.at, color=colour, linewidth=1.1, linestyle=(0, (2, 2)))
        if mark.axis == "x" and mark.series is not None and len(spec.series) == 1:
            _name_mark(axes, mark, height=0.93 - 0.085 * number if spec.kind == "histogram" else 0.04)


def add_legend(axes: Axes, spec: FigureSpec) -> None:
    """Put the legend above the drawing, if there are several names."""
    columns, _ = legend_size(spec)
    if columns:
        axes.legend(loc="lower left", bbox_to_anchor=(-0.01, 1.0), ncols=columns, borderaxespad=0.2)


def legend_size(spec: FigureSpec) -> tuple[int, int]:
    """Return the number of columns that fit and the number of rows of the legend; (0, 0) if it is not needed."""
    names = [with_marks(spec, index) for index in range(len(spec.series))]
    names += [mark.label for mark in spec.marks if mark.axis == "y"]
    if len(names) < 2:
        return 0, 0
    for columns in (3, 2):
        used = min(columns, len(names))
        full_rows, longer = divmod(len(names), used)
        remaining, width = iter(names), 0
        for column in range(used):
            width += _HANDLE + max(len(next(remaining)) for _ in range(full_rows + (column < longer)))
        if width <= _LEGEND_CHARACTERS:
            return used, full_rows + (longer > 0)
    return 1, len(names)


def with_marks(spec: FigureSpec, index: int) -> str:
    """Return the name of a series with the labels of its marks."""
    return " · ".join([spec.series[index].name, *(mark.label for mark in spec.marks if mark.series == index)])


def _name_mark(axes: Axes, mark: Mark, *, height: float) -> None:
    """Write the name of a line next to it, on the side with room; `height` is a share of the axis."""
    from_left = axes.transAxes.inverted().transform(axes.transData.transform((mark.at, 0.0)))[0]
    is_right = from_left > 0.85
    axes.annotate(
        mark.label,
        (mark.at, height),
        xycoords=("data", "axes fraction"),
        xytext=(-4 if is_right else 4, 0),
        textcoords="offset points",
        ha="right" if is_right else "left",
        color=LIGHT["ink"],
        fontsize=9.5,
        bbox=BEHIND,
    )
