"""Summaries: denominators, pooled and mean values, intervals by document, and bounds for what is missing."""

from __future__ import annotations

from dataclasses import replace

import polars
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vlmhyperbench.analysis import stats
from vlmhyperbench.analysis.quality import Summary, summarise
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


def _all(frame: polars.DataFrame, **options: object) -> Summary:
    (summary,) = summarise(frame, ExactMatch(), **options)  # type: ignore[arg-type]
    return summary


def test_a_summary_counts_every_row_by_its_outcome() -> None:
    summary = _all(
        _exact(
            1.0,
            0.0,
            None,
            None,
            None,
            outcomes=["scored", "model_failure", "model_failure", "infrastructure_failure", "unscored"],
        )
    )
    assert (summary.n, summary.n_scored, summary.n_unscored) == (5, 2, 3)
    assert (summary.scored, summary.model_failures) == (1, 2)
    assert (summary.infrastructure_failures, summary.unscored) == (1, 1)
    assert (summary.metric, summary.profile, summary.version) == ("exact_match", "v1", "1.0.0")


def test_a_row_that_no_metric_reached_is_unscored() -> None:
    frame = polars.DataFrame({"outcome": [None], "value": [None], "stat.count": [None]}, schema_overrides=SCHEMA)
    summary = _all(frame.with_columns(polars.col("stat.count").cast(polars.Float64)))
    assert (summary.unscored, summary.value) == (1, None)


def test_a_mean_leaves_unscored_rows_out_and_its_bounds_count_them() -> None:
    summary = _all(_exact(1.0, 1.0, 0.0, None))
    assert summary.value == summary.mean == summary.pooled == pytest.approx(2 / 3)
    assert (summary.lower, summary.upper) == (0.5, 0.75)


def test_without_missing_rows_the_bounds_are_the_value() -> None:
    summary = _all(_exact(1.0, 0.0))
    assert (summary.lower, summary.value, summary.upper) == (0.5, 0.5, 0.5)


def test_the_interval_of_independent_proportions_is_wilsons() -> None:
    summary = _all(_exact(*[1.0] * 8, 0.0, 0.0))
    assert summary.interval == stats.wilson(8, 10)
    assert [summary.ci_low, summary.ci_high] == pytest.approx([0.4902, 0.9433], abs=1e-4)


def test_samples_of_one_document_are_one_unit_of_the_interval() -> None:
    summary = _all(_exact(1.0, 1.0, 0.0, 0.0, 1.0, 0.0, cluster=["a", "a", "b", "b", "c", "c"]))
    assert summary.interval is not None
    assert (summary.interval.units, summary.interval.method) == (3, "bca")


def test_a_single_document_has_no_interval() -> None:
    assert _all(_exact(1.0, 0.0, image=["a", "a"]), cluster="image").interval is None


def test_a_continuous_mean_is_bootstrapped() -> None:
    frame = _exact(1.0, 0.9, 0.0, 0.6).rename({"stat.correct": "stat.similarity"})
    (summary,) = summarise(frame, Anls())
    assert summary.interval is not None
    assert summary.interval.method == "bca"
    assert summarise(frame, Anls()) == [summary]


def test_a_pooled_value_is_combined_from_sums_and_the_mean_stands_beside_it() -> None:
    (summary,) = summarise(_cer([(1.0, 1.0), (0.0, 9.0)]), Cer())
    assert (summary.value, summary.pooled, summary.mean) == (0.1, 0.1, 0.5)
    assert summary.interval is not None


def test_a_pooled_value_has_a_bound_where_missing_answers_are_right_and_none_where_they_are_wrong() -> None:
    (summary,) = summarise(_cer([(1.0, 8.0), None], references=[2.0]), Cer())
    assert summary.value == 0.125
    assert (summary.lower, summary.upper) == (0.1, None)
    (complete,) = summarise(_cer([(1.0, 8.0)]), Cer())
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
    (summary,) = summarise(frame, Classification())
    # Of a: 1 right, 2 true, 1 said to be; of b: 1 right, 1 true, 2 said to be.
    assert (summary.value, summary.lower) == (0.0, None)
    assert summary.upper == pytest.approx(2 / 3)
    silent = frame.with_columns(polars.lit(None, dtype=polars.Float64).alias("right.cell:b|b"))
    assert summarise(silent, Classification())[0].upper is None


