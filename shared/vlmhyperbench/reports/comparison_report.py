"""Build the report that compares runs: every run is paired with the first one of its data set, the baseline."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from vlmhyperbench.domain.short_ids import short
from vlmhyperbench.reports import cases
from vlmhyperbench.reports.counting import Counts, count, counts_table
from vlmhyperbench.reports.differences import MAX_DRAWN_RUNS, Paired, baselines_of, differences, flip_matrix, pair_all
from vlmhyperbench.reports.document import (
    Block,
    Cell,
    Column,
    Document,
    Estimate,
    Section,
    Table,
    Tile,
    write_number,
)
from vlmhyperbench.reports.errors import say_why_failed
from vlmhyperbench.reports.evidence import RunEvidence, ScoredMetric
from vlmhyperbench.reports.headline import final_state, finished_at, headline_row, run_data, tone_of
from vlmhyperbench.reports.judging import judges_of
from vlmhyperbench.reports.limitations import limitations
from vlmhyperbench.reports.matrix import matrix_table
from vlmhyperbench.reports.parity import parity_section
from vlmhyperbench.reports.performance import Performance, performance_of
from vlmhyperbench.reports.provenance import configuration_items, provenance
from vlmhyperbench.reports.quality import Quality, overall, quality_by
from vlmhyperbench.reports.ranking import ranking
from vlmhyperbench.reports.run_report import quality_figure
from vlmhyperbench.reports.sample_table import samples_section
from vlmhyperbench.reports.speed import compared_speeds
from vlmhyperbench.reports.tradeoffs import Candidate, trade_offs
from vlmhyperbench.reports.validity import INVALID, marked
from vlmhyperbench.reports.verdict import comparison_verdict, incomplete
from vlmhyperbench.reports.wording import listed, milliseconds, plural, size

MAX_FLIP_BLOCKS = 3
_SEPARATOR = re.compile(r"\s*[·/|,]\s*")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Summarised:
    run: RunEvidence
    counts: Counts
    performance: Performance
    quality: list[Quality]
    by_group: dict[str, list[Quality]]


def _gap(summarised: _Summarised) -> str:
    """Say why a run's score does not rest on everything, or why it has none."""
    name, why = summarised.run.name, say_why_failed(summarised.run)
    return f"{name} has {why} " if why else incomplete(summarised.quality, summarised.counts, name=name)


def comparison_document(experiment_id: str, name: str, state: str, runs: Sequence[RunEvidence]) -> Document:
    """Return the comparison of an experiment's runs, in their order; the first one of each data set is its baseline.

    Runs without scores stand in the tables, but are not paired, and so do those whose data set nobody else asked.
    """
    named = _distinct(runs)
    summarised = [_summarise(run) for run in named]
    paired = pair_all(named)
    found = [cases.find_flips(one.baseline, one.run) for one in paired[:MAX_FLIP_BLOCKS]]
    targets = plural(len(named), "run")
    return Document(
        scope="experiment",
        id=experiment_id,
        title=name,
        subtitle=f"{targets} on {_tasks(named)}; {_baselines(named, paired)}" if named else "No run",
        state=state.lower(),
        tone=tone_of("SUCCEEDED" if state == "DONE" else state),
        finished_at=max((finished_at(run) for run in named), default=""),
        verdict=comparison_verdict(
            paired,
            performances={one.run.id: one.performance for one in summarised},
            flips=[flip for flips in found for flip in flips],
            gaps="".join(map(_gap, summarised)),
        ),
        tiles=_tiles(summarised, paired),
        sections=(
            _results(summarised),
            *trade_offs(
                [
                    Candidate(run=one.run, counts=one.counts, quality=one.quality[0], performance=one.performance)
                    for one in summarised
                    if one.quality
                ]
            ),
            differences(paired),
            *parity_section(paired[:MAX_FLIP_BLOCKS]),
            *ranking(named, paired),
            *judges_of(named),
            _quality(summarised),
            _flips(paired, found),
            samples_section(named),
            _performance(summarised),
            _configurations(named),
            *_provenances(named),
            limitations([(one.run, one.counts, one.performance) for one in summarised]),
        ),
        headline=tuple(
            headline_row(one.run, counts=one.counts, performance=one.performance, quality=one.quality)
            for one in summarised
        ),
        data={
            one.run.id: run_data(
                one.run,
                counts=one.counts,
                performance=one.performance,
                quality=one.quality,
                by_group=one.by_group,
            )
            for one in summarised
        },
    )


def _summarise(run: RunEvidence) -> _Summarised:
    return _Summarised(
        run=run,
        counts=count(run),
        performance=performance_of(run),
        quality=overall(run),
        by_group={column: quality_by(run, (column,)) for column in run.groups},
    )


