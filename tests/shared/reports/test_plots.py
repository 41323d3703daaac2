"""Both renderers draw every figure; SVGs are deterministic, themed and free of markup from labels."""

from __future__ import annotations

from xml.etree import ElementTree

import plotly.graph_objects as go
import pytest

from vlmhyperbench.analysis.figures import (
    Axis,
    FigureSpec,
    Load,
    Point,
    Spot,
    bars_figure,
    cdf_figure,
    front_figure,
    histogram_figure,
    interval_figure,
    load_figure,
    log_histogram_figure,
    matrix_figure,
    stacked_figure,
    timeline_figure,
)
from vlmhyperbench.reports.writers.plots import to_matplotlib, to_plotly, to_svg
from vlmhyperbench.reports.writers.plots.palette import DARK, LIGHT

HOSTILE = "<b>$x$</b> & 一"
POINTS = [
    Point(label=HOSTILE, value=0.5, low=0.4, high=0.6, n=3),
    Point(label="b", value=None),
    Point(label="c", value=0.9, n=2),
]
TIMES = {"one": [float(i) for i in range(30)], "two": [float(i) * 2 for i in range(30)]}
AXIS = Axis(title="latency", unit="ms")
SPOTS = [
    Spot(label=HOSTILE, x=10.0, y=0.5, low=0.4, high=0.6, is_front=True),
    Spot(label="b", x=30.0, y=0.9, low=0.8, is_front=True),
    Spot(label="c", x=29.0, y=0.4, is_front=False),
]
LOADS = [
    Load(group=HOSTILE, label="one", rate_per_s=5.0, value=20.0, goodput_per_s=4.0),
    Load(group=HOSTILE, label="two", rate_per_s=9.0, value=50.0, goodput_per_s=2.0),
    Load(group="other", label=HOSTILE, rate_per_s=7.0, value=30.0),
]

FIGURES = [
    interval_figure("interval", "I", axis=AXIS, groups="g", series={"one": POINTS}),
    interval_figure("deltas", "D", axis=AXIS, groups="g", series={"one": POINTS, "two": POINTS}, zero_line="none"),
    interval_figure("nothing", "N", axis=AXIS, groups="g", series={"one": POINTS[1:2]}),
    cdf_figure("cdf", "C", axis=AXIS, series={HOSTILE: TIMES["one"]}),
    cdf_figure("cdf-of-two", "C", axis=AXIS, series=TIMES),
    histogram_figure("histogram", "H", axis=AXIS, series={"one": TIMES["one"]}),
    histogram_figure("histogram-of-two", "H", axis=AXIS, series=TIMES),
    histogram_figure("histogram-of-none", "H", axis=AXIS, series={}),
    cdf_figure("wide-cdf", "C", axis=AXIS, series={HOSTILE: [1.0, 10.0, 1000.0], "two": [5.0]}),
    log_histogram_figure("logarithmic", "H", axis=AXIS, series={"one": [1.0, 10.0, 10.5, 1000.0]}),
    log_histogram_figure("logarithmic-of-two", "H", axis=AXIS, series={HOSTILE: [1.0, 10.0], "two": [5.0, 5.0]}),
    timeline_figure(
        "timeline",
        "T",
        y=Axis(title="requests", unit="1/s"),
        edges_s=[0.0, 0.5, 1.0],
        series={HOSTILE: [3.0, 4.0], "failed": [0.0, 1.0]},
        dotted=["failed"],
    ),
    load_figure("load", "L", y=AXIS, loads=LOADS, limits={"SLO, p99": 40.0}),
    load_figure("load-of-one", "L", y=AXIS, loads=LOADS[:1]),
    bars_figure("bars", "B", axis=AXIS, groups="kind", series={"one": {HOSTILE: 3, "b": 0}}),
    bars_figure("no-bars", "B", axis=AXIS, groups="kind", series={}),
    matrix_figure(
        "matrix", "M", rows=("r", ["a", HOSTILE]), columns=("c", ["x", "y"]), cells={("a", "x"): (0.3, HOSTILE)}
    ),
    histogram_figure("whole", "H", axis=AXIS, series={"one": [1.0, 2.0, 2.0]}, is_whole=True),
    stacked_figure(
        "stacked",
        "S",
        axis=AXIS,
        groups="metric",
        parts=[("better", "good"), ("same", "neutral"), ("worse", "bad")],
        rows={HOSTILE: (5, 90, 2), "b": (0, 0, 0)},
    ),
    stacked_figure("no-stack", "S", axis=AXIS, groups="metric", parts=[("better", "good")], rows={}),
    front_figure("front", "F", x=AXIS, y=Axis(title="quality"), spots=SPOTS, front="best", rest="beaten"),
    front_figure("no-front", "F", x=AXIS, y=AXIS, spots=[], front="best", rest="beaten"),
    matrix_figure(
        "wide", "W", rows=("r", ["a"]), columns=("c", [str(i) for i in range(9)]), cells={("a", "0"): (2.0, "2")}
    ),
]

