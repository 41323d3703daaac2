"""Draw a `FigureSpec` as a Plotly figure: plain JSON, so that nothing of Plotly is needed to make it."""

from __future__ import annotations

from itertools import pairwise

from vlmhyperbench.analysis.figures import FigureSpec, Series
from vlmhyperbench.reports.plots.palette import DASHES, LIGHT, MATRIX_SHADE, series_colour
from vlmhyperbench_sdk.types import JsonObject, JsonValue

_SYMBOLS = ("circle", "square", "diamond", "triangle-up", "triangle-down", "cross")
CONFIG: JsonObject = {
    "displaylogo": False,
    "plotlyServerURL": "",
    "responsive": True,
    "showSendToCloud": False,
}
"""Nothing in a figure offers to upload it."""


def to_plotly(spec: FigureSpec) -> dict[str, JsonValue]:
    """Return `{data, layout, config}` for `Plotly.newPlot`; labels are plain text, never markup."""
    layout: dict[str, JsonValue] = {
        "title": {"text": _plain(spec.title), "x": 0, "xanchor": "left"},
        "font": {"family": "system-ui, sans-serif", "color": LIGHT["ink"]},
        "margin": {"l": 60, "r": 20, "t": 50, "b": 50},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "showlegend": len(spec.series) > 1,
        "hovermode": "closest",
        "xaxis": {"title": {"text": _plain(spec.x.label)}, "gridcolor": LIGHT["grid"], "automargin": True},
        "yaxis": {"title": {"text": _plain(spec.y.label)}, "gridcolor": LIGHT["grid"], "automargin": True},
        "shapes": [_line(mark.axis, mark.at) for mark in spec.marks],
        "meta": {"alt": spec.alt, "name": spec.name, "note": spec.note},
    }
    return {"data": _traces(spec, layout), "layout": layout, "config": dict(CONFIG)}


def _traces(spec: FigureSpec, layout: dict[str, JsonValue]) -> list[JsonValue]:
    match spec.kind:
        case "interval":
            _name_rows(spec, layout, grouped=True)
            return [_interval(spec, series, index) for index, series in enumerate(spec.series)]
        case "curve":
            _axis(layout, "yaxis")["tickformat"] = ".0%"
            return [_curve(series, index) for index, series in enumerate(spec.series)]
        case "histogram":
            layout["barmode"] = "overlay"
            return [_histogram(series, index, len(spec.series)) for index, series in enumerate(spec.series)]
        case "bars":
            _name_rows(spec, layout, grouped=False)
            return [_bars(spec, series, index) for index, series in enumerate(spec.series)]
        case _:
            _name_rows(spec, layout, grouped=False)
            return [_matrix(spec)]


def _interval(spec: FigureSpec, series: Series, index: int) -> JsonValue:
    known = [i for i, x in enumerate(series.x) if x is not None]
    shift = (index - (len(spec.series) - 1) / 2) * 0.62 / len(spec.series)
    ends = [(series.x[i], series.low[i], series.high[i]) for i in known]
    return {
        "type": "scatter",
        "mode": "markers",
        "name": _plain(series.name),
        "x": [series.x[i] for i in known],
        "y": [series.y[i] + shift for i in known],
        "text": [_plain(spec.categories[int(series.y[i])]) for i in known],
        "hovertemplate": "%{text}: %{x:.4~g}<extra>%{fullData.name}</extra>",
        "marker": {"color": series_colour(index), "size": 9, "symbol": _SYMBOLS[index % len(_SYMBOLS)]},
        "error_x": {
            "type": "data",
            "symmetric": False,
            "color": series_colour(index),
            "array": [0.0 if high is None or x is None else high - x for x, _, high in ends],
            "arrayminus": [0.0 if low is None or x is None else x - low for x, low, _ in ends],
        },
    }


def _curve(series: Series, index: int) -> JsonValue:
    return {
        "type": "scatter",
        "mode": "lines",
        "name": _plain(series.name),
        "x": list(series.x),
        "y": list(series.y),
        "line": {"shape": "hv", "color": series_colour(index), "dash": DASHES[index % len(DASHES)], "width": 2},
    }


def _histogram(series: Series, index: int, count: int) -> JsonValue:
    edges = [edge for edge in series.x if edge is not None]
    return {
        "type": "bar",
        "name": _plain(series.name),
        "x": [(low + high) / 2 for low, high in pairwise(edges)],
        "width": [high - low for low, high in pairwise(edges)],
        "y": list(series.y),
        "opacity": 1.0 if count == 1 else 0.6,
        "marker": {"color": series_colour(index)},
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
        "hovertemplate": "%{text}: %{x}<extra>%{fullData.name}</extra>",
        "marker": {"color": series_colour(index)},
    }


def _matrix(spec: FigureSpec) -> JsonValue:
    return {
        "type": "heatmap",
        "x": [_plain(column) for column in spec.columns],
        "y": list(range(len(spec.categories))),
        "z": [list(line) for line in spec.cells],
        "text": [[_plain(label) for label in line] for line in spec.cell_labels],
        "texttemplate": "%{text}",
        "zmin": 0,
        "zmax": 1,
        "showscale": False,
        "colorscale": [[0, "rgba(36,98,194,0.05)"], [1, f"rgba(36,98,194,{MATRIX_SHADE})"]],
        "xgap": 3,
        "ygap": 3,
    }


def _name_rows(spec: FigureSpec, layout: dict[str, JsonValue], *, grouped: bool) -> None:
    axis = _axis(layout, "yaxis")
    axis["tickvals"] = list(range(len(spec.categories)))
    axis["ticktext"] = [_plain(category) for category in spec.categories]
    axis["range"] = [len(spec.categories) - 0.5, -0.5]
    axis["showgrid"] = False
    if grouped and spec.x.low is not None and spec.x.high is not None:
        _axis(layout, "xaxis")["range"] = [spec.x.low, spec.x.high]


def _axis(layout: dict[str, JsonValue], name: str) -> dict[str, JsonValue]:
    axis = layout[name]
    assert isinstance(axis, dict)  # noqa: S101 -- made above; narrows the type
    return axis


def _line(axis: str, at: float) -> JsonValue:
    along, across = ("x", "y") if axis == "x" else ("y", "x")
    return {
        "type": "line",
        f"{along}0": at,
        f"{along}1": at,
        f"{across}0": 0,
        f"{across}1": 1,
        f"{across}ref": "paper",
        "line": {"color": LIGHT["muted"], "width": 1, "dash": "dot"},
    }


def _plain(text: str) -> str:
    """Escape what Plotly would read as its small HTML."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
