"""A pipeline against its members: whether it was worth it, what each adds, how they agree, and where the time goes."""

from __future__ import annotations

from collections.abc import Sequence

from vlmhyperbench.analysis.calibration import Calibration
from vlmhyperbench.analysis.ensemble_costs import CRITICAL_PATH
from vlmhyperbench.analysis.ensembles import Oracle, Uplift
from vlmhyperbench.analysis.figures import Axis, FigureSpec, Point, interval_figure
from vlmhyperbench.analysis.results import Interval
from vlmhyperbench.reports.document import (
    Block,
    Column,
    Estimate,
    Facts,
    Section,
    Table,
    write_estimate,
    write_interval,
    write_number,
)
from vlmhyperbench.reports.sections.wording import percent, plural, size
from vlmhyperbench.summaries.ensemble_records import EnsembleSummary
from vlmhyperbench.summaries.summary import RunSummary

_COUNTED = {
    True: "Members' answers are scored as the stage {stage} counted them, without reasoning.",
    False: (
        "The result is the answer of the stage {stage}, the last one in which several answer. It and the members' "
        "answers, as that stage counted them, without reasoning, are scored as if they were the pipeline's."
    ),
}
"""Whether the stage is the last one → what was scored."""
ONE_SAMPLE = "Documents are the units of the intervals (95 %)."


def ensemble_section(summary: RunSummary) -> Section | None:
    """Return the section on the pipeline of a run; None of another target."""
    found = summary.ensemble
    if found is None:
        return None
    blocks: tuple[Block | None, ...] = (
        _members(found, found.uplift) if found.uplift else None,
        _values(found, found.uplift) if found.uplift else None,
        _facts(found),
        _oracles(found.oracles, found.metric) if found.oracles else None,
        _reliability(found.calibration) if found.calibration else None,
        _asked(found),
        _waterfall(found) if found.bars else None,
    )
    return Section(
        name="ensemble",
        title="Ensemble",
        lead=_lead(found),
        blocks=tuple(block for block in blocks if block is not None),
    )


def ensembles_section(runs: Sequence[RunSummary]) -> Section | None:
    """Return whether each pipeline among several runs was worth it; None where none was compared with its members."""
    told = [(run.name, run.ensemble.verdict.text) for run in runs if run.ensemble and run.ensemble.verdict is not None]
    if not told:
        return None
    return Section(
        name="ensembles",
        title="Ensembles",
        lead="Each pipeline against the best of its members, on its own samples; its own report has the details.",
        blocks=(Facts(title="", items=tuple(told)),),
    )


def _lead(found: EnsembleSummary) -> str:
    if found.verdict is not None:
        return found.verdict.text
    asked = f"{found.pipeline} asked {plural(len(found.asked), 'model')} for its answers."
    return f"{asked} {found.unscored}" if found.unscored else asked


def _members(found: EnsembleSummary, uplift: Uplift) -> Table:
    values = {value.name: value for value in found.values}
    scored = _COUNTED[found.is_last].format(stage=found.stage)
    return Table(
        name="ensemble-members",
        title="Members",
        columns=(
            Column(title="member"),
            Column(title=found.metric, kind="estimate"),
            Column(title="result is better by", kind="estimate"),
            Column(title="p", kind="number"),
            Column(title="best in resamples", kind="number"),
            Column(title="result with it is better by", kind="estimate"),
            Column(title="answers that it changes", kind="number"),
        ),
        rows=tuple(
            (
                member.name,
                _estimate(member.value, member.interval),
                _estimate(member.uplift, member.uplift_interval, is_signed=True),
                write_number(member.p_value, 3),
                percent(member.best_share),
                _estimate(value.value, value.interval, is_signed=True) if value is not None else None,
                value.changed if value is not None else None,
            )
            for member in uplift.members
            for value in (values.get(member.name),)
        ),
        note=(
            f"On the {plural(uplift.samples, 'sample')} that result and members all have a value for "
            f"({uplift.left_out} left out). {scored} The last two columns compare with the answers that the others "
            f"give without the member, combined again with no model. {ONE_SAMPLE}"
        ),
    )


def _values(found: EnsembleSummary, uplift: Uplift) -> FigureSpec:
    def point(label: str, value: float, interval: Interval | None) -> Point:
        return Point(
            label=label,
            value=value,
            low=interval.low if interval else None,
            high=interval.high if interval else None,
            n=uplift.samples,
        )

    members = [point(member.name, member.value, member.interval) for member in uplift.members]
    result = found.pipeline if found.is_last else f"{found.pipeline}: {found.stage}"
    return interval_figure(
        "ensemble-values",
        "The pipeline and its members alone",
        axis=Axis(title=found.metric),
        groups="answers of",
        series={found.metric: [point(result, uplift.value, uplift.interval), *members]},
        note="Intervals of single values; whether a difference is shown, the paired intervals of the table tell.",
    )


