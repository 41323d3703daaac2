"""The section on quality by group: figures, tables, and what metrics count in their statistics."""

from __future__ import annotations

from vlmhyperbench.analysis.figures import Axis, FigureSpec, Point, interval_figure, matrix_figure
from vlmhyperbench.analysis.labels import slug
from vlmhyperbench.reports.document import Block, Section
from vlmhyperbench.reports.sections.fields import statistics_figures
from vlmhyperbench.reports.sections.ladder import ladders
from vlmhyperbench.reports.sections.quality import Quality, by_column, digits_of, group_table, scale_of
from vlmhyperbench.reports.sections.wording import group_title
from vlmhyperbench.summaries.evidence import RunEvidence
from vlmhyperbench.summaries.summary import RunSummary

MAX_DRAWN_GROUPS = 40
MAX_MATRIX_COLUMNS = 14
MAX_MATRIX_ROWS = 24


def groups_section(summary: RunSummary, run: RunEvidence) -> Section:
    """Return the section of a run; from its evidence come the sums that metrics count."""
    blocks: list[Block] = []
    for column, quality in by_column(summary).items():
        shown = _comparable(quality)
        if not shown:
            continue
        blocks.append(quality_figure(column, {label: shown[label] for label in list(shown)[:2]}))
        blocks.append(group_table(column, quality))
    matrix = _matrix(summary)
    if matrix is not None:
        blocks.append(matrix)
    blocks += statistics_figures(run)
    blocks += ladders(run)
    return Section(
        name="quality",
        title="Quality by group",
        lead=(
            "The weakest group is at the top; intervals that overlap widely show no ranking."
            if blocks
            else "The data set has no group columns, or no answer was scored."
        ),
        blocks=tuple(blocks),
    )


def quality_figure(column: str, series: dict[str, list[Quality]]) -> FigureSpec:
    """Draw values with intervals by one group column; the first series sets the order, weakest first.

    Of more than `MAX_DRAWN_GROUPS` groups only the weakest are drawn.
    """
    first = next(iter(series.values()))
    description = first[0].identity.description
    sign = 1 if description.direction == "higher" else -1
    order = sorted(first, key=lambda row: (row.value is None, sign * (row.value or 0.0), row.group))
    position = {row.group: i for i, row in enumerate(order[:MAX_DRAWN_GROUPS])}
    is_cut = len(order) > MAX_DRAWN_GROUPS
    weakest = f" Only the weakest {MAX_DRAWN_GROUPS} of {len(order)} groups are drawn." if is_cut else ""
    title = group_title(column)
    metrics = dict.fromkeys(row.label for quality in series.values() for row in quality)
    low, high = scale_of(description)
    return interval_figure(
        f"quality-by-{slug(column)}",
        f"Quality by {title}",
        axis=Axis(title=" and ".join(metrics)),
        groups=title,
        series={
            label: [
                Point(label=row.group[0], value=row.value, low=row.low, high=row.high, n=row.n)
                for row in sorted(quality, key=lambda row: position.get(row.group, len(position)))
                if row.group in position or not is_cut
            ]
            for label, quality in series.items()
        },
        within=(low, high),
        note=f"Dots are values, lines 95 % intervals.{weakest}",
    )


def _comparable(quality: list[Quality]) -> dict[str, list[Quality]]:
    """Return the metrics that have the scale and direction of the first metric, by label."""
    if not quality:
        return {}
    first = quality[0].identity.description
    by_label: dict[str, list[Quality]] = {}
    for row in quality:
        description = row.identity.description
        if description.direction == first.direction and scale_of(description) == scale_of(first):
            by_label.setdefault(row.label, []).append(row)
    return {label: rows for label, rows in by_label.items() if any(row.value is not None for row in rows)}


def _matrix(summary: RunSummary) -> FigureSpec | None:
    """Draw the primary metric by the first two group columns."""
    primary = summary.primary
    if len(summary.group_columns) < 2 or primary is None or primary.description.direction is None:
        return None
    crossing = next(crossing for crossing in summary.crossings if crossing.columns == summary.group_columns[:2])
    columns_of, rows_of = crossing.columns
    pairs = {
        (score.group[1], score.group[0]): (score.value, score.n_scored)
        for score in crossing.scores
        if score.key == primary.key and score.value is not None
    }
    rows, columns = sorted({row for row, _ in pairs}), sorted({column for _, column in pairs})
    if not 1 < len(columns) <= MAX_MATRIX_COLUMNS or not 1 < len(rows) <= MAX_MATRIX_ROWS:
        return None
    low, high = scale_of(primary.description)
    perfect = high if primary.description.direction == "higher" else low
    furthest = max(abs(value - perfect) for value, _ in pairs.values()) or 1.0
    digits = 2 if digits_of(primary.description) == 3 else 1
    return matrix_figure(
        f"quality-by-{slug(rows_of)}-and-{slug(columns_of)}",
        f"{primary.label} by {group_title(rows_of)} and {group_title(columns_of)}",
        rows=(group_title(rows_of), rows),
        columns=(group_title(columns_of), columns),
        cells={
            group: (abs(value - perfect) / furthest, f"{value:.{digits}f} · {n}") for group, (value, n) in pairs.items()
        },
        note="Value · number of scored answers; the darker, the weaker. Empty cells have no question.",
    )