def _tiles(summarised: Sequence[_Summarised], paired: Sequence[Paired]) -> tuple[Tile, ...]:
    tiles = []
    for one in summarised[:4]:
        quality = one.quality[0] if one.quality else None
        latency = one.performance.times.get("latency_ms")
        tiles.append(
            Tile(
                label=one.run.name,
                value=write_number(quality.value) if quality else "–",
                detail=f"{quality.label if quality else 'no metric'}"
                + (marked(f" · p50 {milliseconds(latency.p50)}", one.performance.validity) if latency else ""),
            )
        )
    tiles += [
        Tile(
            label=f"flips to {one.run.name}",
            value=str(flips.broke + flips.mended),
            detail=f"{flips.broke} broke, {flips.mended} mended, of {write_number(flips.pairs, 0)}",
        )
        for one in paired[:2]
        if (flips := one.flips) is not None
    ]
    return tuple(tiles)


def _results(summarised: Sequence[_Summarised]) -> Section:
    metrics = _columns(summarised)
    quality_rows: list[tuple[Cell, ...]] = []
    speed_rows: list[tuple[Cell, ...]] = []
    for one in summarised:
        latency, first = one.performance.times.get("latency_ms"), one.performance.times.get("ttft_user_ms")
        quality_rows.append((one.run.name, *(_estimate(one.quality, metric) for metric in metrics.values())))
        speed_rows.append(
            (
                one.run.name,
                milliseconds(latency.p50 if latency else None),
                milliseconds(latency.p99 if latency else None),
                milliseconds(first.p50 if first else None),
                one.performance.samples_per_s,
                one.performance.output_tokens_per_s,
                size(one.performance.peak_memory_bytes),
                one.performance.state.replace("invalid", INVALID) if one.performance.times else "–",
                final_state(one.run, one.counts).lower(),
            )
        )
    quality_table = Table(
        name="headline",
        title="Quality",
        columns=(Column(title="run"), *(Column(title=metric, kind="estimate") for metric in metrics)),
        rows=tuple(quality_rows),
        note=(
            "95 % intervals are each run's own. Whether two runs differ is said by the paired differences below, not "
            "by whether these overlap."
        ),
    )
    titles = ("latency p50", "latency p99", "TTFT p50", "answers/s", "output tokens/s", "peak memory")
    speed_table = Table(
        name="speed",
        title="Speed and memory",
        columns=(
            Column(title="run"),
            *(Column(title=title, kind="number") for title in titles),
            Column(title="speeds"),
            Column(title="state"),
        ),
        rows=tuple(speed_rows),
        note=(
            "Speeds are valid where every gate of the chapter on performance holds. Peak memory is that of the "
            "accelerators, where a run's machine has any, else of the engine's processes."
        ),
    )
    bounds = Table(
        name="bounds",
        title="Bounds",
        columns=(
            Column(title="run"),
            Column(title="metric"),
            *(Column(title=title, kind="number") for title in ("scored", "unscored", "lower bound", "upper bound")),
        ),
        rows=tuple(
            (
                one.run.name,
                found.label,
                found.n,
                found.summary.n_unscored,
                Estimate(value=found.summary.lower, digits=found.estimate.digits),
                Estimate(value=found.summary.upper, digits=found.estimate.digits),
            )
            for one in summarised
            for found in one.quality
        ),
        note="How far a value could move if every unscored answer were wrong, or right; of a pooled metric only what "
        "right ones would make of it is known, if that.",
        is_collapsed=True,
    )
    return Section(
        name="results",
        title="Results",
        lead="Every run over all its samples.",
        blocks=(
            *matrix_table([(item.run, item.quality[0] if item.quality else None) for item in summarised]),
            quality_table,
            speed_table,
            counts_table([(item.run.name, item.counts) for item in summarised]),
            bounds,
        ),
    )


def _columns(summarised: Sequence[_Summarised]) -> dict[str, ScoredMetric]:
    """Title → metric, one column each; what another run defines otherwise under the same label says whose it is."""
    columns: dict[str, ScoredMetric] = {}
    for one in summarised:
        for found in one.quality:
            if not any(known.is_same(found.scored) for known in columns.values()):
                title = found.label if found.label not in columns else f"{found.label}, as in {one.run.name}"
                columns[title] = found.scored
    return columns


def _estimate(quality: Sequence[Quality], metric: ScoredMetric) -> Estimate | None:
    return next((one.estimate for one in quality if one.scored.is_same(metric)), None)


