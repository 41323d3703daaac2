"""Compute one metric's measures of a run as a Parquet file: CPU work for a child process, no database, no storage."""

from __future__ import annotations

import io
import json
import platform
import re
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import (
    Distribution,
    PackageNotFoundError,
    distribution,
    entry_points,
    packages_distributions,
    version,
)

import polars
from pydantic import JsonValue

from vlmhyperbench.domain.specs import ExtractorSpec, MetricSpec
from vlmhyperbench.registry.plugins import require_source
from vlmhyperbench.scoring import judge, reported
from vlmhyperbench.scoring.extraction import TEXT
from vlmhyperbench.scoring.metrics import Policy, open_answering, open_failing
from vlmhyperbench.scoring.scores import Row, Score, score
from vlmhyperbench_sdk.errors import InvalidInput
from vlmhyperbench_sdk.types import JsonObject, Measure

REPORTED = "reported"
VERDICTS = "verdicts"
"""Optional column: what a judge said of each answer, as JSON."""
FACT_COLUMNS = ("phase", "ordinal", "status", "failure", "error_code", "text", "references", "metadata")
"""What scoring reads of `facts.read`."""

_KEY_SCHEMA = polars.Schema(
    {
        "phase": polars.Int32(),
        "ordinal": polars.Int64(),
        "field": polars.String(),
        "extractor": polars.String(),
        "outcome": polars.String(),
        "value": polars.Float64(),
        "reason": polars.String(),
        "is_invalid": polars.Boolean(),
    }
)
_SLICE_ROWS = 20_000
_MOST_STATISTICS = 2_000
_KEYS = {REPORTED: reported.KEY, VERDICTS: judge.KEY}
_REQUIREMENT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredMetric:
    """One metric's measures of a run, ready to be stored."""

    content: bytes
    """Parquet: `phase, ordinal, field?, extractor, outcome, value?, reason?, is_invalid`, then `stat.<name>` of every
    row, and for pooled metrics `right.<name>?` of rows without a value."""
    rows: int
    values: int
    """Rows that have a value."""
    identity: dict[str, JsonValue]
    """Name, profile, version, extractor, package and params: what the numbers are keyed by."""
    packages: dict[str, str]
    """Distribution → version of what computed them."""


def measure_metric(
    facts: polars.DataFrame,
    spec: MetricSpec,
    *,
    extractor: ExtractorSpec = TEXT,
    on_model_failure: Policy = "zero",
    on_invalid: Policy = "exclude",
) -> MeasuredMetric:
    """Score a run's facts by one metric, on what one extractor reads; columns `reported`, `verdicts` are optional.

    `on_invalid` also holds for answers that the metric reads itself, unless its own params say otherwise.

    Raises:
        NotFound: nobody registers the metric, or there is no such extractor.
        InvalidInput: the metric refuses its profile or params, or the extractor its own; or its statistics are
            without end.
        Conflict: the installed metric is another version than the run pins, or its code was edited.
        PluginFailure: the metric cannot be constructed.
    """
    require_source(spec.package, f"metric {spec.name!r}")
    metric, failing = open_answering(spec, on_invalid=on_invalid), open_failing(spec)
    policies = {"on_model_failure": on_model_failure, "on_invalid": on_invalid}
    frames: list[polars.DataFrame] = []
    names: set[str] = set()
    for part in facts.iter_slices(_SLICE_ROWS):
        scores = score(metric, _rows(part), failing=failing, extractor=extractor, **policies)
        names.update(name for score in scores for name in score.measure.statistics)
        _check_bounded(names, spec)
        frames.append(_frame(part, scores, extractor.label))
    empty = polars.DataFrame(schema=_KEY_SCHEMA)
    frame = polars.concat([empty, *frames], how="diagonal").with_columns(polars.col("^stat\\..*$").fill_null(0.0))
    buffer = io.BytesIO()
    frame.write_parquet(buffer, compression="zstd")
    packages = packages_of(type(metric))
    return MeasuredMetric(
        content=buffer.getvalue(),
        rows=frame.height,
        values=frame.height - frame["value"].null_count(),
        identity={
            "name": spec.name,
            "profile": spec.profile,
            "version": spec.version,
            "class_path": spec.class_path,
            "extractor": extractor.label,
            "package": next((f"{name}=={number}" for name, number in packages.items()), None),
            "params": spec.params,
        },
        packages=packages,
    )


