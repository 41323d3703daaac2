"""Aggregates: denominators, pooled and mean values, intervals by document, and bounds for missing values."""

from __future__ import annotations

from dataclasses import replace

import polars
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vlmhyperbench.analysis import stats
from vlmhyperbench.analysis.combining import Combining
from vlmhyperbench.analysis.quality import aggregates_of
from vlmhyperbench.analysis.results import Aggregate
from vlmhyperbench_sdk.protocols import MetricDescription
from vlmhyperbench_text_metrics.anls import Anls
from vlmhyperbench_text_metrics.bleu import Bleu
from vlmhyperbench_text_metrics.cer import Cer
from vlmhyperbench_text_metrics.classification import Classification
from vlmhyperbench_text_metrics.exact_match import ExactMatch

SCHEMA = {"outcome": polars.String, "value": polars.Float64}


def _exact(*values: float | None, outcomes: list[str] | None = None, **columns: list[object]) -> polars.DataFrame:
    """Rows of exact match; None is an infrastructure failure."""
    fitting = outcomes or ["infrastructure_failure" if value is None else "scored" for value in values]
    return polars.DataFrame(
        {
            "outcome": fitting,
            "value": list(values),
            "stat.correct": [value or 0.0 for value in values],
            "stat.count": [0.0 if value is None else 1.0 for value in values],
            **columns,
        },
        schema_overrides=SCHEMA,
    )


def _cer(rows: list[tuple[float, float] | None], references: list[float] | None = None) -> polars.DataFrame:
    """Rows of (edits, length); None is a missing row, whose reference has the given length."""
    missing = iter(references or [])
    lengths = [next(missing, None) if row is None else None for row in rows]
    return polars.DataFrame(
        {
            "outcome": ["infrastructure_failure" if row is None else "scored" for row in rows],
            "value": [None if row is None else row[0] / row[1] for row in rows],
            "stat.edits": [0.0 if row is None else row[0] for row in rows],
            "stat.length": [0.0 if row is None else row[1] for row in rows],
            "stat.count": [0.0 if row is None else 1.0 for row in rows],
            "right.edits": [None if length is None else 0.0 for length in lengths],
            "right.length": lengths,
            "right.count": [None if length is None else 1.0 for length in lengths],
        },
        schema_overrides=dict.fromkeys(("value", "right.edits", "right.length", "right.count"), polars.Float64),
    )


class MeanCer(Cer):
    """CER as a mean of samples: its range has no upper end."""

    @property
    def description(self) -> MetricDescription:
        return replace(super().description, aggregation="mean")


class Endless(ExactMatch):
    """Exact match whose range has no lower end."""

    @property
    def description(self) -> MetricDescription:
        return replace(super().description, range=(None, 1.0))


def _whole(frame: polars.DataFrame, metric: Combining | None = None, **options: object) -> Aggregate:
    """Aggregate all rows, by default of exact match."""
    return aggregates_of(frame, metric or ExactMatch(), **options)[()]


def test_an_aggregate_counts_every_row_by_its_outcome() -> None:
    aggregate = _whole(
        _exact(
            1.0,
            0.0,
            None,
            None,
            None,
            outcomes=["scored", "model_failure", "model_failure", "infrastructure_failure", "unscored"],
        )
    )
    assert (aggregate.n, aggregate.n_scored, aggregate.n_unscored) == (5, 2, 3)
    assert (aggregate.model_failures, aggregate.infrastructure_failures, aggregate.unscored) == (2, 1, 1)


def test_a_row_that_no_metric_reached_is_unscored() -> None:
    frame = polars.DataFrame({"outcome": [None], "value": [None], "stat.count": [None]}, schema_overrides=SCHEMA)
    aggregate = _whole(frame.with_columns(polars.col("stat.count").cast(polars.Float64)))
    assert (aggregate.unscored, aggregate.value) == (1, None)