def _quality(summarised: Sequence[_Summarised]) -> Section:
    primary = summarised[0].run.primary if summarised else None
    blocks: list[Block] = []
    for column in summarised[0].by_group if summarised else ():
        series = {
            one.run.name: [found for found in one.by_group.get(column, ()) if found.scored.is_same(primary)]
            for one in summarised[:MAX_DRAWN_RUNS]
        }
        known = {name: rows for name, rows in series.items() if any(found.value is not None for found in rows)}
        if known:
            blocks.append(quality_figure(column, known))
    lead = "By the primary metric; the baseline's weakest group stands on top." if blocks else "There are no groups."
    lead += _cut(summarised) if blocks else ""
    return Section(name="quality", title="Quality by group", lead=lead, blocks=tuple(blocks))


def _flips(paired: Sequence[Paired], found: Sequence[Sequence[cases.Flip]]) -> Section:
    blocks: list[Block] = []
    for index, (one, flips) in enumerate(zip(paired, found, strict=False), 1):
        if one.flips is None or one.flips.pairs == 0:
            continue
        blocks.append(flip_matrix(one.baseline.name, one.run.name, one.flips, index))
        if flips:
            blocks.append(
                cases.show_flips(one.baseline, one.run, flips, index=index, most=cases.MAX_FLIPS // len(found))
            )
    lead = "Answers that are right in one run and wrong in the other." if blocks else "No answers could be paired."
    return Section(name="flips", title="Answers that flipped", lead=lead, blocks=tuple(blocks))


def _performance(summarised: Sequence[_Summarised]) -> Section:
    timed = [one for one in summarised if one.performance.times]
    runs = [(one.run, one.performance) for one in timed]
    return compared_speeds(runs, drawn=runs[:MAX_DRAWN_RUNS], cut=_cut(timed))


def _cut(summarised: Sequence[_Summarised]) -> str:
    """Say which runs figures leave out."""
    if len(summarised) <= MAX_DRAWN_RUNS:
        return ""
    return f" Figures show the first {MAX_DRAWN_RUNS} of {len(summarised)} runs; the tables show all of them."


def _configurations(runs: Sequence[RunEvidence]) -> Section:
    settings = [dict(configuration_items(run.spec)) for run in runs]
    names = list(dict.fromkeys(name for setting in settings for name in setting))
    columns = (Column(title="setting"), *(Column(title=run.name) for run in runs))
    differing = [name for name in names if len({setting.get(name) for setting in settings}) > 1]
    same = [name for name in names if name not in differing]
    rows = {
        "differs": tuple((name, *(setting.get(name, "–") for setting in settings)) for name in differing),
        "same": tuple((name, settings[0][name]) for name in same),
    }
    blocks: list[Block] = []
    if differing:
        blocks.append(Table(name="config-diff", title="What differs", columns=columns, rows=rows["differs"]))
    if same:
        same_columns = (Column(title="setting"), Column(title="every run"))
        blocks.append(
            Table(
                name="config-same", title="What is the same", columns=same_columns, rows=rows["same"], is_collapsed=True
            )
        )
    lead = f"{plural(len(differing), 'setting differs', 'settings differ')} between the runs."
    return Section(name="configuration", title="Configuration", lead=lead, blocks=tuple(blocks))


def _provenances(runs: Sequence[RunEvidence]) -> list[Section]:
    return [provenance(run, name=f"provenance-{i}", title=f"Provenance of {run.name}") for i, run in enumerate(runs, 1)]


def _distinct(runs: Sequence[RunEvidence]) -> list[RunEvidence]:
    """Give runs short names that keep them apart: what all names begin or end with goes, equal ones get their ids."""
    parts = [_SEPARATOR.split(run.name) for run in runs]
    start = end = 0
    shortest = min((len(part) for part in parts), default=0)
    while len(runs) > 1 and start < shortest - 1 and len({part[start] for part in parts}) == 1:
        start += 1
    while len(runs) > 1 and end < shortest - start - 1 and len({part[-1 - end] for part in parts}) == 1:
        end += 1
    names = [" · ".join(part[start : len(part) - end]) for part in parts]
    often = Counter(names)
    return [
        replace(run, name=name if often[name] == 1 else f"{name} {short(run.id)}")
        for run, name in zip(runs, names, strict=True)
    ]


def _baselines(runs: Sequence[RunEvidence], paired: Sequence[Paired]) -> str:
    names = baselines_of(paired) or [runs[0].name]
    return f"the baseline is {names[0]}" if len(names) == 1 else f"the baselines are {listed(names)}"


def _tasks(runs: Sequence[RunEvidence]) -> str:
    return ", ".join(dict.fromkeys(f"{run.spec.task} with {run.spec.dataset.name}" for run in runs))
