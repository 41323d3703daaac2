"""The samples of a run as a table in memory, which filters, orders and looks up rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from vlmhyperbench.analysis.results import perfect_of
from vlmhyperbench.data.manifest import GROUP_PREFIX
from vlmhyperbench.db.views import MeasureManifestView, RunView
from vlmhyperbench.domain.filters import Condition, Order
from vlmhyperbench.domain.judging import is_judge
from vlmhyperbench.domain.specs import MetricSpec, RunSpec
from vlmhyperbench.errors import InvalidInput, VlmHyperBenchError
from vlmhyperbench.scoring.extraction import TEXT
from vlmhyperbench.scoring.metrics import NO_HOSTS, open_stored
from vlmhyperbench_sdk.protocols import Metric
from vlmhyperbench_sdk.suggestions import did_you_mean

Value = int | float | str | None

_TEXT_CHARACTERS = 4_000
"""Characters of each question and answer that are searched."""
_SORTED_CHARACTERS = 100
"""Characters of a text that give it its place in an order, so that a cursor holds them."""
_NS_PER_MS = 1e6
_PAIR = ("key", "repeat")


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleTable:
    """One row per counted request, in the order of the run."""

    frame: pl.DataFrame
    groups: tuple[str, ...]
    metrics: tuple[str, ...]

    @property
    def columns(self) -> list[str]:
        """Columns by which rows are filtered and ordered."""
        return [name for name in self.frame.columns if name not in _HIDDEN]

    def row_of(self, sample_id: str) -> int | None:
        """Return the place of a sample in the run; None if there is no such sample."""
        places = self.frame.select(pl.arg_where(pl.col("id") == sample_id)).to_series()
        return int(places[0]) if len(places) else None

    def after(
        self, rows: pl.DataFrame, phase: int, ordinal: int, order: Order | None = None, value: Value = None
    ) -> pl.DataFrame:
        """Return the rows of a selection after a place in its order, of which `value` is the one it is ordered by.

        Raises:
            InvalidInput: the column has no such values.
        """
        is_later = (pl.col("phase") > phase) | ((pl.col("phase") == phase) & (pl.col("ordinal") > ordinal))
        if order is None:
            return rows.filter(is_later)
        column = self._sortable(order.column)
        if value is None:
            return rows.filter(column.is_null() & is_later)
        is_text = self.frame.schema[order.column] == pl.String
        if is_text != isinstance(value, str):
            raise InvalidInput("The cursor is not one that this list gave.", cure="Begin without a cursor.")
        place = pl.lit(value)
        is_beyond = column < place if order.is_descending else column > place
        return rows.filter(is_beyond | ((column == place) & is_later) | column.is_null())

    def sorted_by(self, row: Mapping[str, Any], order: Order) -> Value:
        """Return the value by which a row has its place in an order."""
        value: Value = row[order.column]
        if isinstance(value, str):
            return value[:_SORTED_CHARACTERS]
        return int(value) if isinstance(value, bool) else value

    def matching(self, conditions: Sequence[Condition], words: Sequence[str]) -> pl.DataFrame:
        """Return the rows that pass all filters and contain all words, in their order.

        Raises:
            InvalidInput: a filter names no column, or compares text as a number.
        """
        where = [self._where(condition) for condition in conditions]
        where += [_contains(word) for word in words]
        return self.frame.filter(*where) if where else self.frame

    def ordered(self, rows: pl.DataFrame, order: Order | None) -> pl.DataFrame:
        """Order rows, texts by their beginning; equal values stay in the order of the run, no value comes last.

        Raises:
            InvalidInput: there is no such column.
        """
        if order is None:
            return rows
        by = self._sortable(order.column)
        return rows.sort(by, descending=order.is_descending, nulls_last=True, maintain_order=True)

    def against(self, baseline: SampleTable) -> SampleTable:
        """Return the table with the column `flip`: each answer against the baseline's answer to the same sample."""
        first = baseline.frame.select(*_PAIR, pl.col("is_wrong").alias("_baseline_wrong")).unique(_PAIR, keep="first")
        wrong, before = pl.col("is_wrong"), pl.col("_baseline_wrong")
        flip = (
            pl.when(wrong.is_null() | before.is_null())
            .then(None)
            .when(wrong & before)
            .then(pl.lit("both_wrong"))
            .when(wrong)
            .then(pl.lit("broke"))
            .when(before)
            .then(pl.lit("mended"))
            .otherwise(pl.lit("both_right"))
        )
        frame = self.frame.drop("flip").join(first, on=list(_PAIR), how="left", maintain_order="left")
        frame = frame.with_columns(flip.alias("flip")).drop("_baseline_wrong")
        return SampleTable(frame=frame, groups=self.groups, metrics=self.metrics)

    def _sortable(self, name: str) -> pl.Expr:
        """Return the expression by which rows are ordered: numbers, and the beginning of texts."""
        column, kind = pl.col(self._known(name)), self.frame.schema[name]
        if kind == pl.String:
            return column.str.slice(0, _SORTED_CHARACTERS)
        return column.cast(pl.Int8) if kind == pl.Boolean else column

    def _known(self, name: str) -> str:
        if name not in self.frame.columns or name in _HIDDEN:
            raise InvalidInput(
                f"The samples of this run have no column {name[:100]}.",
                cure=did_you_mean(name, self.columns),
                code="unknown_column",
            )
        return name

    def _where(self, condition: Condition) -> pl.Expr:
        name = self._known(condition.column)
        column, kind = pl.col(name), self.frame.schema[name]
        if condition.is_any:
            return column.is_not_null() if condition.operator == "=" else column.is_null()
        match condition.operator:
            case "=" | "!=":
                if kind == pl.Boolean:
                    wanted = [value.casefold() == "true" for value in condition.values]
                    is_equal = column.is_in(wanted)
                elif kind.is_numeric():
                    numbers = [_single(condition, value).number for value in condition.values]
                    is_equal = column.cast(pl.Float64).is_in(numbers)
                else:
                    is_equal = column.is_in(list(condition.values))
                is_equal = is_equal.fill_null(value=False)
                return is_equal if condition.operator == "=" else ~is_equal
            case "~":
                text = column.cast(pl.String).str.to_lowercase()
                return text.str.contains(condition.values[0].lower(), literal=True).fill_null(value=False)
            case _:
                if not kind.is_numeric():
                    message = f"{name} is text, which is not compared by {condition.operator}."
                    raise InvalidInput(message, cure="Use = != or ~ on it.", code="bad_filter")
                return _beyond(column, condition).fill_null(value=False)