def test_a_mean_leaves_unscored_rows_out_and_its_bounds_count_them() -> None:
    aggregate = _whole(_exact(1.0, 1.0, 0.0, None))
    assert aggregate.value == aggregate.mean == aggregate.pooled == pytest.approx(2 / 3)
    assert (aggregate.lower, aggregate.upper) == (0.5, 0.75)


def test_without_missing_rows_the_bounds_are_the_value() -> None:
    aggregate = _whole(_exact(1.0, 0.0))
    assert (aggregate.lower, aggregate.value, aggregate.upper) == (0.5, 0.5, 0.5)


def test_the_interval_of_independent_proportions_is_wilsons() -> None:
    aggregate = _whole(_exact(*[1.0] * 8, 0.0, 0.0))
    assert aggregate.interval == stats.wilson(8, 10)
    assert [aggregate.low, aggregate.high] == pytest.approx([0.4902, 0.9433], abs=1e-4)


def test_samples_of_one_document_are_one_unit_of_the_interval() -> None:
    aggregate = _whole(_exact(1.0, 1.0, 0.0, 0.0, 1.0, 0.0, cluster=["a", "a", "b", "b", "c", "c"]))
    assert aggregate.interval is not None
    assert (aggregate.interval.units, aggregate.interval.method) == (3, "bca")


def test_a_single_document_has_no_interval() -> None:
    assert _whole(_exact(1.0, 0.0, image=["a", "a"]), cluster="image").interval is None


def test_a_continuous_mean_is_bootstrapped() -> None:
    frame = _exact(1.0, 0.9, 0.0, 0.6).rename({"stat.correct": "stat.similarity"})
    aggregate = _whole(frame, Anls())
    assert aggregate.interval is not None
    assert aggregate.interval.method == "bca"
    assert _whole(frame, Anls()) == aggregate


def test_a_pooled_value_is_combined_from_sums_and_differs_from_the_mean() -> None:
    aggregate = _whole(_cer([(1.0, 1.0), (0.0, 9.0)]), Cer())
    assert (aggregate.value, aggregate.pooled, aggregate.mean) == (0.1, 0.1, 0.5)
    assert aggregate.interval is not None


def test_a_pooled_value_has_a_bound_where_missing_answers_are_right_and_none_where_they_are_wrong() -> None:
    aggregate = _whole(_cer([(1.0, 8.0), None], references=[2.0]), Cer())
    assert aggregate.value == 0.125
    assert (aggregate.lower, aggregate.upper) == (0.1, None)
    complete = _whole(_cer([(1.0, 8.0)]), Cer())
    assert (complete.lower, complete.upper) == (0.125, 0.125)


def test_missing_answers_of_two_classes_have_a_bound_together() -> None:
    frame = polars.DataFrame(
        {
            "outcome": ["scored", "infrastructure_failure", "infrastructure_failure"],
            "value": [0.0, None, None],
            "stat.cell:a|b": [1.0, 0.0, 0.0],
            "right.cell:a|a": [None, 1.0, None],
            "right.cell:b|b": [None, None, 1.0],
        }
    )
    aggregate = _whole(frame, Classification())
    # Of a: 1 right, 2 true, 1 said to be; of b: 1 right, 1 true, 2 said to be.
    assert (aggregate.value, aggregate.lower) == (0.0, None)
    assert aggregate.upper == pytest.approx(2 / 3)
    silent = frame.with_columns(polars.lit(None, dtype=polars.Float64).alias("right.cell:b|b"))
    assert _whole(silent, Classification()).upper is None


def test_a_missing_row_without_references_leaves_pooled_bounds_open() -> None:
    aggregate = _whole(_cer([(1.0, 8.0), None, None], references=[2.0]), Cer())
    assert (aggregate.lower, aggregate.upper) == (None, None)
    plain = _cer([(1.0, 8.0), None]).select("outcome", "value", "stat.edits", "stat.length", "stat.count")
    assert _whole(plain, Cer()).upper is None