def _facts(found: EnsembleSummary) -> Facts:
    items: list[tuple[str, str]] = []
    if found.uplift is not None:
        if not found.is_last:
            items.append(("Compared stage", found.stage))
        over = Estimate(value=found.uplift.uplift, low=found.uplift.low, high=found.uplift.high, is_signed=True)
        ends = write_interval(over)
        same = " (the same in every document)" if found.uplift.is_constant else ""
        interval = f" (95 %: {ends}; the best member is chosen anew in each resample)" if ends else same
        items.append((f"Uplift over {found.uplift.best}", f"{write_estimate(over)}{interval}"))
    if found.costs is not None:
        items += [
            ("Uplift per extra second of compute", _ratio(found.costs.uplift_per_s)),
            ("Uplift per extra GB of memory", _ratio(found.costs.uplift_per_gb)),
        ]
    if found.agreement is not None:
        alpha = found.agreement
        same = f"{alpha.unanimous} of {plural(alpha.samples, 'sample')} unanimous"
        items.append(("Agreement of the members", f"{write_number(alpha.value)} (Krippendorff's alpha; {same})"))
    if found.latency_p50_s is not None and found.latency_p90_s is not None:
        times = f"{found.latency_p50_s:.3g} s, 90th percentile {found.latency_p90_s:.3g} s"
        items.append(("Latency, median", f"{times} ({CRITICAL_PATH}: no loading, no waiting, a device for each model)"))
    if found.untimed:
        left = f"{plural(found.untimed, 'sample')}, for which a model was asked whose time is unknown"
        items.append(("Left out of all times", left))
    return Facts(title="", items=tuple(items))


def _oracles(oracles: tuple[Oracle, ...], metric: str) -> Table:
    return Table(
        name="ensemble-oracles",
        title="What choosing right could reach",
        columns=(Column(title="members", kind="number"), Column(title=metric, kind="estimate")),
        rows=tuple((oracle.k, _estimate(oracle.value, oracle.interval)) for oracle in oracles),
        note=(
            "oracle@k: the value of always picking the best answer of k members, averaged over all choices of k. No "
            f"real rule of choice reaches it. {ONE_SAMPLE}"
        ),
    )


def _reliability(found: Calibration) -> Table:
    return Table(
        name="ensemble-calibration",
        title="How far the vote's confidence can be trusted",
        columns=(
            Column(title="confidence above"),
            Column(title="up to"),
            Column(title="answers", kind="number"),
            Column(title="mean confidence", kind="number"),
            Column(title="right", kind="estimate"),
        ),
        rows=tuple(
            (
                write_number(part.low, 1),
                write_number(part.high, 1),
                part.n,
                write_number(part.confidence),
                _estimate(part.right, part.interval, scale=(0.0, 1.0)),
            )
            for part in found.bins
        ),
        note=(
            f"{plural(found.n, 'answer')}: mean confidence {write_number(found.mean_confidence)}, right "
            f"{write_number(found.right)}; expected calibration error {write_number(found.ece)}, which few answers "
            f"make too large; Brier score {write_number(found.brier)}{_ends(found.brier_interval)}."
        ),
    )


def _asked(found: EnsembleSummary) -> Table:
    return Table(
        name="ensemble-steps",
        title="Steps",
        columns=(
            Column(title="stage"),
            Column(title="model"),
            Column(title="role"),
            Column(title="asked", kind="number"),
            Column(title="reused", kind="number"),
            Column(title="failed", kind="number"),
            Column(title="seconds per answer", kind="number"),
            Column(title="peak memory", kind="number"),
        ),
        rows=tuple(
            (
                step.stage,
                step.model,
                step.role,
                step.answers,
                step.reused,
                step.failed,
                write_number(step.seconds),
                size(step.peak_bytes),
            )
            for step in found.asked
        ),
        note="Rows of these steps are not answers of the run; its request counts do not include them.",
    )


def _waterfall(found: EnsembleSummary) -> FigureSpec:
    return interval_figure(
        "ensemble-waterfall",
        "Mean time of an answer by step",
        axis=Axis(title="time after the question", unit="s", low=0.0),
        groups="step",
        series={
            "step": [
                Point(label=f"{no}. {bar.stage}: {bar.model}", value=bar.end_s, low=bar.start_s, high=bar.end_s)
                for no, bar in enumerate(found.bars, 1)
            ]
        },
        note=f"From start to end of each step along the {CRITICAL_PATH}.",
    )


def _estimate(
    value: float | None,
    interval: Interval | None,
    *,
    is_signed: bool = False,
    scale: tuple[float, float] | None = None,
) -> Estimate:
    low, high = (interval.low, interval.high) if interval else (None, None)
    return Estimate(value=value, low=low, high=high, is_signed=is_signed, scale=scale)


def _ratio(value: float | None) -> str:
    return "–" if value is None else f"{value:+.3g}"


def _ends(interval: Interval | None) -> str:
    return f" (95 %: {write_number(interval.low)} to {write_number(interval.high)})" if interval else ""