def key_of(spec: RunSpec, metric: MetricSpec) -> str:
    """Return the name of a metric in a run's results: with its profile where the run has the metric twice."""
    names = [other.name for other in spec.metrics]
    return metric.name if names.count(metric.name) == 1 else metric.label


def installed_metric(spec: RunSpec, metric: MetricSpec, stored: object) -> Metric | None:
    """Return a metric, opened to describe its measures; None if it is not installed here."""
    try:
        description = stored if isinstance(stored, dict) else None
        return open_stored(metric, description, NO_HOSTS, on_invalid=spec.on_invalid)
    except VlmHyperBenchError:
        return None


def right_value_of(run: RunView, stored: float | None) -> tuple[tuple[str, str] | None, float | None]:
    """Return name and profile of a run's primary metric, and the value of a right answer: stored, or of its code."""
    spec = run.pinned_spec()
    if not spec.metrics:
        return None, None
    metric = spec.metrics[0]
    value = stored if stored is not None else _perfect(installed_metric(spec, metric, None))
    return (metric.name, metric.profile), value


def files_of_metrics(
    spec: RunSpec, files: Sequence[tuple[MeasureManifestView, Path]]
) -> dict[str, tuple[MetricSpec, list[tuple[MeasureManifestView, Path]]]]:
    """Return the files of each metric by the extractor whose scores count, in the run's order of metrics."""
    grouped = {}
    for metric in spec.metrics:
        extractor = TEXT if is_judge(metric) else spec.extractors[0]
        wanted = {"name": metric.name, "profile": metric.profile, "version": metric.version}
        own = [
            (file, path)
            for file, path in files
            if file.metrics
            and all(file.metrics[0].get(name) == value for name, value in wanted.items())
            and file.metrics[0].get("extractor") in (extractor.label, None)
        ]
        grouped[key_of(spec, metric)] = (metric, own)
    return grouped