def _check_bounded(names: Collection[str], spec: MetricSpec) -> None:
    """Each statistic is a column of every row: a metric that counts open text has too many of them."""
    if len(names) > _MOST_STATISTICS:
        raise InvalidInput(
            f"The metric {spec.name!r} has more than {_MOST_STATISTICS} statistics for these answers.",
            cure="Give it the labels that it may count, or turn off what it counts per field, and score the run anew.",
        )


def packages_of(found: type) -> dict[str, str]:
    """Name what computes a metric: its distribution first, then what that requires directly, then Python itself."""
    owner = _owner(found)
    packages: dict[str, str] = {}
    if owner is not None:
        packages[owner.name] = owner.version
        plain = [line for line in owner.requires or () if "extra ==" not in line]
        for name in sorted(match.group() for match in map(_REQUIREMENT.match, plain) if match):
            with suppress(PackageNotFoundError):  # a marker may leave it out on this machine
                packages[name] = version(name)
    return packages | {"python": platform.python_version()}


def _owner(found: type) -> Distribution | None:
    path = f"{found.__module__}:{found.__qualname__}"
    for point in entry_points(group="vlmhyperbench.metrics"):
        if point.value == path:
            return point.dist
    names = packages_distributions().get(found.__module__.partition(".")[0], [])
    return distribution(names[0]) if names else None


def _rows(facts: polars.DataFrame) -> list[Row]:
    if REPORTED in facts.columns:  # of imported answers nothing else may be taken for a file's score
        facts = facts.with_columns(polars.col(REPORTED).fill_null("{}"))
    added = [name for name in (REPORTED, VERDICTS) if name in facts.columns]
    columns = facts.select(*FACT_COLUMNS[2:], *added)
    return [
        Row(
            status=status,
            text=text,
            references=tuple(references or ()),
            metadata=_metadata(metadata, dict(zip(added, extra, strict=True))),
            failure=failure,
            error_code=error_code,
        )
        for status, failure, error_code, text, references, metadata, *extra in columns.iter_rows()
    ]


def _metadata(text: str | None, added: Mapping[str, str | None]) -> JsonObject:
    """Add what else is known of a sample; its own metadata can never be taken for a score or a verdict."""
    own: JsonObject = json.loads(text) if text else {}
    kept = {name: value for name, value in own.items() if name not in added}
    return {**kept, **{_KEYS[name]: json.loads(value) for name, value in added.items() if value is not None}}


def _frame(facts: polars.DataFrame, scores: Sequence[Score], extractor: str) -> polars.DataFrame:
    keys = facts.select("phase", "ordinal").with_columns(
        polars.lit(None, dtype=polars.String).alias("field"),
        polars.lit(extractor).alias("extractor"),
        polars.Series("outcome", [score.outcome.value for score in scores], dtype=polars.String),
        polars.Series("value", [score.measure.value for score in scores], dtype=polars.Float64),
        polars.Series("reason", [score.measure.reason for score in scores], dtype=polars.String),
        polars.Series("is_invalid", [score.is_invalid for score in scores], dtype=polars.Boolean),
    )
    columns = [
        polars.Series(f"{prefix}.{name}", [row.get(name, missing) for row in rows], dtype=polars.Float64)
        for prefix, rows, missing in (
            ("stat", [score.measure.statistics for score in scores], 0.0),
            ("right", [_statistics(score.right) for score in scores], None),
        )
        for name in sorted({name for row in rows for name in row})
    ]
    return keys.cast(_KEY_SCHEMA).with_columns(columns)


def _statistics(measure: Measure | None) -> Mapping[str, float]:
    return {} if measure is None or measure.value is None else measure.statistics
