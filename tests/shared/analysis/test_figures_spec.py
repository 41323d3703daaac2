"""A figure that contradicts itself, or that no renderer could draw, does not come into being."""

from __future__ import annotations

from dataclasses import replace

import pytest

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
from vlmhyperbench.analysis.figures.spec import MAX_THINGS
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
    return {"series": (replace(spec.series[0], **changes),)}  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("spec", "changes", "said"),
    [
        (CURVE, {"name": "../c"}, "no slug"),
        (CURVE, {"name": ""}, "no slug"),
        (CURVE, {"title": "a\x01b"}, "cannot be printed"),
        (CURVE, {"x": Axis(title="a\nb")}, "cannot be printed"),
        (CURVE, _series(CURVE, name="\u202e"), "cannot be printed"),
        (MATRIX, {"cell_labels": (("\x00",), ("",))}, "cannot be printed"),
        (CURVE, _series(CURVE, x=(1.0,) * (MAX_THINGS + 1), y=(1.0,) * (MAX_THINGS + 1)), "points and cells"),
        (CURVE, {"marks": (Mark(axis="x", at=0.0, label=""),) * (MAX_THINGS + 1)}, "names and lines"),
        (MATRIX, {"categories": ("a",) * 200, "columns": ("b",) * 200}, "points and cells"),
        (CURVE, _series(CURVE, x=(1.0, float("inf"))), "a number is not between"),
        (CURVE, _series(CURVE, y=(1.0, float("nan"))), "a number is not between"),
        (CURVE, {"x": Axis(title="t", low=-1e200)}, "a number is not between"),
        (CURVE, {"marks": (Mark(axis="x", at=1.0, label="m", series=1),)}, "belongs to no series"),
        (CURVE, _series(CURVE, y=(1.0,)), "x and y of the series 's' do not fit"),
        (HISTOGRAM, _series(HISTOGRAM, y=HISTOGRAM.series[0].y[1:]), "x and y of the series 's' do not fit"),
        (CURVE, _series(CURVE, x=(None, 1.0)), "has a hole"),
        (CURVE, _series(CURVE, x=(2.0, 1.0)), "does not ascend"),
        (HISTOGRAM, {"table": FigureTable(columns=("bin", "s"), rows=())}, "the table does not fit the bins"),
        (INTERVAL, _series(INTERVAL, low=()), "the intervals or labels of the series 's' do not fit"),
        (INTERVAL, _series(INTERVAL, y=(0.0, 2.0)), "a row that does not exist"),
        (BARS, _series(BARS, y=(0.0, 0.5)), "a row that does not exist"),
        (STACKED, _series(STACKED, y=(3.0,)), "a row that does not exist"),
        (FRONT, _series(FRONT, x=(), y=(), low=(), high=(), labels=()), "has no point"),
        (FRONT, _series(FRONT, labels=("a",)), "the intervals or labels of the series 'best' do not fit"),
        (FRONT, _series(FRONT, low=(1.0,)), "the intervals or labels of the series 'best' do not fit"),
        (FRONT, _series(FRONT, labels=("a", "b\x00")), "cannot be printed"),
        (FRONT, _series(FRONT, x=(None, 1.0)), "has a hole"),
        (LOGARITHMIC, _series(LOGARITHMIC, x=(0.0, *LOGARITHMIC.series[0].x[1:])), "not above 0"),
        (LOGARITHMIC, {"marks": (Mark(axis="x", at=-1.0, label="m"),)}, "not above 0"),
        (TIMELINE, _series(TIMELINE, x=(0.0, 2.0)), "x and y of the series 's' do not fit"),
        (TIMELINE, {"table": FigureTable(columns=("s",), rows=())}, "the table does not fit the bins"),
        (MATRIX, {"cells": ((0.5,),)}, "do not fit its rows and columns"),
        (MATRIX, {"cell_labels": (("a", "b"), ("c", "d"))}, "do not fit its rows and columns"),
    ],
)
def test_what_no_renderer_could_draw_is_refused(spec: FigureSpec, changes: dict[str, object], said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        replace(spec, **changes)  # type: ignore[arg-type]


def test_a_row_that_does_not_fit_its_columns_is_refused() -> None:
    with pytest.raises(InvalidInput, match="does not fit its columns"):
        FigureTable(columns=("a", "b"), rows=((1, 2), (3,)))


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