def test_a_score_of_free_text_has_no_bound_since_it_rewards_length() -> None:
    measures = Bleu().measure(["a b c d e", "a b c d e"], [["a b c d e"]] * 2)
    columns = {name: list(column) for name, column in measures.statistics.items()}
    frame = polars.DataFrame(
        {
            "outcome": ["scored", "infrastructure_failure"],
            "value": [100.0, None],
            **{f"stat.{name}": [column[0], 0.0] for name, column in columns.items()},
            **{f"right.{name}": [None, column[1]] for name, column in columns.items()},
        }
    )
    aggregate = _whole(frame, Bleu())
    assert aggregate.value == pytest.approx(100.0)
    assert (aggregate.lower, aggregate.upper) == (None, None)


def test_an_open_end_of_the_range_leaves_the_bound_of_a_mean_open() -> None:
    aggregate = _whole(_cer([(1.0, 2.0), None]), MeanCer())
    assert (aggregate.lower, aggregate.upper) == (0.25, None)
    upside_down = _whole(_exact(1.0, None), Endless())
    assert (upside_down.lower, upside_down.upper) == (None, 1.0)


def test_groups_are_made_of_any_columns_in_their_order() -> None:
    frame = _exact(1.0, 0.0, 1.0, None, doc=["b", "a", "a", None], kind=["x", "x", "y", "x"])
    by_doc = aggregates_of(frame, ExactMatch(), group_by=["doc"])
    assert [(group, aggregate.n, aggregate.value) for group, aggregate in by_doc.items()] == [
        (("a",), 2, 0.5),
        (("b",), 1, 1.0),
        ((None,), 1, None),
    ]
    both = aggregates_of(frame, ExactMatch(), group_by=["kind", "doc"])
    assert list(both) == [("x", "a"), ("x", "b"), ("x", None), ("y", "a")]


def test_an_empty_frame_has_one_aggregate_without_numbers_and_no_groups() -> None:
    frame = _exact(doc=[])
    aggregate = _whole(frame, ExactMatch())
    assert (aggregate.n, aggregate.value, aggregate.interval, aggregate.lower, aggregate.median) == (
        0,
        None,
        None,
        None,
        None,
    )
    assert aggregates_of(frame, ExactMatch(), group_by=["doc"]) == {}


def test_percentiles_are_those_of_scored_rows() -> None:
    frame = _exact(*[i / 100 for i in range(1, 101)], None).rename({"stat.correct": "stat.similarity"})
    aggregate = _whole(frame, Anls())
    assert (aggregate.minimum, aggregate.median, aggregate.p95, aggregate.p99, aggregate.maximum) == (
        0.01,
        0.5,
        0.95,
        0.99,
        1.0,
    )


ROWS = st.lists(st.tuples(st.sampled_from([0.0, 1.0, None]), st.sampled_from("abc")), min_size=1, max_size=15)


@given(ROWS)
def test_groups_partition_the_whole(rows: list[tuple[float | None, str]]) -> None:
    frame = _exact(*(value for value, _ in rows), doc=[doc for _, doc in rows], cluster=[doc for _, doc in rows])
    whole, groups = _whole(frame), aggregates_of(frame, ExactMatch(), group_by=["doc"]).values()
    assert sum(group.n for group in groups) == whole.n
    assert sum(group.n_scored for group in groups) == whole.n_scored
    right = sum((group.value or 0.0) * group.n_scored for group in groups)
    assert right == pytest.approx((whole.value or 0.0) * whole.n_scored)
    for aggregate in (whole, *groups):
        assert aggregate.lower is not None
        assert aggregate.upper is not None
        if aggregate.value is not None:
            assert aggregate.lower <= aggregate.value <= aggregate.upper
        if aggregate.interval is not None:
            assert 0 <= aggregate.interval.low <= aggregate.interval.high <= 1
