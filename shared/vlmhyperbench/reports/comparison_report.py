"""Build the report that compares runs: every run is paired with the baseline, the first run of its data set."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence

from vlmhyperbench.analysis.parity import Parity
from vlmhyperbench.domain.short_ids import short
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
from vlmhyperbench.reports.runs import ReportedRun
from vlmhyperbench.reports.sections import cases
from vlmhyperbench.reports.sections.constrained import constrained_section
from vlmhyperbench.reports.sections.counting import counts_table
from vlmhyperbench.reports.sections.differences import (
    MAX_DRAWN_RUNS,
    Paired,
    baselines_of,
    differences,
    flip_matrix,
    pair_all,
)
from vlmhyperbench.reports.sections.ensemble import ensembles_section
from vlmhyperbench.reports.sections.errors import say_why_failed
from vlmhyperbench.reports.sections.groups import quality_figure
from vlmhyperbench.reports.sections.judging import judges_of
from vlmhyperbench.reports.sections.limitations import limitations
from vlmhyperbench.reports.sections.matrix import matrix_table
from vlmhyperbench.reports.sections.parity import parities_of, parity_section, share_of
from vlmhyperbench.reports.sections.provenance import configuration_items, provenance
from vlmhyperbench.reports.sections.quality import BOUNDS_NOTE, by_column, overall
from vlmhyperbench.reports.sections.ranking import ranking
from vlmhyperbench.reports.sections.sample_table import samples_section
from vlmhyperbench.reports.sections.speed import compared_speeds
from vlmhyperbench.reports.sections.tradeoffs import trade_offs
from vlmhyperbench.reports.sections.validity import INVALID, marked
from vlmhyperbench.reports.sections.verdict import comparison_verdict, incomplete
from vlmhyperbench.reports.sections.wording import listed, milliseconds, plural, size, tone_of
from vlmhyperbench.summaries.codec import to_object
from vlmhyperbench.summaries.headline import headline_row
from vlmhyperbench.summaries.scores import MetricIdentity
from vlmhyperbench.summaries.summary import RunSummary

MAX_FLIP_BLOCKS = 3
_SEPARATOR = re.compile(r"\s*[·/|,]\s*")

_SPEEDS = ("latency p50", "latency p99", "TTFT p50", "TPOT p50", "answers/s", "output tokens/s", "peak memory")


def _gap(run: RunSummary) -> str:
    """Say why a run has no score, or how much of the run its score does not cover; empty for a complete run."""
    why = say_why_failed(run)
    return f"{run.name} has {why} " if why else incomplete(run, name=run.name)


def comparison_document(experiment_id: str, name: str, state: str, runs: Sequence[ReportedRun]) -> Document:
    """Return the comparison of an experiment's runs, in their order; the first run of each data set is its baseline.

    Runs without scores, and runs whose data set no other run has, are in the tables but are not paired.
    """
    named = _distinct(runs)
    summaries, evidence = [run.summary for run in named], [run.evidence for run in named]
    paired = pair_all(named)
    flipped = [cases.find_flips(pair.baseline.evidence, pair.run.evidence) for pair in paired[:MAX_FLIP_BLOCKS]]
    parities = parities_of(paired)
    sections: tuple[Section | None, ...] = (
        _results(summaries, parities),
        trade_offs(summaries),
        differences(paired),
        ensembles_section(summaries),
        constrained_section(named),
        parity_section(paired, parities),
        ranking(evidence, paired),
        *judges_of(evidence),
        _quality(summaries),
        _flips(paired, flipped),
        samples_section(evidence),
        _performance(named),
        _configurations(summaries),
        *_provenances(summaries),
        limitations(summaries),
    )
    targets = plural(len(named), "run")
    return Document(
        scope="experiment",
        id=experiment_id,
        title=name,
        subtitle=f"{targets} on {_tasks(summaries)}; {_baselines(summaries, paired)}" if named else "No run",
        state=state.lower(),
        tone=tone_of("SUCCEEDED" if state == "DONE" else state),
        finished_at=max((summary.finished_at for summary in summaries), default="") or None,
        verdict=comparison_verdict(
            paired, flips=[flip for flips in flipped for flip in flips], gaps="".join(map(_gap, summaries))
        ),
        tiles=_tiles(summaries, paired),
        sections=tuple(section for section in sections if section is not None),
        headline=tuple(headline_row(summary) for summary in summaries),
        runs={summary.id: to_object(summary) for summary in summaries},
    )


def _tiles(runs: Sequence[RunSummary], paired: Sequence[Paired]) -> tuple[Tile, ...]:
    tiles = []
    for run in runs[:4]:
        quality = next(iter(overall(run)), None)
        latency = run.performance.times.get("latency_ms")
        tiles.append(
            Tile(
                label=run.name,
                value=write_number(quality.value) if quality else "–",
                detail=f"{quality.label if quality else 'no metric'}"
                + (marked(f" · p50 {milliseconds(latency.p50)}", run.performance) if latency else ""),
            )
        )
    tiles += [
        Tile(
            label=f"flips to {pair.run.name}",
            value=str(flips.broke + flips.mended),
            detail=f"{flips.broke} broke, {flips.mended} mended, of {write_number(flips.pairs, 0)}",
        )
        for pair in paired[:2]
        if (flips := pair.flips) is not None
    ]
    return tuple(tiles)


def _results(runs: Sequence[RunSummary], parities: Mapping[str, Parity]) -> Section:
    matrix = matrix_table(runs)
    return Section(
        name="results",
        title="Results",
        lead="The metrics, speeds and counts of every run over all its samples.",
        blocks=(
            *([matrix] if matrix is not None else []),
            _quality_table(runs, parities),
            Table(
                name="speed",
                title="Speed and memory",
                columns=(
                    Column(title="run"),
                    *(Column(title=title, kind="number") for title in _SPEEDS),
                    Column(title="speeds"),
                    Column(title="state"),
                ),
                rows=tuple(map(_speeds, runs)),
                note=(
                    "Speeds are valid if every gate in the section on performance holds. Peak memory is that of the "
                    "accelerators if the machine of the run has any, otherwise that of the engine's processes."
                ),
            ),
            counts_table([(run.name, run.counts) for run in runs]),
            _bounds_table(runs),
        ),
    )


def _quality_table(runs: Sequence[RunSummary], parities: Mapping[str, Parity]) -> Table:
    metrics = _columns(runs)
    rows: list[tuple[Cell, ...]] = []
    for run in runs:
        parity = parities.get(run.id)
        same = [share_of(parity) if parity is not None else None] if parities else []
        rows.append((run.name, *(_estimate(run, metric) for metric in metrics.values()), *same))
    return Table(
        name="headline",
        title="Quality",
        columns=(
            Column(title="run"),
            *(Column(title=metric, kind="estimate") for metric in metrics),
            *([Column(title="same text as the baseline", kind="estimate")] if parities else []),
        ),
        rows=tuple(rows),
        note=(
            "The 95 % intervals are of single runs. Whether two runs differ is shown by the paired differences below, "
            "not by an overlap of these intervals."
        ),
    )


def _speeds(run: RunSummary) -> tuple[Cell, ...]:
    """Return the row of a run in the table of speeds, in the order of `_SPEEDS`."""
    speeds = run.performance
    latency, first, per_token = (speeds.times.get(name) for name in ("latency_ms", "ttft_user_ms", "tpot_ms"))
    return (
        run.name,
        milliseconds(latency.p50 if latency else None),
        milliseconds(latency.p99 if latency else None),
        milliseconds(first.p50 if first else None),
        milliseconds(per_token.p50 if per_token else None),
        speeds.samples_per_s,
        speeds.output_tokens_per_s,
        size(speeds.peak_memory_bytes),
        (speeds.state or "–").replace("invalid", INVALID),
        run.state.lower(),
    )


def _bounds_table(runs: Sequence[RunSummary]) -> Table:
    return Table(
        name="bounds",
        title="Bounds",
        columns=(
            Column(title="run"),
            Column(title="metric"),
            *(Column(title=title, kind="number") for title in ("scored", "unscored", "lower bound", "upper bound")),
        ),
        rows=tuple(
            (
                run.name,
                quality.label,
                quality.n,
                quality.score.n_unscored,
                Estimate(value=quality.score.lower, digits=quality.estimate.digits),
                Estimate(value=quality.score.upper, digits=quality.estimate.digits),
            )
            for run in runs
            for quality in overall(run)
        ),
        note=f"{BOUNDS_NOTE}.",
        is_collapsed=True,
    )


def _columns(runs: Sequence[RunSummary]) -> dict[str, MetricIdentity]:
    """Return title → metric for each column; a metric that a later run defines differently has the run in its title."""
    columns: dict[str, MetricIdentity] = {}
    for run in runs:
        for metric in run.described:
            if not any(known.is_same(metric) for known in columns.values()):
                title = metric.label if metric.label not in columns else f"{metric.label}, as in {run.name}"
                columns[title] = metric
    return columns


def _estimate(run: RunSummary, metric: MetricIdentity) -> Estimate | None:
    return next((quality.estimate for quality in overall(run) if quality.identity.is_same(metric)), None)


def _quality(runs: Sequence[RunSummary]) -> Section:
    primary = runs[0].primary if runs else None
    blocks: list[Block] = []
    for column in runs[0].group_columns if runs else ():
        series = {
            run.name: [row for row in by_column(run).get(column, ()) if row.identity.is_same(primary)]
            for run in runs[:MAX_DRAWN_RUNS]
        }
        known = {name: rows for name, rows in series.items() if any(row.value is not None for row in rows)}
        if known:
            blocks.append(quality_figure(column, known))
    lead = "By the primary metric; the baseline's weakest group is at the top." if blocks else "There are no groups."
    lead += _cut(len(runs)) if blocks else ""
    return Section(name="quality", title="Quality by group", lead=lead, blocks=tuple(blocks))


def _flips(paired: Sequence[Paired], flipped: Sequence[Sequence[cases.Flip]]) -> Section:
    blocks: list[Block] = []
    for index, (pair, flips) in enumerate(zip(paired, flipped, strict=False), 1):
        if pair.flips is None or pair.flips.pairs == 0:
            continue
        baseline, run = pair.baseline, pair.run
        blocks.append(flip_matrix(baseline.name, run.name, pair.flips, index))
        if flips:
            max_cases = cases.MAX_FLIPS // len(flipped)
            blocks.append(cases.show_flips(baseline.evidence, run.evidence, flips, index=index, max_cases=max_cases))
    lead = "Answers that are right in one run and wrong in the other." if blocks else "No answers could be paired."
    return Section(name="flips", title="Answers that flipped", lead=lead, blocks=tuple(blocks))


def _performance(runs: Sequence[ReportedRun]) -> Section:
    timed = [run for run in runs if run.summary.performance.times]
    return compared_speeds([run.summary for run in timed], drawn=timed[:MAX_DRAWN_RUNS], cut=_cut(len(timed)))


def _cut(runs: int) -> str:
    """Say which runs figures leave out; empty if they show all."""
    if runs <= MAX_DRAWN_RUNS:
        return ""
    return f" Figures show the first {MAX_DRAWN_RUNS} of {runs} runs; the tables show all of them."


def _configurations(runs: Sequence[RunSummary]) -> Section:
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


def _provenances(runs: Sequence[RunSummary]) -> list[Section]:
    return [provenance(run, name=f"provenance-{i}", title=f"Provenance of {run.name}") for i, run in enumerate(runs, 1)]


def _distinct(runs: Sequence[ReportedRun]) -> list[ReportedRun]:
    """Give runs short, distinct names: parts that all names begin or end with are left out, equal names get ids."""
    parts = [_SEPARATOR.split(run.name) for run in runs]
    start = end = 0
    shortest = min((len(part) for part in parts), default=0)
    while len(runs) > 1 and start < shortest - 1 and len({part[start] for part in parts}) == 1:
        start += 1
    while len(runs) > 1 and end < shortest - start - 1 and len({part[-1 - end] for part in parts}) == 1:
        end += 1
    names = [" · ".join(part[start : len(part) - end]) for part in parts]
    counts = Counter(names)
    return [
        run.named(name if counts[name] == 1 else f"{name} {short(run.summary.id)}")
        for run, name in zip(runs, names, strict=True)
    ]


def _baselines(runs: Sequence[RunSummary], paired: Sequence[Paired]) -> str:
    names = baselines_of(paired) or [runs[0].name]
    return f"the baseline is {names[0]}" if len(names) == 1 else f"the baselines are {listed(names)}"


def _tasks(runs: Sequence[RunSummary]) -> str:
    return ", ".join(dict.fromkeys(f"{run.spec.task} with {run.spec.dataset.name}" for run in runs))
