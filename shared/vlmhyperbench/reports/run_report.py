"""Build the report of one run: a pure function of its evidence."""

from __future__ import annotations

import polars

from vlmhyperbench.analysis.figures import (
    Axis,
    FigureSpec,
    Point,
    bars_figure,
    interval_figure,
    matrix_figure,
)
from vlmhyperbench.analysis.labels import slug
from vlmhyperbench.reports import cases
from vlmhyperbench.reports.answers import wrong_answers
from vlmhyperbench.reports.clusters import cluster_table
from vlmhyperbench.reports.counting import Counts, count, counts_table
from vlmhyperbench.reports.document import Block, Document, Section, Tile, write_estimate, write_interval, write_number
from vlmhyperbench.reports.errors import errors_section
from vlmhyperbench.reports.evidence import RunEvidence
from vlmhyperbench.reports.extraction import extraction
from vlmhyperbench.reports.fields import statistics_figures
from vlmhyperbench.reports.headline import final_state, finished_at, headline_row, run_data, tone_of
from vlmhyperbench.reports.judging import judges
from vlmhyperbench.reports.ladder import ladders
from vlmhyperbench.reports.limitations import limitations
from vlmhyperbench.reports.performance import Performance, performance_of
from vlmhyperbench.reports.provenance import configuration, provenance
from vlmhyperbench.reports.quality import (
    Quality,
    digits_of,
    group_table,
    headline_table,
    overall,
    quality_by,
    scale_of,
    values_by,
)
from vlmhyperbench.reports.reported import reported_scores
from vlmhyperbench.reports.sample_table import samples_section
from vlmhyperbench.reports.speed import run_speed
from vlmhyperbench.reports.stopping import stop_section
from vlmhyperbench.reports.validity import marked, tone_of_validity
from vlmhyperbench.reports.verdict import run_verdict
from vlmhyperbench.reports.wording import (
    group_title,
    milliseconds,
    path_of,
    percent,
    plural,
    size,
    target_of,
    write_money,
)

MAX_DRAWN_GROUPS = 40
MAX_MATRIX_COLUMNS = 14
MAX_MATRIX_ROWS = 24


def run_document(run: RunEvidence) -> Document:
    """Return the report of a run; the same evidence gives the same document."""
    counts, performance, quality = count(run), performance_of(run), overall(run)
    by_group = {column: quality_by(run, (column,)) for column in run.groups}
    wrong = wrong_answers(run)
    kinds = cases.mistake_counts(wrong)
    state = final_state(run, counts)
    return Document(
        scope="run",
        id=run.id,
        title=run.name,
        subtitle=(
            f"{target_of(run.spec)} through {path_of(run.spec)}, on {run.spec.task} with "
            f"{run.spec.dataset.name} {run.spec.dataset.version}"
        ),
        state=state.lower(),
        tone=tone_of(state),
        finished_at=finished_at(run),
        verdict=run_verdict(
            run, counts=counts, performance=performance, quality=quality, by_group=by_group, mistakes=kinds
        ),
        tiles=_tiles(run, quality, performance, counts),
        sections=(
            _results(quality, counts),
            *stop_section(run),
            _quality(run, by_group),
            *judges(run),
            *extraction(run),
            *reported_scores(run),
            _mistakes(run, wrong, kinds),
            *errors_section(run),
            samples_section([run], wrong=wrong),
            run_speed(run, performance),
            configuration(run),
            provenance(run),
            limitations([(run, counts, performance)]),
        ),
        headline=(headline_row(run, counts=counts, performance=performance, quality=quality),),
        data={run.id: run_data(run, counts=counts, performance=performance, quality=quality, by_group=by_group)},
    )


def _tiles(run: RunEvidence, quality: list[Quality], performance: Performance, counts: Counts) -> tuple[Tile, ...]:
    tiles = [
        Tile(
            label=one.label,
            value=write_estimate(one.estimate),
            detail=write_interval(one.estimate) or f"{one.n} scored",
        )
        for one in quality[:2]
    ]
    latency, first = performance.times.get("latency_ms"), performance.times.get("ttft_user_ms")
    validity = performance.validity
    if latency is not None:
        detail = f"p99 {milliseconds(latency.p99)}"
        if first is not None:
            detail += f", first token {milliseconds(first.p50)}"
        label = marked("latency, p50", validity)
        tiles.append(Tile(label=label, value=milliseconds(latency.p50), detail=detail, tone=tone_of_validity(validity)))
    if performance.samples_per_s is not None:
        tokens = performance.output_tokens_per_s
        detail = f"{write_number(tokens, 0)} output tokens/s" if tokens is not None else "tokens unknown"
        label, value = marked("answers/s", validity), f"{performance.samples_per_s:.1f}"
        tiles.append(Tile(label=label, value=value, detail=detail, tone=tone_of_validity(validity)))
    if performance.peak_memory_bytes is not None:
        on_accelerators = performance.resources is not None and performance.resources.peak_memory_of == "accelerators"
        of = "of all accelerators" if on_accelerators else "of the engine"
        tiles.append(Tile(label="peak memory", value=size(performance.peak_memory_bytes), detail=of))
    price = performance.price
    if price.per_answer is not None:
        detail = f"{write_money(price)} in all"
        if price.per_million_tokens is not None:
            detail += f", {write_money(price, price.per_million_tokens)} per million tokens"
        tiles.append(Tile(label="cost per answer", value=write_money(price, price.per_answer), detail=detail))
    failures = counts.model_failures + counts.infrastructure_failures + counts.missing
    stopped = ", then it stopped" if run.is_stopped else ""
    tiles.append(
        Tile(
            label="answered",
            value=percent(counts.answered / counts.requested if counts.requested else None),
            detail=f"of {plural(counts.requested, 'request')}, {failures} failed{stopped}",
        )
    )
    return tuple(tiles)


