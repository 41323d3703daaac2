"""Tables of aggregates: all groups at once, with the numbers that each group has on its own."""

from __future__ import annotations

import math
import random
import statistics

import numpy as np
import polars
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.wording import Wording
from vlmhyperbench.analysis import stats
from vlmhyperbench.analysis.aggregation import aggregate, describe, number_documents
from vlmhyperbench.analysis.distributions import nearest_rank
from vlmhyperbench.analysis.quality import aggregates_of
from vlmhyperbench_sdk.errors import InvalidInput
from vlmhyperbench_text_metrics.anls import Anls
from vlmhyperbench_text_metrics.cer import Cer
from vlmhyperbench_text_metrics.exact_match import ExactMatch


def _frame(values: list[float | None], **columns: list[object]) -> polars.DataFrame:
    """Rows of a mean metric; None is an infrastructure failure."""
    return polars.DataFrame(
        {
            "outcome": ["infrastructure_failure" if value is None else "scored" for value in values],
            "value": values,
            "stat.similarity": [value or 0.0 for value in values],
            "stat.count": [float(value is not None) for value in values],
            **columns,
        },
        schema_overrides={"outcome": polars.String, "value": polars.Float64},
    )


def _many(groups: int, values: list[float]) -> polars.DataFrame:
    """The same values, each of a document of its own, in so many groups."""
    rows = [(group, value) for group in range(groups) for value in values]
    return _frame([value for _, value in rows], doc=[group for group, _ in rows])


def test_groups_are_described_in_the_order_of_the_frame() -> None:
    table = describe(_frame([0.5, 1.0, None, 0.0], id=["b", "a", "a", "b"]), group_by=["id"])
    assert table.select("id", "n", "n_scored", "scored", "infrastructure_failures", "mean", "median").rows() == [
        ("b", 2, 2, 2, 0, 0.25, 0.0),
        ("a", 2, 1, 1, 1, 1.0, 1.0),
    ]
    assert describe(_frame([])).select("n", "mean", "median").rows() == [(0, None, None)]


def test_a_group_without_a_value_has_counts_and_no_number() -> None:
    table = aggregate(_frame([None, 1.0], doc=["a", "b"]), Anls(), group_by=["doc"])
    row = table.row(0, named=True)
    assert (row["n"], row["n_scored"], row["infrastructure_failures"]) == (1, 0, 1)
    assert [row[name] for name in ("value", "mean", "median", "p95", "ci_low", "ci_method")] == [None] * 6
    assert (row["lower"], row["upper"]) == (0.0, 1.0)


def test_groups_have_names_in_any_script_and_nulls_come_last() -> None:
    frame = _frame([1.0, 0.0, 0.5, 1.0], doc=["договор", None, "合同", "договор"])
    table = aggregate(frame, Anls(), group_by=["doc"])
    assert table.select("doc", "value").rows() == [("договор", 1.0), ("合同", 0.5), (None, 0.0)]


def test_percentiles_are_nearest_ranks_in_every_group() -> None:
    chance = random.Random(3)
    parts = {size: [chance.random() for _ in range(size)] for size in (1, 2, 3, 19, 20, 21, 99, 100, 101)}
    rows = [(size, value) for size, values in parts.items() for value in values]
    chance.shuffle(rows)
    frame = _frame([value for _, value in rows], size=[size for size, _ in rows])
    for row in describe(frame, group_by=["size"]).iter_rows(named=True):
        ordered = sorted(parts[row["size"]])
        assert row["minimum"] == ordered[0]
        assert row["maximum"] == ordered[-1]
        for name, percent in (("median", 50), ("p95", 95), ("p99", 99)):
            assert row[name] == nearest_rank(ordered, percent)


def test_up_to_a_hundred_groups_are_resampled_and_more_are_not() -> None:
    values = [0.2, 0.4, 0.6]
    few, many = (aggregate(_many(groups, values), Anls(), group_by=["doc"]) for groups in (100, 101))
    assert set(few["ci_method"]) == {"bca"}
    assert set(many["ci_method"]) == {"cluster_t"}
    # The standard error is 0.2 / √3; Student's quantile of 97.5 % with two degrees of freedom is 4.3027.
    reach = 4.302653 * 0.2 / math.sqrt(3)
    assert list(many["ci_low"]) == pytest.approx([0.0] * 101)
    assert list(many["ci_high"]) == pytest.approx([0.4 + reach] * 101, abs=1e-6)


def test_up_to_fifty_thousand_units_are_resampled_and_more_are_not() -> None:
    units = np.column_stack([np.arange(50_002) % 7, np.ones(50_002)])
    few = stats.intervals(units[:30_000], np.array([5_000] * 4 + [10_000]), stats.mean_of, seed=0)
    assert few.method.tolist() == ["bca"] * 4 + ["cluster_normal"]
    many = stats.intervals(units, np.array([5_000] * 10 + [2]), stats.mean_of, seed=0)
    assert set(many.method) == {"cluster_t"}


def test_an_interval_never_leaves_the_metrics_range() -> None:
    table = aggregate(_many(101, [0.9, 1.0]), Anls(), group_by=["doc"])
    assert table.select("ci_low", "ci_high").row(0) == (pytest.approx(0.95 - 12.7062 * 0.05, abs=1e-5), 1.0)


def test_among_many_groups_shares_of_independent_samples_keep_wilsons_interval() -> None:
    frame = _many(150, [1.0] * 8 + [0.0] * 2).rename({"stat.similarity": "stat.correct"})
    table = aggregate(frame, ExactMatch(), group_by=["doc"])
    assert set(table["ci_method"]) == {"wilson"}
    assert list(table["ci_low"]) == pytest.approx([0.490162] * 150, abs=1e-6)


