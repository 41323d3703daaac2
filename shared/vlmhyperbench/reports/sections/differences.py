"""Differences of runs from the baseline of their data set: paired, with intervals, and the matrix of flips."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from vlmhyperbench.analysis.comparison import Delta, Flips, adjust_together, compare_metrics, count_flips
from vlmhyperbench.analysis.figures import Axis, FigureSpec, Point, interval_figure, matrix_figure
from vlmhyperbench.reports.document import Cell, Column, Estimate, Section, Table, write_number
from vlmhyperbench.reports.runs import ReportedRun
from vlmhyperbench.reports.sections.answers import measured
from vlmhyperbench.reports.sections.wording import percent, plural

_PAIRED = "Runs are compared sample by sample, so that easy and hard questions cancel out."
_BASELINES = "The baseline of a data set is its first run."
MAX_DRAWN_RUNS = 8
"""Figures with a series per run show the first ones; tables show them all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Paired:
    """A run with its differences from the baseline of its data set."""

    baseline: ReportedRun
    run: ReportedRun
    deltas: list[Delta]
    flips: Flips | None

    @property
    def against(self) -> str:
        """Names of both runs."""
        return f"{self.run.name} against {self.baseline.name}"


def pair_all(runs: Sequence[ReportedRun]) -> list[Paired]:
    """Pair every run with the first run of its data set, the baseline; p-values are adjusted over all pairs."""
    paired = []
    for no, run in enumerate(runs):
        baseline = next((earlier for earlier in runs[:no] if run.evidence.may_be_paired_with(earlier.evidence)), None)
        if baseline is not None:
            paired.append(pair_runs(baseline, run))
    adjusted = adjust_together([pair.deltas for pair in paired])
    return [replace(pair, deltas=deltas) for pair, deltas in zip(paired, adjusted, strict=True)]


def baselines_of(paired: Sequence[Paired]) -> list[str]:
    """Name the runs that others are compared with."""
    return list(dict.fromkeys(pair.baseline.name for pair in paired))


def pair_runs(baseline: ReportedRun, run: ReportedRun) -> Paired:
    """Compare a run with a baseline of the same data set, metric by metric and answer by answer."""
    first, second = ([measured(side.evidence, scored) for scored in side.evidence.scored] for side in (baseline, run))
    deltas = compare_metrics(first, second)
    primary, flips = baseline.summary.primary, None
    if primary is not None and primary.is_same(run.summary.primary) and primary.perfect is not None:
        flips = count_flips(first[0], second[0], perfect=primary.perfect)
    return Paired(baseline=baseline, run=run, deltas=deltas, flips=flips)


def differences(paired: Sequence[Paired]) -> Section:
    """Return the section of paired differences: a table, and a figure if there are several numbers to draw."""
    several, baselines = len(paired) > 1, baselines_of(paired)
    known = [
        (pair.run.name if len(baselines) == 1 else pair.against, delta)
        for pair in paired
        for delta in pair.deltas
        if delta.difference is not None
    ]
    gaps = [
        f"{pair.run.name}: {unpaired_sentence(delta)}" if several else unpaired_sentence(delta)
        for pair in paired
        for delta in pair.deltas
        if delta.lost
    ]
    if any(pair.run.summary.manifest_id != pair.baseline.summary.manifest_id for pair in paired):
        gaps.insert(0, "Not all runs have the same samples; samples that two runs have are paired by their keys.")
    if not known:
        lead = " ".join(["No run can be paired with a baseline.", *gaps])
        return Section(name="differences", title="Differences from the baseline", lead=lead, blocks=())
    table = delta_table(known, is_named=several)
    return Section(
        name="differences",
        title="Differences from the baseline",
        lead=" ".join([_PAIRED, *([_BASELINES] if len(baselines) > 1 else []), *gaps]),
        blocks=(table, _figure(paired)) if len([1 for _, delta in known if delta.direction]) > 1 else (table,),
    )


def unpaired_sentence(delta: Delta) -> str:
    """Say how many answers a difference does not include."""
    total = plural(delta.pairs + delta.lost, "answer")
    return (
        f"{delta.label} compares {delta.pairs} of {total}; for the others, one of the runs has no answer or no value."
    )


def delta_table(known: Sequence[tuple[str, Delta]], *, is_named: bool) -> Table:
    """Return the table of differences, given with their runs' names; `is_named` shows the names."""
    reach = max((abs(end) / delta.scale for _, delta in known for end in _ends(delta)), default=0.0)
    rows = tuple((*((name,) if is_named else ()), *_row(delta, reach)) for name, delta in known)
    return Table(
        name="deltas",
        title="",
        columns=(
            *((Column(title="run"),) if is_named else ()),
            Column(title="metric"),
            Column(title="baseline", kind="number"),
            Column(title="other", kind="number"),
            Column(title="difference (95 % interval)", kind="estimate"),
            Column(title="p", kind="number"),
            Column(title="p (Holm)", kind="number"),
            Column(title="detectable", kind="number"),
            Column(title="pairs", kind="number"),
            Column(title="better / same / worse", kind="number"),
            Column(title="verdict"),
        ),
        rows=rows,
        note=(
            "Differences are other minus baseline, on the answers that both runs have, with documents as units. The "
            "test is McNemar's exact test for proportions of independent samples, otherwise a permutation test. "
            "p (Holm) is adjusted for the number of tests, one for each metric of each run. A run is better or worse "
            "if the interval excludes 0, the adjusted p is below 0.05 and the difference is at least 0.5 % of the "
            "metric's scale. Two runs are equivalent if two one-sided tests show a difference below 2 % of it. "
            "Detectable is the smallest true difference that this number of documents shows in 80 of 100 comparisons."
        ),
    )


