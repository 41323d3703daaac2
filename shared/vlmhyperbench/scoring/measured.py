"""Compute a metric's measures of a run as a Parquet file, in a child process without database and storage."""

from __future__ import annotations

import io
import json
import platform
import re
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
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
from vlmhyperbench.metric_process import MetricHost
from vlmhyperbench.scoring import judge, reported
from vlmhyperbench.scoring.apart import MetricApart
from vlmhyperbench.scoring.extraction import TEXT
from vlmhyperbench.scoring.metrics import Policy, open_answering, open_failing
from vlmhyperbench.scoring.scores import Row, Score, score
from vlmhyperbench_sdk.errors import InvalidInput
from vlmhyperbench_sdk.types import JsonObject, Measure

REPORTED = "reported"
VERDICTS = "verdicts"
"""Optional column: the verdicts on each answer, as JSON."""
FACT_COLUMNS = ("phase", "ordinal", "status", "failure", "error_code", "text", "references", "metadata")
"""Columns of `facts.read` that scoring reads."""

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
_MAX_STATISTICS = 2_000
_KEYS = {REPORTED: reported.KEY, VERDICTS: judge.KEY}
_REQUIREMENT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredMetric:
    """A metric's measures of a run, before they are stored."""

    content: bytes
    """Parquet: `phase, ordinal, field?, extractor, outcome, value?, reason?, is_invalid`, then `stat.<name>` of every
    row, and for pooled metrics `right.<name>?` of rows without a value."""
    rows: int
    values: int
    """Number of rows that have a value."""
    identity: dict[str, JsonValue]
    """Name, profile, version, extractor, package and parameters; of a metric in its own environment also its
    description and its packages, so that reports need neither its code nor its environment."""
    packages: dict[str, str]
    """Distribution → version of the packages that computed them."""


def measure_metric(
    facts: polars.DataFrame,
    spec: MetricSpec,
    *,
    host: MetricHost | None = None,
    extractor: ExtractorSpec = TEXT,
    on_model_failure: Policy = "zero",
    on_invalid: Policy = "exclude",
) -> MeasuredMetric:
    """Score a run's facts by one metric with one extractor; the columns `reported` and `verdicts` are optional.

    `on_invalid` also applies to answers that the metric parses itself, unless its own parameters say otherwise. `host`
    is the environment that the metric pins, if it pins one.

    Raises:
        NotFound: the metric or the extractor is not registered.
        InvalidInput: the metric refuses its profile or parameters, the extractor refuses its parameters, or the metric
            has too many statistics.
        Conflict: the installed metric has another version than the run pins, or its code was edited.
        PluginFailure: the metric cannot be constructed; or its process in its own environment ended or hangs.
        NotReady: its environment is not prepared here.
    """
    metric, failing = open_answering(spec, host, on_invalid=on_invalid), open_failing(spec, host)
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
    packages = packages_of(type(metric)) if host is None else dict(host.packages)
    owner = next((f"{name}=={number}" for name, number in packages.items()), None)
    apart: dict[str, JsonValue] = {}
    if isinstance(metric, MetricApart):
        owner = metric.distribution
        apart = {"description": asdict(metric.description), "packages": {**packages}}
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
            "package": owner,
            "params": spec.params,
            **apart,
        },
        packages=packages,
    )


def _check_bounded(names: Collection[str], spec: MetricSpec) -> None:
    """Refuse a metric with too many statistics, each of which is a column; one that counts open text has too many."""
    if len(names) > _MAX_STATISTICS:
        raise InvalidInput(
            f"The metric {spec.name!r} has more than {_MAX_STATISTICS} statistics for these answers.",
            cure="Set the labels that it counts, or turn off its statistics per field, and re-score the run.",
        )


def packages_of(metric: type) -> dict[str, str]:
    """Return the packages that compute a metric: its distribution, the direct requirements of that, then Python."""
    owner = _owner(metric)
    packages: dict[str, str] = {}
    if owner is not None:
        packages[owner.name] = owner.version
        plain = [line for line in owner.requires or () if "extra ==" not in line]
        for name in sorted(match.group() for match in map(_REQUIREMENT.match, plain) if match):
            with suppress(PackageNotFoundError):  # a marker may exclude it on this machine
                packages[name] = version(name)
    return packages | {"python": platform.python_version()}


def _owner(metric: type) -> Distribution | None:
    path = f"{metric.__module__}:{metric.__qualname__}"
    for point in entry_points(group="vlmhyperbench.metrics"):
        if point.value == path:
            return point.dist
    names = packages_distributions().get(metric.__module__.partition(".")[0], [])
    return distribution(names[0]) if names else None


def _rows(facts: polars.DataFrame) -> list[Row]:
    if REPORTED in facts.columns:  # so that a sample's own metadata is never used as a reported score
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
    """Add scores and verdicts to a sample's metadata, and remove its own keys with their names."""
    own: JsonObject = json.loads(text) if text else {}
    others = {name: value for name, value in own.items() if name not in added}
    return {**others, **{_KEYS[name]: json.loads(value) for name, value in added.items() if value is not None}}


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
