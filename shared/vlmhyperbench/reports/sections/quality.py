"""The quality of a run in tables: every metric over all answers and by groups."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from vlmhyperbench.analysis.labels import slug
from vlmhyperbench.reports.document import Cell, Column, Estimate, Table, write_number
from vlmhyperbench.reports.sections.wording import group_title, listed
from vlmhyperbench.summaries.scores import MetricIdentity, Score
from vlmhyperbench.summaries.summary import RunSummary
from vlmhyperbench_sdk.protocols import MetricDescription

BOUNDS_NOTE = (
    "The bounds are the values if every unscored answer were wrong, or right; for a pooled metric at most the bound "
    "with right answers is known"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Quality:
    """The score of a metric on a group of answers."""

    identity: MetricIdentity
    score: Score

    @property
    def label(self) -> str:
        return self.identity.label

    @property
    def group(self) -> tuple[str, ...]:
        """Values of the group columns; empty for all answers."""
        return self.score.group

    @property
    def value(self) -> float | None:
        return self.score.value

    @property
    def low(self) -> float | None:
        return self.score.low

    @property
    def high(self) -> float | None:
        return self.score.high

    @property
    def n(self) -> int:
        """Number of answers that have a value."""
        return self.score.n_scored

    @property
    def estimate(self) -> Estimate:
        """The value as tables show it."""
        description = self.identity.description
        return Estimate(
            value=self.value, low=self.low, high=self.high, digits=digits_of(description), scale=scale_of(description)
        )


def overall(summary: RunSummary) -> list[Quality]:
    """Return every metric over all answers, in the task's order."""
    return qualities(summary, summary.metrics)


def by_column(summary: RunSummary) -> dict[str, list[Quality]]:
    """Return every metric by each group column that is shown, metric by metric."""
    return {column: qualities(summary, summary.groups[column]) for column in summary.group_columns}


def qualities(summary: RunSummary, scores: Sequence[Score]) -> list[Quality]:
    """Return scores with the identity of their metrics."""
    return [Quality(identity=summary.identity(score.key), score=score) for score in scores]


def digits_of(description: MetricDescription) -> int:
    """Return the number of decimals for the scale of a metric."""
    high = description.range[1]
    return 1 if high is not None and high > 1 else 3


def scale_of(description: MetricDescription) -> tuple[float, float]:
    """Return the ends of the scale on which a metric is drawn; an open end is drawn as 1."""
    low, high = description.range
    return (0.0 if low is None else low, 1.0 if high is None else high)


def headline_table(quality: Sequence[Quality]) -> Table:
    """Return the table of every metric over all answers, with the bounds that unscored answers allow."""
    return Table(
        name="headline",
        title="",
        columns=(
            Column(title="metric"),
            Column(title="better"),
            *_MEASURED,
            Column(title="evaluation", kind="code"),
        ),
        rows=tuple(
            (row.label, row.identity.description.direction or "–", *_measured(row), row.score.evaluation_id or "–")
            for row in quality
        ),
        note=_note(quality),
    )


def group_table(column: str, quality: Sequence[Quality]) -> Table:
    """Return the table of every metric by a group column, with a row for each group and metric."""
    title = group_title(column)
    return Table(
        name=f"by-{slug(column)}",
        title=f"All metrics by {title}",
        columns=(Column(title=title), Column(title="metric"), *_MEASURED),
        rows=tuple((row.group[0], row.label, *_measured(row)) for row in sorted(quality, key=_order(quality))),
        is_collapsed=True,
    )


_MEASURED = (
    Column(title="value (95 % interval)", kind="estimate"),
    *(Column(title=title, kind="number") for title in ("scored", "unscored", "invalid", "lower bound", "upper bound")),
)


def _measured(row: Quality) -> tuple[Cell, ...]:
    """Return a value with its interval, counts and bounds; the columns are `_MEASURED`."""
    digits = digits_of(row.identity.description)
    bounds = (Estimate(value=end, digits=digits) for end in (row.score.lower, row.score.upper))
    return (row.estimate, row.n, row.score.n_unscored, row.score.n_invalid, *bounds)


def _order(quality: Sequence[Quality]) -> Callable[[Quality], int]:
    """Return a sort key that keeps the rows of a group together, in the order of the groups' first rows."""
    positions = {group: position for position, group in enumerate(dict.fromkeys(row.group[0] for row in quality))}
    return lambda row: positions[row.group[0]]


def _note(quality: Sequence[Quality]) -> str:
    names = {
        "wilson": "Wilson's for shares",
        "bca": "bootstrap (BCa, 2,000 resamples, seed 0)",
        "cluster_normal": "cluster-robust normal",
        "cluster_t": "cluster-robust by Student's t",
    }
    intervals = [row.score.interval for row in quality if row.score.interval is not None]
    methods = dict.fromkeys(interval.method for interval in intervals)
    units = {interval.units for interval in intervals}
    how = listed([names[method] for method in methods])
    of_units = f", over {write_number(max(units), 0)} documents as units" if units else ""
    return (
        f"95 % intervals: {how or 'none'}{of_units}. {BOUNDS_NOTE}. Invalid answers are those that could not be read. "
        "Equal evaluation ids mean equal conditions; `vlmhyperbench diff` shows what differs between two ids."
    )