def _results(quality: list[Quality], counts: Counts) -> Section:
    return Section(
        name="results",
        title="Results",
        lead="Every metric over all samples, and what stands in the denominators.",
        blocks=(headline_table(quality), counts_table([("", counts)])),
    )


def _quality(run: RunEvidence, by_group: dict[str, list[Quality]]) -> Section:
    blocks: list[Block] = []
    for column, quality in by_group.items():
        shown = _comparable(quality)
        if not shown:
            continue
        blocks.append(quality_figure(column, {label: shown[label] for label in list(shown)[:2]}))
        blocks.append(group_table(column, quality))
    matrix = _matrix(run)
    if matrix is not None:
        blocks.append(matrix)
    blocks += statistics_figures(run)
    blocks += ladders(run)
    return Section(
        name="quality",
        title="Quality by group",
        lead=(
            "The weakest group stands on top; intervals that overlap widely are no ranking."
            if blocks
            else "The data set has no group columns, or nothing was scored."
        ),
        blocks=tuple(blocks),
    )


def quality_figure(column: str, series: dict[str, list[Quality]]) -> FigureSpec:
    """Draw values with intervals by one group column; the first series sets the order, weakest first.

    Of more than `MAX_DRAWN_GROUPS` groups only the weakest are drawn.
    """
    first = next(iter(series.values()))
    scored = first[0].scored
    sign = 1 if scored.description.direction == "higher" else -1
    order = sorted(first, key=lambda one: (one.value is None, sign * (one.value or 0.0), one.group))
    place = {one.group: i for i, one in enumerate(order[:MAX_DRAWN_GROUPS])}
    is_cut = len(order) > MAX_DRAWN_GROUPS
    weakest = f" Only the weakest {MAX_DRAWN_GROUPS} of {len(order)} groups are drawn." if is_cut else ""
    title = group_title(column)
    metrics = dict.fromkeys(one.label for quality in series.values() for one in quality)
    low, high = scale_of(scored)
    return interval_figure(
        f"quality-by-{slug(column)}",
        f"Quality by {title}",
        axis=Axis(title=" and ".join(metrics)),
        groups=title,
        series={
            label: [
                Point(label=one.group[0], value=one.value, low=one.low, high=one.high, n=one.n)
                for one in sorted(quality, key=lambda one: place.get(one.group, len(place)))
                if one.group in place or not is_cut
            ]
            for label, quality in series.items()
        },
        within=(low, high),
        note=f"Dots are values, lines 95 % intervals.{weakest}",
    )


def _comparable(quality: list[Quality]) -> dict[str, list[Quality]]:
    """Metrics that share the first one's scale and direction, by label."""
    if not quality:
        return {}
    first = quality[0].scored
    found: dict[str, list[Quality]] = {}
    for one in quality:
        is_alike = one.scored.description.direction == first.description.direction
        if is_alike and scale_of(one.scored) == scale_of(first):
            found.setdefault(one.label, []).append(one)
    return {label: rows for label, rows in found.items() if any(one.value is not None for one in rows)}


def _matrix(run: RunEvidence) -> FigureSpec | None:
    if len(run.groups) < 2 or run.primary is None or run.primary.description.direction is None:
        return None
    columns_of, rows_of = run.groups[0], run.groups[1]
    pairs = {(group[0], group[1]): found for group, found in values_by(run, run.primary, (rows_of, columns_of)).items()}
    rows, columns = sorted({row for row, _ in pairs}), sorted({column for _, column in pairs})
    if not 1 < len(columns) <= MAX_MATRIX_COLUMNS or not 1 < len(rows) <= MAX_MATRIX_ROWS:
        return None
    low, high = scale_of(run.primary)
    perfect = high if run.primary.description.direction == "higher" else low
    furthest = max(abs(value - perfect) for value, _ in pairs.values()) or 1.0
    digits = 2 if digits_of(run.primary) == 3 else 1
    return matrix_figure(
        f"quality-by-{slug(rows_of)}-and-{slug(columns_of)}",
        f"{run.primary.label} by {group_title(rows_of)} and {group_title(columns_of)}",
        rows=(group_title(rows_of), rows),
        columns=(group_title(columns_of), columns),
        cells={
            group: (abs(value - perfect) / furthest, f"{value:.{digits}f} · {n}") for group, (value, n) in pairs.items()
        },
        note="Value · number of scored answers; the darker, the weaker. Empty: no such question on such a page.",
    )


def _mistakes(run: RunEvidence, wrong: polars.DataFrame, kinds: dict[str, int]) -> Section:
    if not kinds:
        primary = run.primary
        lead = "Nothing was scored." if primary is None else "No answer was wrong."
        if primary is not None and primary.perfect is None:
            lead = f"Nobody says which {primary.label} a right answer has."
        return Section(name="mistakes-section", title="Mistakes", lead=lead, blocks=())
    figure = bars_figure(
        "kinds-of-mistakes",
        "Kinds of mistakes",
        axis=Axis(title="wrong answers"),
        groups="kind",
        series={run.name: kinds},
        note=(
            "The first kind that fits counts. 'Another answer of the same page' is what a different question about "
            "the same images expects."
        ),
    )
    clusters = cluster_table(run, wrong)
    return Section(
        name="mistakes-section",
        title="Mistakes",
        lead=f"{plural(wrong.height, 'answer')} of {write_number(run.facts.height, 0)} are not right.",
        blocks=(figure, *([clusters] if clusters else []), cases.mistakes(run, wrong)),
    )