def test_a_missing_row_without_references_leaves_pooled_bounds_open() -> None:
    (summary,) = summarise(_cer([(1.0, 8.0), None, None], references=[2.0]), Cer())
    assert (summary.lower, summary.upper) == (None, None)
    plain = _cer([(1.0, 8.0), None]).select("outcome", "value", "stat.edits", "stat.length", "stat.count")
    assert summarise(plain, Cer())[0].upper is None


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
    (summary,) = summarise(frame, Bleu())
    assert summary.value == pytest.approx(100.0)
    assert (summary.lower, summary.upper) == (None, None)


def test_an_open_end_of_the_range_leaves_the_bound_of_a_mean_open() -> None:
    (summary,) = summarise(_cer([(1.0, 2.0), None]), MeanCer())
    assert (summary.lower, summary.upper) == (0.25, None)
    (upside_down,) = summarise(_exact(1.0, None), Endless())
    assert (upside_down.lower, upside_down.upper) == (None, 1.0)


def test_groups_are_made_of_any_columns_in_their_order() -> None:
    frame = _exact(1.0, 0.0, 1.0, None, doc=["b", "a", "a", None], kind=["x", "x", "y", "x"])
    by_doc = summarise(frame, ExactMatch(), group_by=["doc"])
    assert [(summary.group, summary.n, summary.value) for summary in by_doc] == [
        ((("doc", "a"),), 2, 0.5),
        ((("doc", "b"),), 1, 1.0),
        ((("doc", None),), 1, None),
    ]
    both = summarise(frame, ExactMatch(), group_by=["kind", "doc"])
    assert both[0].group == (("kind", "x"), ("doc", "a"))
    assert len(both) == 4


def test_an_empty_frame_has_one_summary_without_numbers_and_no_groups() -> None:
    frame = _exact(doc=[])
    (summary,) = summarise(frame, ExactMatch())
    assert (summary.n, summary.value, summary.interval, summary.lower, summary.median) == (0, None, None, None, None)
    assert summarise(frame, ExactMatch(), group_by=["doc"]) == []


def test_percentiles_are_those_of_scored_rows() -> None:
    frame = _exact(*[i / 100 for i in range(1, 101)], None).rename({"stat.correct": "stat.similarity"})
    (summary,) = summarise(frame, Anls())
    assert (summary.minimum, summary.median, summary.p95, summary.p99, summary.maximum) == (0.01, 0.5, 0.95, 0.99, 1.0)


ROWS = st.lists(st.tuples(st.sampled_from([0.0, 1.0, None]), st.sampled_from("abc")), min_size=1, max_size=15)


@given(ROWS)
def test_groups_partition_the_whole(rows: list[tuple[float | None, str]]) -> None:
    frame = _exact(*(value for value, _ in rows), doc=[doc for _, doc in rows], cluster=[doc for _, doc in rows])
    whole, groups = _all(frame), summarise(frame, ExactMatch(), group_by=["doc"])
    assert sum(group.n for group in groups) == whole.n
    assert sum(group.n_scored for group in groups) == whole.n_scored
    right = sum((group.value or 0.0) * group.n_scored for group in groups)
    assert right == pytest.approx((whole.value or 0.0) * whole.n_scored)
    for summary in (whole, *groups):
        assert summary.lower is not None
        assert summary.upper is not None
        if summary.value is not None:
            assert summary.lower <= summary.value <= summary.upper
        if summary.interval is not None:
            assert 0 <= summary.interval.low <= summary.interval.high <= 1