def table_from(
    run: RunView,
    facts: pl.DataFrame,
    files: Sequence[tuple[MeasureManifestView, Path]],
    stored: float | None,
) -> SampleTable:
    """Join the facts of a run with the values of its metrics; `stored` is the value of a right answer, if stored."""
    frame = facts.select(*_columns(facts))
    metrics = files_of_metrics(run.pinned_spec(), files)
    _, perfect = right_value_of(run, stored)
    for key, (_, own) in metrics.items():
        frame = frame.join(_values(f"metrics.{key}", own), on=["phase", "ordinal"], how="left", maintain_order="left")
    first = next(iter(metrics), None)
    value = pl.col(f"metrics.{first}") if first is not None else pl.lit(None, dtype=pl.Float64)
    frame = frame.with_columns(
        value.alias("value"),
        (value != perfect if perfect is not None else pl.lit(None, dtype=pl.Boolean)).alias("is_wrong"),
        pl.lit(None, dtype=pl.String).alias("flip"),
    )
    groups = tuple(name for name in frame.columns if name.startswith(GROUP_PREFIX))
    return SampleTable(frame=frame, groups=groups, metrics=tuple(metrics))


def _columns(facts: pl.DataFrame) -> list[pl.Expr]:
    """Return the columns of the table; a run whose samples are not listed yet has no questions."""

    def own(name: str, kind: type[pl.DataType]) -> pl.Expr:
        return pl.col(name) if name in facts.columns else pl.lit(None, dtype=kind).alias(name)

    outcome = (
        pl.when(pl.col("status") == "ok")
        .then(pl.lit("answered"))
        .when(pl.col("failure") == "model")
        .then(pl.lit("model_failure"))
        .otherwise(pl.lit("infrastructure_failure"))
    )
    images = pl.col("images") if "images" in facts.columns else None
    return [
        pl.format("{}.{}", "phase", "ordinal").alias("id"),
        *(pl.col(name) for name in ("phase", "ordinal", "sample", "repeat", "status", "failure", "error_code")),
        outcome.alias("outcome"),
        *(pl.col(name) for name in ("finish_reason", "tries", "prompt_tokens", "completion_tokens", "is_reused")),
        *(
            (pl.col(source) / _NS_PER_MS).alias(name)
            for source, name in (("latency_ns", "latency_ms"), ("ttft_user_ns", "ttft_ms"), ("tpot_ns", "tpot_ms"))
        ),
        own("key", pl.String),
        own("question", pl.String).str.slice(0, _TEXT_CHARACTERS),
        pl.col("text").str.slice(0, _TEXT_CHARACTERS),
        (images.list.len() if images is not None else pl.lit(0)).cast(pl.Int32).alias("images"),
        (images.list.first().struct.field("sha256") if images is not None else pl.lit(None, dtype=pl.String)).alias(
            "image"
        ),
        *(pl.col(name) for name in facts.columns if name.startswith(GROUP_PREFIX)),
    ]


def _values(name: str, files: Sequence[tuple[MeasureManifestView, Path]]) -> pl.DataFrame:
    """Read the whole values of a metric, without those of single fields."""
    schema = {"phase": pl.Int32, "ordinal": pl.Int64, name: pl.Float64}
    frames = [
        pl.read_parquet(path, columns=["phase", "ordinal", "field", "value"], glob=False)
        .filter(pl.col("field").is_null())
        .select("phase", "ordinal", pl.col("value").alias(name))
        .cast(pl.Schema(schema))
        for _, path in files
    ]
    return pl.concat([pl.DataFrame(schema=schema), *frames]).unique(["phase", "ordinal"], keep="last")


def _perfect(metric: Metric | None) -> float | None:
    return None if metric is None else perfect_of(metric.description)


def _contains(word: str) -> pl.Expr:
    texts = [pl.col(name).str.to_lowercase() for name in ("key", "question", "text")]
    return pl.any_horizontal(text.str.contains(word.lower(), literal=True).fill_null(value=False) for text in texts)


def _beyond(column: pl.Expr, condition: Condition) -> pl.Expr:
    number = condition.number
    match condition.operator:
        case "<":
            return column < number
        case "<=":
            return column <= number
        case ">":
            return column > number
        case _:
            return column >= number


def _single(condition: Condition, value: str) -> Condition:
    return Condition(column=condition.column, operator=condition.operator, values=(value,))


_HIDDEN = frozenset({"phase", "ordinal", "images", "image", "failure"})
