"""A figure that contradicts itself, or that no renderer could draw, is refused."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.support.wording import Wording
from vlmhyperbench.analysis.figures import (
    Axis,
    FigureSpec,
    FigureTable,
    Mark,
    Point,
    Series,
    Spot,
    bars_figure,
    cdf_figure,
    front_figure,
    histogram_figure,
    interval_figure,
    log_histogram_figure,
    matrix_figure,
    stacked_figure,
    timeline_figure,
)
from vlmhyperbench.analysis.figures.spec import MAX_ELEMENTS
from vlmhyperbench_sdk.errors import InvalidInput

AXIS = Axis(title="t")
POINTS = [Point(label="a", value=0.5, low=0.4, high=0.6), Point(label="b", value=None)]
INTERVAL = interval_figure("i", "I", axis=AXIS, groups="g", series={"s": POINTS})
CURVE = cdf_figure("c", "C", axis=AXIS, series={"s": [1.0, 2.0]})
LOGARITHMIC = log_histogram_figure("l", "L", axis=AXIS, series={"s": [1.0, 2.0]})
TIMELINE = timeline_figure("t", "T", y=AXIS, edges_s=[0.0, 1.0, 2.0], series={"s": [3.0, 4.0]})
HISTOGRAM = histogram_figure("h", "H", axis=AXIS, series={"s": [1.0, 2.0]})
BARS = bars_figure("b", "B", axis=AXIS, groups="g", series={"s": {"a": 1, "b": 2}})
MATRIX = matrix_figure("m", "M", rows=("r", ["a", "b"]), columns=("c", ["x"]), cells={("a", "x"): (0.5, "1\u00a0%")})

STACKED = stacked_figure(
    "w", "W", axis=AXIS, groups="g", parts=[("won", "good"), ("lost", "bad")], rows={"a": (3, 1)}, note=""
)
FRONT = front_figure(
    "p",
    "P",
    x=AXIS,
    y=AXIS,
    spots=[Spot(label="b", x=2.0, y=2.0, is_front=True), Spot(label="a", x=1.0, y=1.0, is_front=True)],
    front="best",
    rest="others",
)


def _series(spec: FigureSpec, **changes: object) -> dict[str, object]:
    return {"series": (replace(spec.series[0], **changes),)}


@pytest.mark.parametrize(
    ("spec", "changes"),
    [
        (CURVE, {"name": "../c"}),
        (CURVE, {"name": ""}),
        (CURVE, {"title": "a\x01b"}),
        (CURVE, {"x": Axis(title="a\nb")}),
        (CURVE, _series(CURVE, name="\u202e")),
        (MATRIX, {"cell_labels": (("\x00",), ("",))}),
        (CURVE, _series(CURVE, x=(1.0,) * (MAX_ELEMENTS + 1), y=(1.0,) * (MAX_ELEMENTS + 1))),
        (CURVE, {"marks": (Mark(axis="x", at=0.0, label=""),) * (MAX_ELEMENTS + 1)}),
        (MATRIX, {"categories": ("a",) * 200, "columns": ("b",) * 200}),
        (CURVE, _series(CURVE, x=(1.0, float("inf")))),
        (CURVE, _series(CURVE, y=(1.0, float("nan")))),
        (CURVE, {"x": Axis(title="t", low=-1e200)}),
        (CURVE, {"marks": (Mark(axis="x", at=1.0, label="m", series=1),)}),
        (CURVE, _series(CURVE, y=(1.0,))),
        (HISTOGRAM, _series(HISTOGRAM, y=HISTOGRAM.series[0].y[1:])),
        (CURVE, _series(CURVE, x=(None, 1.0))),
        (CURVE, _series(CURVE, x=(2.0, 1.0))),
        (HISTOGRAM, {"table": FigureTable(columns=("bin", "s"), rows=())}),
        (INTERVAL, _series(INTERVAL, low=())),
        (INTERVAL, _series(INTERVAL, y=(0.0, 2.0))),
        (BARS, _series(BARS, y=(0.0, 0.5))),
        (STACKED, _series(STACKED, y=(3.0,))),
        (FRONT, _series(FRONT, x=(), y=(), low=(), high=(), labels=())),
        (FRONT, _series(FRONT, labels=("a",))),
        (FRONT, _series(FRONT, low=(1.0,))),
        (FRONT, _series(FRONT, labels=("a", "b\x00"))),
        (FRONT, _series(FRONT, x=(None, 1.0))),
        (LOGARITHMIC, _series(LOGARITHMIC, x=(0.0, *LOGARITHMIC.series[0].x[1:]))),
        (LOGARITHMIC, {"marks": (Mark(axis="x", at=-1.0, label="m"),)}),
        (TIMELINE, _series(TIMELINE, x=(0.0, 2.0))),
        (TIMELINE, {"table": FigureTable(columns=("s",), rows=())}),
        (MATRIX, {"cells": ((0.5,),)}),
        (MATRIX, {"cell_labels": (("a", "b"), ("c", "d"))}),
    ],
)
def test_a_figure_that_no_renderer_could_draw_is_refused(
    spec: FigureSpec, changes: dict[str, object], wording: Wording
) -> None:
    with pytest.raises(InvalidInput) as refused:
        replace(spec, **changes)
    wording(refused.value)


def test_a_row_that_does_not_fit_its_columns_is_refused(wording: Wording) -> None:
    with pytest.raises(InvalidInput) as refused:
        FigureTable(columns=("a", "b"), rows=((1, 2), (3,)))
    wording(refused.value)


def test_hostile_labels_are_drawn_in_every_family() -> None:
    odd = "a\x01\nb"
    interval = interval_figure(
        "i", odd, axis=Axis(title=odd), groups=odd, series={odd: [Point(label=odd, value=1.0, low=1.0, high=1.0)]}
    )
    bars = bars_figure("b", odd, axis=AXIS, groups=odd, series={odd: {odd: 1}})
    matrix = matrix_figure("m", odd, rows=(odd, [odd]), columns=(odd, [odd]), cells={(odd, odd): (1.0, "1")})
    assert {spec.title for spec in (interval, bars, matrix)} == {"a� b"}
    assert (interval.x.title, interval.y.title, bars.y.title, matrix.x.title) == ("a� b",) * 4


def test_labels_that_look_alike_keep_their_own_numbers() -> None:
    long = "x" * 60
    bars = bars_figure("b", "B", axis=AXIS, groups="g", series={"s": {long + "a": 1, long + "b": 2}})
    assert bars.series[0].x == (1.0, 2.0)
    assert bars.categories == ("x" * 47 + "…", "x" * 44 + " (2)")
    interval = interval_figure(
        "i",
        "I",
        axis=AXIS,
        groups="g",
        series={
            "s": [Point(label="a\x01", value=1.0), Point(label="a\x02", value=2.0), Point(label="a\x03", value=3.0)]
        },
    )
    assert interval.series[0].y == (0.0, 1.0, 2.0)
    assert interval.categories == ("a�", "a� (2)", "a� (3)")


def test_an_empty_series_of_a_histogram_or_curve_stays_empty() -> None:
    assert replace(CURVE, series=(Series(name="s", x=(), y=()),), marks=()).series[0].x == ()


def test_a_scatter_may_lack_intervals_and_labels() -> None:
    bare = replace(FRONT.series[0], low=(), high=(), labels=())
    assert replace(FRONT, series=(bare,)).series[0].labels == ()
