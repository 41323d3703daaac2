"""Draw a `FigureSpec` as a Plotly figure in plain JSON, for which Plotly itself is not needed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import cast

from vlmhyperbench.analysis.figures import FigureSpec, Mark, Series
from vlmhyperbench.analysis.labels import short
from vlmhyperbench.reports.writers.plots.axes import begins_at_zero, log_axis
from vlmhyperbench.reports.writers.plots.palette import DASHES, LIGHT, MATRIX_SHADE, colour_of, rgb, series_colour
from vlmhyperbench_sdk.types import JsonObject, JsonValue

_SYMBOLS = ("circle", "square", "diamond", "triangle-up", "triangle-down", "cross")
CONFIG: JsonObject = {
    "displaylogo": False,
    "modeBarButtonsToRemove": ["select2d", "lasso2d", "toImage"],
    "plotlyServerURL": "",
    "responsive": True,
    "scrollZoom": True,
    "showSendToCloud": False,
}
"""No button uploads a figure or makes a picture of it: the report has the SVG file."""


def to_plotly(spec: FigureSpec) -> dict[str, JsonValue]:
    """Return `{data, layout, config}` for `Plotly.newPlot`; labels are plain text, never markup."""
    drawn = [mark for mark in spec.marks if mark.series is None or len(spec.series) == 1]
    layout: dict[str, JsonValue] = {
        "title": {"text": _plain(spec.title), "x": 0, "xanchor": "left"},
        "font": {"family": "system-ui, sans-serif", "color": LIGHT["ink"]},
        "margin": {"l": 60, "r": 20, "t": 50, "b": 50},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "showlegend": len(spec.series) > 1,
        "legend": {
            "orientation": "h",
            "traceorder": "normal",
            "x": 0,
            "xanchor": "left",
            "y": 1.02,
            "yanchor": "bottom",
        },
        "hovermode": "closest",
        "hoverlabel": {
            "align": "left",
            "bgcolor": LIGHT["paper"],
            "bordercolor": LIGHT["muted"],
            "font": {"color": LIGHT["ink"]},
        },
        "modebar": {"bgcolor": "rgba(0,0,0,0)", "color": LIGHT["muted"], "activecolor": LIGHT["ink"]},
        "xaxis": _axis_of(spec.x.label),
        "yaxis": _axis_of(spec.y.label),
        "shapes": [_line(mark) for mark in drawn],
        "annotations": [_label(spec, mark, number) for number, mark in enumerate(drawn)],
        "meta": {"alt": spec.alt, "kind": spec.kind, "name": spec.name, "note": spec.note, "unit": spec.x.unit},
    }
    return {"data": _traces(spec, layout), "layout": layout, "config": dict(CONFIG)}


def _traces(spec: FigureSpec, layout: dict[str, JsonValue]) -> list[JsonValue]:
    match spec.kind:
        case "interval":
            _name_rows(spec, layout)
            if spec.x.low is not None and spec.x.high is not None:
                _axis(layout, "xaxis")["range"] = [spec.x.low, spec.x.high]
            return [_interval(spec, series, index) for index, series in enumerate(spec.series)]
        case "curve":
            _axis(layout, "xaxis").update(_scale(spec))
            _axis(layout, "yaxis").update(tickformat=".0%", range=[0, 1.02])
            return [_curve(spec, series, index) for index, series in enumerate(spec.series)]
        case "histogram":
            layout["barmode"] = "overlay"
            if spec.x.is_log:
                _axis(layout, "xaxis").update(_scale(spec))
            return [_histogram(spec, series, index) for index, series in enumerate(spec.series)]
        case "timeline":
            _axis(layout, "yaxis")["rangemode"] = "tozero"
            return [_steps(spec, series, index) for index, series in enumerate(spec.series)]
        case "bars":
            _name_rows(spec, layout)
            return [_bars(spec, series, index) for index, series in enumerate(spec.series)]
        case "stacked":
            _name_rows(spec, layout)
            layout["barmode"] = "stack"
            return [_bars(spec, series, index) for index, series in enumerate(spec.series)]
        case "scatter":
            _axis(layout, "xaxis")["range"] = [spec.x.low, spec.x.high]
            if spec.y.low is not None:
                _axis(layout, "yaxis")["rangemode"] = "tozero"
            return [_scatter(spec, series, index) for index, series in enumerate(spec.series)]
        case _:
            _name_rows(spec, layout)
            _axis(layout, "xaxis").update(type="category", showgrid=False)
            return [_matrix(spec)]


def _interval(spec: FigureSpec, series: Series, index: int) -> JsonValue:
    known = [
        (x, y, low, high)
        for x, y, low, high in zip(series.x, series.y, series.low, series.high, strict=True)
        if x is not None
    ]
    shift = (index - (len(spec.series) - 1) / 2) * 0.62 / len(spec.series)
    return {
        "type": "scatter",
        "mode": "markers",
        "name": _plain(series.name),
        "x": [x for x, _, _, _ in known],
        "y": [y + shift for _, y, _, _ in known],
        "text": [
            f"{_plain(spec.categories[int(y)])}: {short(x)}"
            + (f" ({short(low)} to {short(high)})" if low is not None and high is not None else "")
            for x, y, low, high in known
        ],
        "hovertemplate": _hover(spec, "%{text}"),
        "marker": {"color": colour_of(series, index), "size": 9, "symbol": _SYMBOLS[index % len(_SYMBOLS)]},
        "error_x": _error_bars(colour_of(series, index), [(x, low, high) for x, _, low, high in known]),
    }


def _error_bars(colour: str, intervals: Sequence[tuple[float, float | None, float | None]]) -> JsonValue:
    return {
        "type": "data",
        "symmetric": False,
        "color": colour,
        "array": [0.0 if high is None else high - value for value, _, high in intervals],
        "arrayminus": [0.0 if low is None else value - low for value, low, _ in intervals],
    }


def _curve(spec: FigureSpec, series: Series, index: int) -> JsonValue:
    return {
        "type": "scatter",
        "mode": "lines",
        "name": _plain(series.name),
        "x": list(series.x),
        "y": list(series.y),
        "hovertemplate": _hover(spec, f"%{{y:.1%}} within %{{x:.4~g}} {_plain(spec.x.unit)}"),
        "line": {"shape": "hv", "color": colour_of(series, index), "dash": DASHES[index % len(DASHES)], "width": 2},
    }


def _scale(spec: FigureSpec) -> dict[str, JsonValue]:
    """Return settings of the x axis: from 0, or logarithmic with round ticks and the logarithms of its ends."""
    axis = log_axis(spec)
    if axis is None:
        return {"rangemode": "tozero"} if begins_at_zero(spec) else {}
    return {
        "type": "log",
        "range": [math.log10(axis.low), math.log10(axis.high)],
        "tickvals": list(axis.ticks),
        "ticktext": [short(tick) for tick in axis.ticks],
    }


def _steps(spec: FigureSpec, series: Series, index: int) -> JsonValue:
    """Return a line of steps, or dots in the middle of the bins that are not 0."""
    edges = [edge for edge in series.x if edge is not None]
    colour = colour_of(series, index)
    if series.is_joined:
        points, heights = edges, [*series.y, *series.y[-1:]]
    else:
        dots = [((low + high) / 2, y) for (low, high), y in zip(pairwise(edges), series.y, strict=True) if y]
        points, heights = [x for x, _ in dots], [y for _, y in dots]
    return {
        "type": "scatter",
        "mode": "lines" if series.is_joined else "markers",
        "name": _plain(series.name),
        "x": points,
        "y": heights,
        "hovertemplate": _hover(spec, f"%{{y:.4~g}} at %{{x:.4~g}} {_plain(spec.x.unit)}"),
        "line": {"shape": "hv", "color": colour, "dash": DASHES[index % len(DASHES)], "width": 2},
        "marker": {"color": colour, "size": 9, "symbol": "x"},
    }


def _histogram(spec: FigureSpec, series: Series, index: int) -> JsonValue:
    edges = [edge for edge in series.x if edge is not None]
    return {
        "type": "bar",
        "name": _plain(series.name),
        "x": [(low + high) / 2 for low, high in pairwise(edges)],
        "width": [high - low for low, high in pairwise(edges)],
        "y": list(series.y),
        "text": [_plain(f"{row[0]} {spec.x.unit}") for row in spec.table.rows],
        "textposition": "none",
        "hovertemplate": _hover(spec, "%{text}: %{y}"),
        "opacity": 1.0 if len(spec.series) == 1 else 0.6,
        "marker": {"color": colour_of(series, index), "line": {"color": LIGHT["paper"], "width": 1}},
    }


def _bars(spec: FigureSpec, series: Series, index: int) -> JsonValue:
    return {
        "type": "bar",
        "orientation": "h",
        "name": _plain(series.name),
        "x": list(series.x),
        "y": list(series.y),
        "text": [_plain(spec.categories[int(y)]) for y in series.y],
        "textposition": "none",
        "hovertemplate": _hover(spec, "%{text}: %{x}"),
        "marker": {"color": colour_of(series, index)},
    }


def _scatter(spec: FigureSpec, series: Series, index: int) -> JsonValue:
    colour = colour_of(series, index)
    points = [x for x in series.x if x is not None]
    all_points = [x for series in spec.series for x in series.x if x is not None]
    two_thirds = min(all_points) + 0.66 * (max(all_points) - min(all_points))
    # The name of a point is on the side to which the line does not go.
    side = "bottom" if series.is_joined and series.y[-1] > series.y[0] else "top"
    return {
        "type": "scatter",
        "mode": "lines+markers+text" if series.is_joined else "markers+text",
        "name": _plain(series.name),
        "x": points,
        "y": list(series.y),
        "text": [_plain(label) for label in series.labels],
        "textposition": [f"{side} {'left' if x > two_thirds else 'right'}" for x in points],
        "hovertemplate": "%{text}<br>%{x:.4~g}, %{y:.4~g}<extra></extra>",
        "cliponaxis": False,
        "line": {"color": colour, "width": 1.5},
        "marker": {"color": colour, "size": 10, "symbol": _SYMBOLS[index % len(_SYMBOLS)]},
        "error_y": _error_bars(colour, list(zip(series.y, series.low, series.high, strict=False))),
    }


def _matrix(spec: FigureSpec) -> JsonValue:
    rows, columns = [_plain(name) for name in spec.categories], [_plain(name) for name in spec.columns]
    labels = [[_plain(label) for label in line] for line in spec.cell_labels]
    return {
        "type": "heatmap",
        "x": columns,
        "y": list(range(len(rows))),
        "z": [list(line) for line in spec.cells],
        "text": labels,
        "texttemplate": "%{text}",
        "textfont": {"color": LIGHT["ink"]},
        "hovertext": [
            [f"{row}, {column}: {label or 'none'}" for column, label in zip(columns, line, strict=True)]
            for row, line in zip(rows, labels, strict=True)
        ],
        "hoverinfo": "text",
        "hoverongaps": False,
        "zmin": 0,
        "zmax": 1,
        "showscale": False,
        "colorscale": [[0, _shade(0.05)], [1, _shade(MATRIX_SHADE)]],
        "xgap": 3,
        "ygap": 3,
    }


def _shade(opacity: float) -> str:
    return f"rgba({rgb(series_colour(0))},{opacity})"


def _name_rows(spec: FigureSpec, layout: dict[str, JsonValue]) -> None:
    _axis(layout, "yaxis").update(
        tickvals=list(range(len(spec.categories))),
        ticktext=[_plain(category) for category in spec.categories],
        range=[len(spec.categories) - 0.5, -0.5],
        showgrid=False,
    )


def _hover(spec: FigureSpec, text: str) -> str:
    """Return the text of a tooltip, with the name of the series if there are several."""
    return f"{'%{fullData.name}<br>' if len(spec.series) > 1 else ''}{text}<extra></extra>"


def _axis_of(title: str) -> JsonValue:
    return {
        "title": {"text": _plain(title), "standoff": 12},
        "gridcolor": LIGHT["grid"],
        "zeroline": False,
        "automargin": True,
    }


def _axis(layout: dict[str, JsonValue], name: str) -> dict[str, JsonValue]:
    return cast("dict[str, JsonValue]", layout[name])  # `to_plotly` makes both axes


def _line(mark: Mark) -> JsonValue:
    along, across = ("x", "y") if mark.axis == "x" else ("y", "x")
    colour = LIGHT["muted"] if mark.series is None else series_colour(mark.series)
    return {
        "type": "line",
        f"{along}0": mark.at,
        f"{along}1": mark.at,
        f"{across}0": 0,
        f"{across}1": 1,
        f"{across}ref": "paper",
        "line": {"color": colour, "width": 1, "dash": "dot"},
    }


def _label(spec: FigureSpec, mark: Mark, number: int) -> JsonValue:
    along, across = ("x", "y") if mark.axis == "x" else ("y", "x")
    return {
        # On a logarithmic axis, Plotly wants logarithms for annotations, but not for shapes and points.
        along: math.log10(mark.at) if mark.axis == "x" and spec.x.is_log else mark.at,
        across: 0.02 if spec.kind == "curve" else 1 - 0.07 * number * (spec.kind == "histogram"),
        f"{across}ref": "paper",
        "text": _plain(mark.label),
        "showarrow": False,
        "xanchor": "left" if mark.axis == "x" else "right",
        "yanchor": "top" if mark.axis == "x" and spec.kind != "curve" else "bottom",
        "bgcolor": LIGHT["paper"],
        "font": {"color": LIGHT["muted"]},
    }


def _plain(text: str) -> str:
    """Escape the characters that Plotly would read as HTML."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
