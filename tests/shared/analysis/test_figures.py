"""Figures as values: series, tables and alternative texts."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest

from tests.support.wording import Wording
from vlmhyperbench.analysis import figures
from vlmhyperbench.analysis.distributions import ordered
from vlmhyperbench.analysis.figures import (
    Axis,
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
from vlmhyperbench.analysis.figures.distributions import MAX_CURVE_POINTS
from vlmhyperbench.analysis.figures.loads import GOODPUT
from vlmhyperbench.analysis.figures.scatters import MAX_LABELLED
from vlmhyperbench.analysis.labels import clean, short, slug

AXIS = Axis(title="t")


def test_the_package_exports_its_names_in_order() -> None:
    assert figures.__all__ == sorted(figures.__all__)
    assert all(hasattr(figures, name) for name in figures.__all__)


def _point(label: str, value: float | None, low: float | None = None, high: float | None = None) -> Point:
    return Point(label=label, value=value, low=low, high=high, n=10)


def test_an_interval_figure_names_its_lowest_and_its_highest_group(wording: Wording) -> None:
    figure = interval_figure(
        "q", "Quality", axis=Axis(title="ANLS"), groups="class", series={"a": [_point("x", 0.5), _point("y", 0.9)]}
    )
    wording(figure.alt)
    assert figure.categories == ("x", "y")
    assert figure.table.is_number == (False, False, True, True, True, True)
    assert figure.table.rows == (("x", "a", 0.5, None, None, 10), ("y", "a", 0.9, None, None, 10))


def test_an_axis_stays_within_the_metrics_scale_and_keeps_bounds_that_are_given() -> None:
    points = [_point("x", 0.5, 0.4, 0.6), _point("y", 1.0, 0.9, 1.0)]
    free = interval_figure("q", "Q", axis=Axis(title="t"), groups="g", series={"a": points})
    within = interval_figure("q", "Q", axis=Axis(title="t"), groups="g", series={"a": points}, within=(0, 1))
    given = interval_figure("q", "Q", axis=Axis(title="t", low=0, high=2), groups="g", series={"a": points})
    assert free.x.high == pytest.approx(1.036)
    assert within.x.high == pytest.approx(1.009)
    assert (given.x.low, given.x.high) == (0, 2)


def test_a_figure_of_differences_has_a_line_at_zero_in_sight() -> None:
    figure = interval_figure(
        "d", "D", axis=Axis(title="t"), groups="m", series={"a": [_point("x", 0.5)]}, zero_line="no difference"
    )
    assert figure.marks[0].at == 0
    assert figure.x.low is not None
    assert figure.x.low < 0


def test_a_figure_of_groups_without_a_value_says_so(wording: Wording) -> None:
    figure = interval_figure("q", "Q", axis=Axis(title="t"), groups="g", series={"a": [_point("x", None)]})
    wording(figure.alt)
    assert figure.x.low is None


def test_a_cdf_goes_through_every_order_statistic(wording: Wording) -> None:
    figure = cdf_figure("l", "Latency", axis=Axis(title="latency", unit="ms"), series={"a": [3.0, 1.0, 2.0, 4.0]})
    assert figure.series[0].x == (1.0, 2.0, 3.0, 4.0)
    assert figure.series[0].y == (0.25, 0.5, 0.75, 1.0)
    assert [mark.label for mark in figure.marks] == ["p50 2", "p99 4"]
    wording(figure.alt)
    assert figure.table.columns == ("percentile", "a, ms")
    assert figure.table.rows[-1] == ("max", 4.0)


def test_a_long_cdf_is_thinned_to_exact_order_statistics_with_both_ends() -> None:
    values = [float(i) for i in range(1, 10_001)]
    drawn = cdf_figure("l", "L", axis=Axis(title="t"), series={"a": values}).series[0]
    assert len(drawn.x) <= MAX_CURVE_POINTS
    assert (drawn.x[0], drawn.x[-1], drawn.y[-1]) == (1.0, 10_000.0, 1.0)
    assert all(x == pytest.approx(y * 10_000) for x, y in zip(drawn.x, drawn.y, strict=True))


def test_an_empty_series_is_left_out_of_a_cdf(wording: Wording) -> None:
    figure = cdf_figure("l", "L", axis=Axis(title="t"), series={"a": []})
    assert (figure.series, figure.table.rows) == ((), ())
    wording(figure.alt)


def test_a_histogram_counts_every_value_once_and_gathers_the_tail_in_the_last_bin() -> None:
    figure = histogram_figure(
        "t", "TTFT", axis=Axis(title="ttft", unit="ms"), series={"a": [float(i % 10) for i in range(999)] + [1e6]}
    )
    assert sum(figure.series[0].y) == 1000
    assert figure.series[0].x[-1] == 9.0
    assert sum(int(str(row[1])) for row in figure.table.rows) == 1000


def test_a_histogram_of_equal_values_has_bins_all_the_same() -> None:
    assert sum(histogram_figure("t", "T", axis=Axis(title="t"), series={"a": [5.0, 5.0]}).series[0].y) == 2


def test_a_histogram_without_values_says_so(wording: Wording) -> None:
    wording(histogram_figure("t", "T", axis=Axis(title="t"), series={"a": []}).alt)


def test_a_logarithmic_histogram_marks_its_percentiles_and_states_n(wording: Wording) -> None:
    values = [10.0] * 50 + [100.0] * 40 + [1000.0] * 10
    figure = log_histogram_figure("t", "TTFT", axis=Axis(title="ttft", unit="ms"), series={"a": values}, note="Yes.")
    assert figure.x.is_log
    assert [(mark.label, mark.at) for mark in figure.marks] == [("p50 10", 10), ("p90 100", 100), ("p99 1 000", 1000)]
    assert figure.note == "n = 100. Yes."
    wording(figure.alt)
    assert sum(figure.series[0].y) == 100
    ratios = [high / low for low, high in pairwise(figure.series[0].x) if low and high]
    assert ratios == pytest.approx([10**0.2] * 11)


def test_bins_of_equal_ratio_have_the_same_edges_in_every_figure() -> None:
    first, second = (
        log_histogram_figure("t", "T", axis=AXIS, series={"a": values}) for values in ([3.0, 30.0] * 9, [2.0, 25.0] * 9)
    )
    shared = {round(float(edge or 0), 6) for edge in first.series[0].x} & {
        round(float(edge or 0), 6) for edge in second.series[0].x
    }
    assert len(shared) >= 8


def test_equal_values_lie_in_one_of_eight_narrow_bins_of_equal_ratio() -> None:
    figure = log_histogram_figure("t", "T", axis=AXIS, series={"a": [5.0] * 3, "b": [5.0] * 2})
    assert (len(figure.series[0].y), max(figure.series[0].y), figure.note) == (8, 3, "n: a 3, b 2.")


def test_eight_decades_have_as_many_bins_as_they_need() -> None:
    figure = log_histogram_figure("t", "T", axis=AXIS, series={"a": [1e-3, 1e6]})
    assert len(figure.series[0].y) == 46


def test_values_that_a_logarithmic_axis_cannot_show_are_drawn_on_a_linear_axis(wording: Wording) -> None:
    figure = log_histogram_figure("t", "T", axis=AXIS, series={"a": [0.0, 1.0]})
    assert (figure.x.is_log, figure.marks, sum(figure.series[0].y)) == (False, (), 2)
    wording(log_histogram_figure("t", "T", axis=AXIS, series={}).alt)


def test_the_axis_of_a_cdf_is_logarithmic_where_the_slowest_is_a_hundred_times_as_slow() -> None:
    scales = [cdf_figure("l", "L", axis=AXIS, series={"a": [1.0, slowest]}).x.is_log for slowest in (99.0, 100.0)]
    assert scales == [False, True]
    assert not cdf_figure("l", "L", axis=AXIS, series={"a": [0.0, 100.0]}).x.is_log


def test_values_with_counts_are_drawn_like_others() -> None:
    values = ordered([1.0, 2.0, 2.0, 4.0])
    counted = replace(values, values=values.values[[0, 2, 3]], up_to=values.up_to[[0, 2, 3]])
    plain, figure = (cdf_figure("l", "L", axis=AXIS, series={"a": given}) for given in ([1.0, 2.0, 2.0, 4.0], counted))
    assert figure == plain
    bars = [histogram_figure("l", "L", axis=AXIS, series={"a": given}) for given in ([1.0, 2.0, 2.0, 4.0], counted)]
    assert bars[0] == bars[1]


def test_bars_have_a_row_for_a_category_of_one_series_only(wording: Wording) -> None:
    figure = bars_figure(
        "e", "Errors", axis=Axis(title="n"), groups="kind", series={"a": {"x": 2}, "b": {"y": 1}, "c": {}}
    )
    assert figure.table.rows == (("x", 2, 0, 0), ("y", 0, 1, 0))
    wording(figure.alt)


def test_a_matrix_leaves_missing_cells_empty_and_names_the_first_ones(wording: Wording) -> None:
    figure = matrix_figure("m", "M", rows=("r", ["a", "b"]), columns=("c", ["x"]), cells={("a", "x"): (0.5, "half")})
    assert figure.cells == ((0.5,), (None,))
    assert figure.cell_labels == (("half",), ("",))
    wording(figure.alt)
    many = matrix_figure(
        "m",
        "M",
        rows=("r", [str(i) for i in range(9)]),
        columns=("c", ["x"]),
        cells={(str(i), "x"): (0.0, "0") for i in range(9)},
    )
    assert many.alt.endswith("; ….")
    wording(matrix_figure("m", "M", rows=("r", []), columns=("c", []), cells={}).alt)


def test_bins_of_whole_numbers_hold_the_same_number_of_them(wording: Wording) -> None:
    few = histogram_figure("t", "T", axis=AXIS, series={"a": [3.0, 3.0, 4.0, 9.0]}, is_whole=True)
    assert few.series[0].x == (2.5, 3.5, 4.5, 5.5, 6.5, 7.5, 8.5, 9.5)
    assert few.series[0].y == (2.0, 1.0, 0.0, 0.0, 0.0, 0.0, 1.0)
    assert few.table.rows[:2] == (("3", 2), ("4", 1))
    wording(few.alt)
    many = histogram_figure("t", "T", axis=AXIS, series={"a": [float(i) for i in range(1, 18)]}, is_whole=True)
    assert many.series[0].y == (3.0, 3.0, 3.0, 3.0, 3.0, 2.0)
    assert [row[0] for row in many.table.rows[:2]] == ["1–3", "4–6"]


def test_one_length_is_one_bin() -> None:
    figure = histogram_figure("t", "T", axis=AXIS, series={"a": [7.0, 7.0]}, is_whole=True)
    assert figure.table.rows == (("7", 2),)


def test_parts_of_a_bar_have_counts_and_tones(wording: Wording) -> None:
    figure = stacked_figure(
        "w",
        "Wins",
        axis=Axis(title="answers"),
        groups="metric",
        parts=[("better", "good"), ("same", "neutral"), ("worse", "bad")],
        rows={"ANLS": (5, 90, 2), "CER": (1, 1, 1)},
    )
    assert [series.x for series in figure.series] == [(5.0, 1.0), (90.0, 1.0), (2.0, 1.0)]
    assert [series.tone for series in figure.series] == ["good", "neutral", "bad"]
    assert figure.table.rows[0] == ("ANLS", 5, 90, 2)
    wording(figure.alt)
    empty = stacked_figure("w", "Wins", axis=AXIS, groups="metric", parts=[("better", "good")], rows={})
    wording(empty.alt)


def test_the_front_is_joined_from_left_to_right_and_the_rest_is_not(wording: Wording) -> None:
    spots = [
        Spot(label="slow", x=30.0, y=0.9, low=0.8, high=0.95, is_front=True),
        Spot(label="fast", x=10.0, y=0.5, is_front=True),
        Spot(label="poor", x=20.0, y=0.4, is_front=False),
    ]
    figure = front_figure("p", "P", x=AXIS, y=Axis(title="q"), spots=spots, front="best", rest="beaten")
    best, beaten = figure.series
    assert (best.labels, best.is_joined, best.tone) == (("fast", "slow"), True, None)
    assert (beaten.labels, beaten.is_joined, beaten.tone) == (("poor",), False, "neutral")
    wording(figure.alt)
    assert figure.table.rows[1] == ("poor", 20.0, 0.4, None, None, "beaten")


def test_many_points_keep_the_names_of_the_front_only() -> None:
    spots = [Spot(label=f"r{i}", x=float(i), y=float(i), is_front=i == 0) for i in range(MAX_LABELLED + 1)]
    front, rest = front_figure("p", "P", x=AXIS, y=AXIS, spots=spots, front="best", rest="beaten").series
    assert (front.labels, rest.labels) == (("r0",), ())


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "–"),
        (float("nan"), "–"),
        (0, "0"),
        (0.000123, "0.000123"),
        (1.0, "1"),
        (12.345, "12.3"),
        (12345.6, "12 346"),
    ],
)
def test_numbers_are_short_and_never_have_an_exponent(value: float | None, text: str) -> None:
    assert short(value) == text


def test_labels_are_printable_short_and_on_one_line() -> None:
    assert clean("a\n b\x00") == "a b�"
    assert clean("x" * 100) == "x" * 47 + "…"


def test_an_axis_names_its_unit() -> None:
    assert (Axis(title="a").label, Axis(title="a", unit="ms").label) == ("a", "a, ms")


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("doc_class", "doc-class"),
        ("kind2", "kind2"),
        ("doc-class", "doc-class-7320dcee"),
        ("../Ärger", "rger-412622b0"),
        ("一", "51a75f46"),
    ],
)
def test_a_slug_is_plain_and_tells_different_texts_apart(text: str, name: str) -> None:
    assert slug(text) == name


def test_slugs_of_texts_that_look_alike_differ() -> None:
    assert len({slug(text) for text in ("a_b", "a-b", "a b", "A_b", "a__b", "a" * 60, "a" * 61)}) == 7


def test_a_timeline_names_its_highest_steps_and_their_times(wording: Wording) -> None:
    figure = timeline_figure(
        "t",
        "Arrivals",
        y=Axis(title="requests", unit="1/s"),
        edges_s=[0.0, 2.0, 4.0],
        series={"sent": [3.0, 4.0], "failed": [0.0, 0.0]},
        dotted=["failed"],
    )
    wording(figure.alt)
    assert figure.table.columns == ("s", "sent", "failed")
    assert figure.table.rows == (("0–2", 3.0, 0.0), ("2–4", 4.0, 0.0))
    assert [(series.is_joined, series.tone) for series in figure.series] == [(True, None), (False, "bad")]


def test_levels_of_one_target_lie_on_one_line_from_the_lowest_rate_on(wording: Wording) -> None:
    loads = [
        Load(group="a", label="fast", rate_per_s=9.0, value=50.0, goodput_per_s=2.0),
        Load(group="b", label="other", rate_per_s=7.0, value=30.0),
        Load(group="a", label="slow", rate_per_s=5.0, value=20.0, goodput_per_s=5.0),
    ]
    figure = load_figure("l", "L", y=Axis(title="p99", unit="ms"), loads=loads, limits={"limit": 40.0})
    assert [(series.name, series.x, series.y, series.is_joined) for series in figure.series] == [
        ("a", (5.0, 9.0), (20.0, 50.0), True),
        ("b", (7.0,), (30.0,), False),
        (GOODPUT, (5.0, 2.0), (20.0, 50.0), False),
    ]
    assert [(mark.axis, mark.at, mark.label) for mark in figure.marks] == [("y", 40.0, "limit")]
    wording(figure.alt)
    assert figure.table.rows[1] == ("other", "b", 7.0, 30.0, None)
    single = load_figure("l", "L", y=Axis(title="p99", unit="ms"), loads=loads[1:2])
    assert [series.name for series in single.series] == ["b"]
