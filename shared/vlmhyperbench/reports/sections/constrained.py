"""What constrained decoding changes in each level of structural fidelity, paired with the free answers of a target."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import polars

from vlmhyperbench.analysis.comparison import PAIR_KEY, Delta, Measured, adjust_together, compare_metrics
from vlmhyperbench.analysis.figures import Axis, Point, interval_figure
from vlmhyperbench.domain.response_formats import format_name
from vlmhyperbench.reports.document import Section
from vlmhyperbench.reports.runs import ReportedRun
from vlmhyperbench.reports.sections.answers import measured
from vlmhyperbench.reports.sections.differences import MAX_DRAWN_RUNS, delta_table
from vlmhyperbench.reports.sections.ladder import LEVELS, counts_levels
from vlmhyperbench.summaries.evidence import ScoredMetric
from vlmhyperbench.summaries.headline import target_of

_STATISTIC = "stat."
_PART, _WHOLE = f"{_STATISTIC}part", f"{_STATISTIC}whole"
_EACH = frozenset({"count", "has_reference"})
"""Wholes that count every answer once, so that the level is a share of answers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Constrained:
    """A run with constrained answers, compared level by level with the run without a constraint."""

    run: ReportedRun
    deltas: list[Delta]


def constrained_section(runs: Sequence[ReportedRun]) -> Section | None:
    """Return the section; None unless some run differs from another only by its response format and counts levels."""
    compared = [
        _Constrained(run=run, deltas=deltas)
        for run in runs
        if _is_constrained(run) and (free := _free(run, runs)) is not None and (deltas := _compare(free, run))
    ]
    if not compared:
        return None
    adjusted = adjust_together([pair.deltas for pair in compared])
    compared = [replace(pair, deltas=deltas) for pair, deltas in zip(compared, adjusted, strict=True)]
    names = _names([pair.run for pair in compared])
    named = list(zip(names, compared, strict=True))
    known = [(name, delta) for name, pair in named for delta in pair.deltas if delta.difference is not None]
    table = replace(delta_table(known, is_named=True), name="constrained-levels")
    figure = interval_figure(
        "constrained-figure",
        "Gain of each level by the constraint",
        axis=Axis(title="difference, percentage points"),
        groups="level",
        series={name: [_point(delta) for delta in pair.deltas] for name, pair in named[:MAX_DRAWN_RUNS]},
        zero_line="no difference",
        note="Right of the line, constrained answers are better; lines are 95 % intervals.",
    )
    lead = (
        "Each run whose answers were constrained is paired with the run of the same target and task whose answers were "
        "free, on the same samples. Levels are those of the answers as they stand, without repair."
    )
    return Section(name="constrained", title="What the response format changes", lead=lead, blocks=(table, figure))


def _names(runs: Sequence[ReportedRun]) -> list[str]:
    """Name runs by target and response format if that is distinct, else by their own names."""
    short = [f"{target_of(run.summary.spec)} · {format_name(run.summary.spec.response_format)}" for run in runs]
    return short if len(set(short)) == len(short) else [run.name for run in runs]


def _free(run: ReportedRun, runs: Sequence[ReportedRun]) -> ReportedRun | None:
    """Return the run that differs only in that nothing constrains its answers."""
    wanted = _besides_format(run)
    return next((other for other in runs if _besides_format(other) == wanted and not _is_constrained(other)), None)


def _besides_format(run: ReportedRun) -> object:
    """Return what two runs have in common that differ only in their response formats."""
    spec = run.summary.spec
    return (spec.target, spec.task, spec.dataset, spec.prompt, spec.decoding, run.summary.manifest_id)


def _is_constrained(run: ReportedRun) -> bool:
    return format_name(run.summary.spec.response_format) != "text"


def _compare(free: ReportedRun, run: ReportedRun) -> list[Delta]:
    """Compare the levels of the first metric that counts them; p-values are adjusted over all runs later."""
    sides = [_levels(side) for side in (free, run)]
    return compare_metrics(*sides) if all(sides) else []


def _levels(run: ReportedRun) -> list[Measured]:
    scored = next((scored for scored in run.evidence.scored if counts_levels(scored)), None)
    return (
        []
        if scored is None
        else [_level(run, scored, title.partition(";")[0], *unchanged) for title, unchanged, _ in LEVELS]
    )


def _level(run: ReportedRun, scored: ScoredMetric, title: str, part: str, whole: str) -> Measured:
    """Return a level as a metric: a share of the answers, or a share pooled over their keys or values."""
    whole_metric = measured(run.evidence, scored)
    frame = whole_metric.frame.select(
        *PAIR_KEY,
        "cluster",
        polars.col(f"{_STATISTIC}{part}").fill_null(0.0).alias(_PART),
        polars.col(f"{_STATISTIC}{whole}").fill_null(0.0).alias(_WHOLE),
        (polars.col("value").is_not_null()).alias("has_value"),
    )
    is_share = whole in _EACH
    value = polars.when(polars.col(_WHOLE) > 0).then(polars.col(_PART) / polars.col(_WHOLE))
    frame = frame.with_columns(
        polars.when("has_value").then(value if is_share else value.otherwise(0.0)).alias("value")
    ).drop("has_value")
    description = replace(
        scored.description, aggregation="mean" if is_share else "pooled", proportion=is_share, range=(0.0, 1.0)
    )
    return replace(
        whole_metric,
        key=title,
        label=title,
        definition=f"{whole_metric.definition} {title}",
        description=description,
        combine=lambda sums: sums["part"] / sums["whole"] if sums["whole"] else None,
        frame=frame,
    )


def _point(delta: Delta) -> Point:
    low, high, value = (None if end is None else 100 * end for end in (delta.low, delta.high, delta.difference))
    return Point(label=delta.label, value=value, low=low, high=high, n=delta.pairs)
