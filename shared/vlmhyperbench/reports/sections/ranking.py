"""Wins against the baseline, and how certain the order of several runs is."""

from __future__ import annotations

from collections.abc import Sequence

from vlmhyperbench.analysis import stats
from vlmhyperbench.analysis.comparison import Measured
from vlmhyperbench.analysis.figures import Axis, FigureSpec, Point, interval_figure, matrix_figure, stacked_figure
from vlmhyperbench.analysis.ranking import common_answers, rank_measured
from vlmhyperbench.analysis.ranks import RankSpread
from vlmhyperbench.reports.document import Block, Section, write_number
from vlmhyperbench.reports.sections.answers import measured
from vlmhyperbench.reports.sections.differences import Paired
from vlmhyperbench.reports.sections.wording import in_sentence, percent, plural
from vlmhyperbench.summaries.evidence import RunEvidence

MAX_BARS = 24
MAX_RANKED = 40
MAX_RANKS = 12
"""The ranks of more runs are drawn as intervals instead of shares."""


def ranking(runs: Sequence[RunEvidence], paired: Sequence[Paired], *, seed: int = 0) -> Section | None:
    """Return the section of wins and ranks; None if no runs can be paired."""
    blocks: list[Block] = [figure for figure in (wins(paired), ranks(runs, seed=seed)) if figure is not None]
    if not blocks:
        return None
    lead = "Each answer compared with the baseline's, and the order of all runs."
    return Section(name="ranking", title="Wins and ranks", lead=lead, blocks=tuple(blocks))


def wins(paired: Sequence[Paired]) -> FigureSpec | None:
    """Draw how often each run's answer scores better, the same or worse than the baseline's, metric by metric."""
    bars = {
        f"{pair.run.name} · {delta.label}" if len(paired) > 1 else delta.label: (delta.wins, delta.ties, delta.losses)
        for pair in paired
        for delta in pair.deltas
        if delta.wins is not None and delta.losses is not None
    }
    if not bars:
        return None
    left_out = len(bars) - MAX_BARS
    more = f" {plural(left_out, 'further row is', 'further rows are')} not drawn." if left_out > 0 else ""
    return stacked_figure(
        "wins",
        "Better, same and worse answers than the baseline's",
        axis=Axis(title="answers that both have"),
        groups="metric" if len(paired) == 1 else "run and metric",
        parts=[("better", "good"), ("same", "neutral"), ("worse", "bad")],
        rows=dict(list(bars.items())[:MAX_BARS]),
        note=f"A better answer is closer to the reference by the metric, whatever its direction.{more}",
    )


def ranks(runs: Sequence[RunEvidence], *, seed: int = 0) -> FigureSpec | None:
    """Draw the ranks of runs by the primary metric over resamples of the documents, on the answers that all have."""
    compared = _compared(runs)
    if len(compared) < 2 or (direction := compared[0][1].description.direction) is None:
        return None
    order = rank_measured([metric for _, metric in compared], direction=direction, seed=seed)
    if order is None:
        return None
    ranked = sorted(zip((run.name for run, _ in compared), order.spreads, strict=True), key=lambda pair: pair[1].rank)
    note = (
        f"By {in_sentence(compared[0][1].label)}, on {plural(order.answers, 'answer')} on "
        f"{plural(order.documents, 'document')}, "
        f"that all of these runs have; {write_number(stats.RESAMPLES, 0)} resamples of documents, seed {seed}. Equal "
        "runs share the better rank."
    )
    return _matrix(ranked, note) if len(ranked) <= MAX_RANKS else _intervals(ranked, note)


def _compared(runs: Sequence[RunEvidence]) -> list[tuple[RunEvidence, Measured]]:
    """Return the runs that have the first run's primary metric and share answers with it."""
    compared: list[tuple[RunEvidence, Measured]] = []
    for run in runs[:MAX_RANKED]:
        if run.primary is None:
            continue
        metric = measured(run, run.primary)
        is_alike = not compared or (metric.is_same(compared[0][1]) and run.may_be_paired_with(compared[0][0]))
        if is_alike and common_answers([*(other.frame for _, other in compared[:1]), metric.frame]).height:
            compared.append((run, metric))
    return compared


def _matrix(ranked: Sequence[tuple[str, RankSpread]], note: str) -> FigureSpec:
    numbers = [str(rank) for rank in range(1, len(ranked) + 1)]
    return matrix_figure(
        "ranks",
        "Certainty of the order",
        rows=("run", [name for name, _ in ranked]),
        columns=("rank", numbers),
        cells={
            (name, rank): (share, percent(share, digits=0))
            for name, spread in ranked
            for rank, share in zip(numbers, spread.shares, strict=True)
            if share > 0
        },
        note=f"Share of resamples in which a run has a rank; empty cells are 0. {note}",
    )


def _intervals(ranked: Sequence[tuple[str, RankSpread]], note: str) -> FigureSpec:
    return interval_figure(
        "ranks",
        "Certainty of the order",
        axis=Axis(title="rank, 1 is best"),
        groups="run",
        series={
            "rank": [Point(label=name, value=spread.rank, low=spread.low, high=spread.high) for name, spread in ranked]
        },
        note=f"Lines cover 95 % of the ranks. {note}",
    )