def _row(delta: Delta, reach: float) -> tuple[Cell, ...]:
    digits = 1 if delta.scale > 1 else 3
    half = reach * delta.scale
    why = why_they_disagree(delta)
    return (
        delta.label,
        Estimate(value=delta.baseline, digits=digits),
        Estimate(value=delta.other, digits=digits),
        Estimate(
            value=delta.difference,
            low=delta.low,
            high=delta.high,
            digits=digits,
            is_signed=True,
            scale=(-half, half) if half else None,
        ),
        _p(delta.p_value),
        _p(delta.p_adjusted),
        "–" if delta.detectable is None else f"±{delta.detectable:.{digits}f}",
        delta.pairs,
        "–" if delta.wins is None else f"{delta.wins} / {delta.ties} / {delta.losses}",
        f"{delta.verdict}: {why}" if why else delta.verdict,
    )


def _p(value: float | None) -> str:
    return "–" if value is None else "< 0.001" if value < 0.001 else write_number(value)


def why_they_disagree(delta: Delta) -> str:
    """Return a clause that says why interval and p-values of a difference disagree; empty if they agree."""
    match delta.disagreement:
        case "test":
            return (
                "the interval excludes 0 but the test does not; the interval is an approximation, which is inaccurate "
                "if few documents differ"
            )
        case "interval":
            return "the test excludes 0 but the interval, an approximation, does not; a difference needs both"
        case "holm":
            return f"a single test would show a difference, but among {delta.tested} tests it may be chance"
        case None:
            return ""


def _ends(delta: Delta) -> list[float]:
    return [end for end in (delta.difference, delta.low, delta.high) if end is not None]


def _figure(paired: Sequence[Paired]) -> FigureSpec:
    drawn = [pair for pair in paired if any(delta.direction for delta in pair.deltas)]
    return improvement_figure({pair.run.name: pair.deltas for pair in drawn[:MAX_DRAWN_RUNS]})


class Improvement(Protocol):
    """What is drawn of a paired difference."""

    @property
    def label(self) -> str: ...
    @property
    def direction(self) -> str | None: ...
    @property
    def scale(self) -> float: ...
    @property
    def difference(self) -> float | None: ...
    @property
    def low(self) -> float | None: ...
    @property
    def high(self) -> float | None: ...
    @property
    def pairs(self) -> int: ...


def improvement_figure(runs: Mapping[str, Sequence[Improvement]]) -> FigureSpec:
    """Draw by how much runs are better than the baseline in each metric that has a direction."""
    return interval_figure(
        "differences-figure",
        "How much better than the baseline",
        axis=Axis(title="improvement, % of the metric's scale"),
        groups="metric",
        series={name: [_point(delta) for delta in deltas if delta.direction] for name, deltas in runs.items()},
        zero_line="no difference",
        note="Right of the line is better for every metric, also if lower values are; lines are 95 % intervals.",
    )


def _point(delta: Improvement) -> Point:
    factor = 100 / delta.scale * (1 if delta.direction == "higher" else -1)
    ends = sorted(end * factor for end in (delta.low, delta.high) if end is not None)
    return Point(
        label=delta.label,
        value=None if delta.difference is None else delta.difference * factor,
        low=ends[0] if len(ends) == 2 else None,
        high=ends[1] if len(ends) == 2 else None,
        n=delta.pairs,
    )


def flip_matrix(baseline: str, other: str, flips: Flips, index: int) -> FigureSpec:
    """Draw how often an answer is right or wrong in both runs; `index` distinguishes the matrices of a report."""
    largest = max(flips.both_right, flips.broke, flips.mended, flips.both_wrong, 1)

    def cell(number: int) -> tuple[float, str]:
        return number / largest, f"{number} ({percent(number / flips.pairs)})"

    return matrix_figure(
        f"flip-matrix-{index}",
        f"Right and wrong in {baseline} and {other}",
        rows=(baseline, ["right", "wrong"]),
        columns=(other, ["right", "wrong"]),
        cells={
            ("right", "right"): cell(flips.both_right),
            ("right", "wrong"): cell(flips.broke),
            ("wrong", "right"): cell(flips.mended),
            ("wrong", "wrong"): cell(flips.both_wrong),
        },
        note=f"Rows are {baseline}, columns {other}.",
    )