every_figure = pytest.mark.parametrize("figure", FIGURES, ids=lambda figure: figure.name)


@every_figure
def test_plotly_accepts_the_figure_and_nothing_in_it_offers_an_upload(figure: FigureSpec) -> None:
    drawn = to_plotly(figure)
    assert go.Figure({"data": drawn["data"], "layout": drawn["layout"]}).layout.meta["alt"] == figure.alt
    config = drawn["config"]
    assert isinstance(config, dict)
    assert (config["showSendToCloud"], config["plotlyServerURL"]) == (False, "")
    assert "<b>" not in str(drawn["data"])


def test_names_of_columns_that_look_like_dates_stay_names_in_plotly() -> None:
    figure = matrix_figure("m", "M", rows=("r", ["a"]), columns=("c", ["2024"]), cells={("a", "2024"): (0.5, "7")})
    drawn = to_plotly(figure)
    assert drawn["layout"]["xaxis"]["type"] == "category"
    assert drawn["data"][0]["hovertext"] == [["a, 2024: 7"]]


def test_a_hovered_bin_is_named_as_in_the_table() -> None:
    figure = histogram_figure("h", "H", axis=AXIS, series={"one": [1230.0, 1231.0, 1231.0]}, is_whole=True)
    assert to_plotly(figure)["data"][0]["text"] == ["1230 ms", "1231 ms"]


def test_a_series_with_a_tone_has_its_colour_in_both_renderers() -> None:
    figure = next(figure for figure in FIGURES if figure.name == "stacked")
    colours = [LIGHT["s3"], LIGHT["s6"], LIGHT["s5"]]
    assert [trace["marker"]["color"] for trace in to_plotly(figure)["data"]] == colours
    assert to_plotly(figure)["layout"]["barmode"] == "stack"
    assert all(f"fig-fill-{name}" in to_svg(figure).inline for name in ("s3", "s6", "s5"))


def test_the_tooltip_of_an_interval_has_its_ends_and_its_series_if_there_are_several() -> None:
    first, second = to_plotly(FIGURES[0])["data"][0], to_plotly(FIGURES[1])["data"][0]
    assert first["text"] == ["&lt;b&gt;$x$&lt;/b&gt; &amp; 一: 0.5 (0.4 to 0.6)", "c: 0.9"]
    assert first["hovertemplate"] == "%{text}<extra></extra>"
    assert second["hovertemplate"] == "%{fullData.name}<br>%{text}<extra></extra>"


@every_figure
def test_matplotlib_draws_the_figure_with_its_axis_named(figure: FigureSpec) -> None:
    assert to_matplotlib(figure).axes[0].get_xlabel() == figure.x.label


@every_figure
def test_the_same_figure_gives_the_same_svg_with_a_description(figure: FigureSpec) -> None:
    drawing = to_svg(figure)
    assert drawing == to_svg(figure)
    for text in (drawing.inline, drawing.file.decode()):
        root = ElementTree.fromstring(text)
        assert root.attrib["role"] == "img"
        assert [child.text for child in list(root)[:2]] == [figure.title, figure.alt]


@every_figure
def test_an_inline_svg_has_no_style_no_fixed_colour_and_ids_of_its_own(figure: FigureSpec) -> None:
    root = ElementTree.fromstring(to_svg(figure).inline)
    for element in root.iter():
        assert not element.tag.endswith("}style")
        assert "style" not in element.attrib
        assert element.attrib.get("id", figure.name).startswith(figure.name)
        assert not set(element.attrib.values()) & set(LIGHT.values())


def test_labels_that_look_like_markup_are_text_in_the_svg() -> None:
    assert "&lt;b&gt;$x$&lt;/b&gt; &amp; 一" in to_svg(FIGURES[0]).inline


def test_an_svg_file_carries_both_themes() -> None:
    file = to_svg(FIGURES[0]).file.decode()
    assert LIGHT["s1"] in file
    assert DARK["s1"] in file
    assert "prefers-color-scheme:dark" in file
    assert 'width="' in file


def test_the_box_of_a_curve_is_the_position_of_its_axis() -> None:
    left, right, low, _ = map(float, ElementTree.fromstring(to_svg(FIGURES[3]).inline).attrib["data-box"].split())
    assert low == 0
    assert 0 < left < right