def test_a_group_of_one_document_has_no_interval_however_many_groups_there_are() -> None:
    frame = _many(150, [0.5, 1.0]).with_columns(polars.col("doc").alias("cluster"))
    assert aggregate(frame, Anls(), group_by=["doc"])["ci_method"].null_count() == 150


def test_a_pooled_value_of_every_group_is_combined_from_its_sums() -> None:
    frame = polars.DataFrame(
        {
            "doc": ["a", "b", "a"],
            "outcome": ["scored"] * 3,
            "value": [0.5, 1.0, 0.0],
            "stat.edits": [1.0, 3.0, 0.0],
            "stat.length": [2.0, 3.0, 8.0],
            "stat.count": [1.0, 1.0, 1.0],
        }
    )
    table = aggregate(frame, Cer(), group_by=["doc"])
    assert table.select("doc", "value", "pooled", "mean").rows() == [("a", 0.1, 0.1, 0.25), ("b", 1.0, 1.0, 1.0)]
    without = frame.select("doc", "outcome", "value")
    assert aggregate(without, Cer(), group_by=["doc"]).select("value", "mean").row(0) == (None, 0.25)


def test_documents_are_numbered_in_order_of_their_names() -> None:
    numbers = number_documents(polars.Series(["b", "b", None, "a", "b"]))
    assert numbers.to_list() == [2, 2, 0, 1, 2]
    assert numbers.dtype == polars.UInt32
    assert number_documents(polars.Series([], dtype=polars.String)).to_list() == []


def test_documents_may_be_numbered_beforehand() -> None:
    frame = _frame([1.0, 0.5, 0.25, 0.0, 0.5], cluster=["c", "a", "b", "c", "b"])
    numbered = frame.with_columns(number_documents(frame["cluster"]))
    assert aggregate(frame, Anls()).equals(aggregate(numbered, Anls()))


@pytest.mark.parametrize("number", [math.nan, math.inf])
@pytest.mark.parametrize("column", ["value", "stat.similarity"])
def test_a_number_that_is_not_finite_is_refused(column: str, number: float, wording: Wording) -> None:
    frame = _frame([1.0, 0.0]).with_columns(polars.Series(column, [1.0, number]))
    with pytest.raises(InvalidInput) as refused:
        aggregate(frame, Anls())
    wording(refused.value)


def test_group_columns_must_exist_and_have_a_free_name(wording: Wording) -> None:
    frame = _frame([1.0], n=[3])
    with pytest.raises(InvalidInput) as refused:
        describe(frame, group_by=["page"])
    wording(refused.value)
    for name in ("n", "value", "stat.count"):
        with pytest.raises(InvalidInput) as refused:
            aggregate(frame, Anls(), group_by=[name])
        wording(refused.value)


ROWS = st.lists(
    st.tuples(
        st.sampled_from([0.0, 0.25, 0.5, 1.0, None]),
        st.sampled_from(["a", "b", None]),
        st.sampled_from([1, 2]),
        st.sampled_from("xyz"),
    ),
    max_size=25,
)


def _of(rows: list[tuple[float | None, str | None, int, str]]) -> polars.DataFrame:
    values, docs, kinds, clusters = ([row[column] for row in rows] for column in range(4))
    columns = {"doc": docs, "kind": kinds, "cluster": clusters}
    return _frame(list(values), **columns).cast({"doc": polars.String, "kind": polars.Int64, "cluster": polars.String})


@given(ROWS)
def test_every_group_has_the_numbers_that_it_has_on_its_own(
    rows: list[tuple[float | None, str | None, int, str]],
) -> None:
    groups = aggregates_of(_of(rows), Anls(), group_by=["doc", "kind"])
    assert set(groups) == {row[1:3] for row in rows}
    for group, aggregated in groups.items():
        own = [row for row in rows if row[1:3] == group]
        scored = [row[0] for row in own if row[0] is not None]
        assert (aggregated.n, aggregated.n_scored) == (len(own), len(scored))
        assert aggregated.mean == (statistics.fmean(scored) if scored else None)
        separate = aggregates_of(_of(own), Anls())[()]
        assert aggregated.interval == separate.interval
        assert (aggregated.lower, aggregated.upper) == (separate.lower, separate.upper)


@given(ROWS, st.randoms(use_true_random=False))
def test_the_order_of_rows_changes_nothing(
    rows: list[tuple[float | None, str | None, int, str]], chance: random.Random
) -> None:
    table = aggregate(_of(rows), Anls(), group_by=["doc"])
    chance.shuffle(rows)
    assert aggregate(_of(rows), Anls(), group_by=["doc"]).equals(table)


def test_groups_of_units_have_the_intervals_that_they_have_on_their_own() -> None:
    chance = np.random.default_rng(4)
    counts = np.array([7, 0, 1, 5001, 40])
    units = np.column_stack([chance.random(counts.sum()), np.ones(counts.sum())])
    result = stats.intervals(units, counts, stats.mean_of, seed=2)
    ends = np.cumsum(counts)
    for group, (count, end) in enumerate(zip(counts, ends, strict=True)):
        assert result[group] == stats.interval(units[end - count : end], stats.mean_of, seed=2)
    assert [result.method[group] for group in range(5)] == ["bca", None, None, "cluster_normal", "bca"]


def test_a_run_of_no_rows_sums_to_zero() -> None:
    sums = stats.sums_of_runs(np.array([[1.0, 10.0], [2.0, 20.0], [3.0, 30.0]]), np.array([0, 2, 0, 1, 0]))
    assert sums.tolist() == [[0.0, 0.0], [3.0, 30.0], [0.0, 0.0], [3.0, 30.0], [0.0, 0.0]]
    assert stats.sums_of_runs(np.zeros((0, 2)), np.zeros(0, dtype=np.int64)).shape == (0, 2)
