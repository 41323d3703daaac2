"""The columns of a summary: flat numbers and words by which lists of runs are filtered, ordered and plotted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields

from vlmhyperbench.summaries.headline import headline_row
from vlmhyperbench.summaries.speeds import Resources
from vlmhyperbench.summaries.summary import RunSummary
from vlmhyperbench_sdk.types import JsonObject, JsonValue

MAX_COLUMNS = 400
MAX_TEXT_CHARACTERS = 120
PERFECT = "metric_perfect"
"""Value of a right answer by the primary metric."""
_ELSEWHERE = frozenset({"run", "name", "target", "task", "state", "metrics"})
"""Values of the headline that a run has as columns of its own."""
_TIMES = ("mean", "p50", "p90", "p99", "max")
_SCORE = ("low", "high", "n_scored", "n_unscored")
_ENGINE = ("name", "version")


def columns_of(summary: RunSummary) -> dict[str, JsonValue]:
    """Return the columns of a summary that have a value, by their names; at most `MAX_COLUMNS`.

    Metrics are `metrics.<key>`, their interval `metrics.<key>.low` and `.high`; times are `<time>.<percentile>`; what
    was really used is `manifest.<part>.<name>`, of the first claim that sent requests.
    """
    known = ((name, value) for name, value in _columns(summary) if _is_plain(value))
    return {name: _bounded(value) for (name, value), _ in zip(known, range(MAX_COLUMNS), strict=False)}


def _columns(summary: RunSummary) -> Iterator[tuple[str, JsonValue]]:
    yield from ((name, value) for name, value in headline_row(summary).items() if name not in _ELSEWHERE)
    if summary.primary is not None:
        yield "metric", summary.primary.key
        yield "metric_label", summary.primary.label
        yield PERFECT, summary.primary.perfect
        yield "metric_direction", summary.primary.description.direction
    yield from ((f"metrics.{metric.key}.direction", metric.description.direction) for metric in summary.described)
    yield "requests_missing", summary.counts.missing
    yield "truncation_rate", summary.counts.truncation_rate
    for score in summary.metrics:
        yield f"metrics.{score.key}", score.value
        yield from ((f"metrics.{score.key}.{name}", getattr(score, name)) for name in _SCORE)
    for name, times in summary.performance.times.items():
        yield from ((f"{name}.{part}", getattr(times, part)) for part in _TIMES)
    if summary.performance.resources is not None:
        yield from ((field.name, getattr(summary.performance.resources, field.name)) for field in fields(Resources))
    yield "platform_version", summary.platform_version
    for claim in summary.generating[:1]:
        yield "manifest.host", claim.host
        yield from _named("manifest.machine", claim.machine)
        yield from _named("manifest.engine", claim.engine or {}, _ENGINE)


def _named(prefix: str, record: JsonObject, names: tuple[str, ...] | None = None) -> Iterator[tuple[str, JsonValue]]:
    """Yield the plain values of a record, and the length of its lists."""
    for name, value in record.items():
        if names is None or name in names:
            yield f"{prefix}.{name}", len(value) if isinstance(value, list) else value


def _is_plain(value: JsonValue) -> bool:
    return value is not None and not isinstance(value, list | Mapping)


def _bounded(value: JsonValue) -> JsonValue:
    return value[:MAX_TEXT_CHARACTERS] if isinstance(value, str) else value
