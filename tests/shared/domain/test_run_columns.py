"""The known columns of runs are those that lists and summaries really have."""

from __future__ import annotations

from dataclasses import fields

from tests.shared.reports.builders import evidence
from vlmhyperbench.db.listing_columns import FIXED
from vlmhyperbench.domain.run_columns import (
    COLUMNS,
    HIGHER,
    LOWER,
    METRIC_ENDINGS,
    NUMBER_COLUMNS,
    TEXT_COLUMNS,
    TIME_PARTS,
    TIMES,
    direction_of,
    is_number,
    is_open,
    metric_of,
)
from vlmhyperbench.summaries.columns import columns_of
from vlmhyperbench.summaries.headline import headline_row
from vlmhyperbench.summaries.performance import TIMES as MEASURED_TIMES
from vlmhyperbench.summaries.speeds import Resources
from vlmhyperbench.summaries.summarising import summarise_run


def test_every_column_of_a_run_is_known() -> None:
    summary = summarise_run(evidence())
    named = {*FIXED, *columns_of(summary), *headline_row(summary), *(field.name for field in fields(Resources))}
    assert {name for name in named if name not in COLUMNS and metric_of(name) is None and not is_open(name)} == {
        "run",
        "metrics",  # of the headline, which lists have by other names
    }
    assert tuple(MEASURED_TIMES) == TIMES
    assert {f"latency_ms.{part}" for part in TIME_PARTS} <= set(columns_of(summary))
    assert {f"metrics.anls.{ending}" for ending in METRIC_ENDINGS} <= set(columns_of(summary))


def test_numbers_are_the_columns_with_numbers() -> None:
    assert not NUMBER_COLUMNS & TEXT_COLUMNS
    columns = columns_of(summarise_run(evidence()))
    known = {name: value for name, value in columns.items() if not is_open(name)}
    assert {name for name, value in known.items() if is_number(name)} == {
        name for name, value in known.items() if isinstance(value, int | float)
    }
    assert {name for name, column in FIXED.items() if column.kind == "number"} == {n for n in FIXED if is_number(n)}


def test_the_metric_of_a_column_is_its_key_without_an_ending() -> None:
    assert metric_of("metrics.anls") == "anls"
    assert metric_of("metrics.anls@paper.low") == "anls@paper"
    assert metric_of("metrics.my.metric.n_scored") == "my.metric"
    assert metric_of("latency_p50_ms") is None


def test_a_known_number_says_which_end_is_good_if_one_is() -> None:
    lower = (
        "latency_p99_ms",
        "latency_ms.p50",
        "truncation_rate",
        "model_failures",
        "cost_total",
        "metrics.x.n_unscored",
    )
    assert {direction_of(name) for name in lower} == {"lower"}
    assert {direction_of(name) for name in ("output_tokens_per_s", "ok", "metrics.x.n_scored")} == {"higher"}
    assert {direction_of(name) for name in ("total", "metrics.x", "metrics.x.low", "spec.seed")} == {None}
    assert LOWER | HIGHER <= NUMBER_COLUMNS
    assert not LOWER & HIGHER


def test_values_of_the_spec_are_an_open_set() -> None:
    assert is_open("spec.decoding.temperature")
    assert is_open("manifest.host")
    assert not is_open("spec.")
