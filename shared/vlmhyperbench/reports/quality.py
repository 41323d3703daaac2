"""Quality of a run as tables show it: every metric over everything and by groups, from `analysis.quality`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import polars

from vlmhyperbench.analysis.labels import slug
from vlmhyperbench.analysis.quality import Summary, summarise
from vlmhyperbench.reports.answers import answers_of
from vlmhyperbench.reports.document import Cell, Column, Estimate, Table, write_number
from vlmhyperbench.reports.evidence import GROUP, RunEvidence, ScoredMetric
from vlmhyperbench.reports.wording import group_title, listed

NO_GROUP = "(none)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Quality:
    """One metric of one group of answers."""

    scored: ScoredMetric
    group: tuple[str, ...]
    """Values of the group columns; empty for all answers."""
    summary: Summary

    @property
    def label(self) -> str:
        return self.scored.label

    @property
    def value(self) -> float | None:
        return self.summary.value

    @property
    def low(self) -> float | None:
        return self.summary.ci_low

    @property
    def high(self) -> float | None:
        return self.summary.ci_high

    @property
    def n(self) -> int:
        """Answers that have a value."""
        return self.summary.n_scored

    @property
    def estimate(self) -> Estimate:
        """The value as tables show it."""
        return Estimate(
            value=self.value, low=self.low, high=self.high, digits=digits_of(self.scored), scale=scale_of(self.scored)
        )


def overall(run: RunEvidence) -> list[Quality]:
    """Summarise every metric over all answers, in the task's order."""
    return quality_by(run, ())


def quality_by(run: RunEvidence, columns: Sequence[str]) -> list[Quality]:
    """Summarise every metric for each combination of group columns, metric by metric."""
    return [one for scored in run.scored for one in qualities_of(run, scored, columns)]


def qualities_of(run: RunEvidence, scored: ScoredMetric, columns: Sequence[str] = ()) -> list[Quality]:
    """Summarise one metric for each combination of group columns; without any, over all answers."""
    return [
        Quality(
            scored=scored,
            group=tuple(NO_GROUP if value is None else str(value) for _, value in summary.group),
            summary=summary,
        )
        for summary in summaries_by(run, scored, columns)
    ]


def summaries_by(run: RunEvidence, scored: ScoredMetric, columns: Sequence[str]) -> list[Summary]:
    """Summarise one metric for each combination of group columns; what was computed once is not computed again."""
    key = (scored.extractor, scored.key, tuple(columns))
    if key not in run.memo:
        run.memo[key] = summarise(
            answers_of(run, scored), scored.metric, group_by=[GROUP + column for column in columns]
        )
    return run.memo[key]


def values_by(
    run: RunEvidence, scored: ScoredMetric, columns: Sequence[str]
) -> dict[tuple[str, ...], tuple[float, int]]:
    """Return group → (value, number of scored answers) of one metric, without intervals and unknown values."""
    answers = answers_of(run, scored).filter(polars.col("value").is_not_null())
    names = [name for name in answers.columns if name.startswith("stat.")]
    sums = answers.group_by([GROUP + column for column in columns]).agg(
        polars.len().alias("n"), polars.col("value").mean(), *(polars.col(name).sum() for name in names)
    )
    found: dict[tuple[str, ...], tuple[float, int]] = {}
    for row in sums.iter_rows(named=True):
        value = row["value"]
        if scored.description.aggregation == "pooled":
            value = scored.metric.combine({name.removeprefix("stat."): row[name] for name in names})
        if value is not None:
            group = tuple(NO_GROUP if row[GROUP + column] is None else str(row[GROUP + column]) for column in columns)
            found[group] = (float(value), int(row["n"]))
    return found


def digits_of(scored: ScoredMetric) -> int:
    """Say how many decimals a metric's scale deserves."""
    high = scored.description.range[1]
    return 1 if high is not None and high > 1 else 3


def scale_of(scored: ScoredMetric) -> tuple[float, float]:
    """Return the ends of the scale on which a metric is drawn; an open end is drawn as 1."""
    low, high = scored.description.range
    return (0.0 if low is None else low, 1.0 if high is None else high)


def headline_table(quality: Sequence[Quality]) -> Table:
    """Lay out every metric over all answers, with the bounds of what is unscored."""
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
            (one.label, one.scored.description.direction or "–", *_measured(one), one.scored.evaluation_id or "–")
            for one in quality
        ),
        note=_note(quality),
    )


def group_table(column: str, quality: Sequence[Quality]) -> Table:
    """Lay out every metric by one group column, one row per group and metric, with the bounds of what is unscored."""
    title = group_title(column)
    return Table(
        name=f"by-{slug(column)}",
        title=f"All metrics by {title}",
        columns=(Column(title=title), Column(title="metric"), *_MEASURED),
        rows=tuple((one.group[0], one.label, *_measured(one)) for one in sorted(quality, key=_order(quality))),
        is_collapsed=True,
    )


_MEASURED = (
    Column(title="value (95 % interval)", kind="estimate"),
    *(Column(title=title, kind="number") for title in ("scored", "unscored", "invalid", "lower bound", "upper bound")),
)


def _measured(one: Quality) -> tuple[Cell, ...]:
    """Return a value with everything that says how far it may be trusted; the columns are `_MEASURED`."""
    bounds = (Estimate(value=end, digits=digits_of(one.scored)) for end in (one.summary.lower, one.summary.upper))
    return (one.estimate, one.n, one.summary.n_unscored, one.summary.n_invalid, *bounds)


def _order(quality: Sequence[Quality]) -> Callable[[Quality], int]:
    """Keep the rows of a group together, in the order in which groups first come."""
    places = {group: place for place, group in enumerate(dict.fromkeys(one.group[0] for one in quality))}
    return lambda one: places[one.group[0]]


def _note(quality: Sequence[Quality]) -> str:
    names = {
        "wilson": "Wilson's for shares",
        "bca": "bootstrap (BCa, 2,000 resamples, seed 0)",
        "cluster_normal": "cluster-robust normal",
        "cluster_t": "cluster-robust by Student's t",
    }
    methods = dict.fromkeys(one.summary.interval.method for one in quality if one.summary.interval is not None)
    units = {one.summary.interval.units for one in quality if one.summary.interval is not None}
    how = listed([names[method] for method in methods])
    drawn = f", over {write_number(max(units), 0)} documents as units" if units else ""
    return (
        f"95 % intervals: {how or 'none'}{drawn}. The bounds say how far the value could move if every unscored answer "
        "were wrong, or right; of a pooled metric only what right ones would make of it is known, if that. Out of "
        "invalid answers nothing could be read. Two numbers with one evaluation id were made alike; the command diff "
        "says what differs between two."
    )
