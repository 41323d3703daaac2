"""The section on performance of one or several runs: sentences, tables and figures, marked if speeds are invalid."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from vlmhyperbench.analysis.distributions import Ordered
from vlmhyperbench.analysis.figures import (
    Axis,
    FigureSpec,
    Load,
    cdf_figure,
    load_figure,
    log_histogram_figure,
)
from vlmhyperbench.domain.slo import slo_metric, slo_percent
from vlmhyperbench.reports.document import Block, Section
from vlmhyperbench.reports.runs import ReportedRun
from vlmhyperbench.reports.sections.cost import cost_table
from vlmhyperbench.reports.sections.harness import harness_table
from vlmhyperbench.reports.sections.lengths import length_figures
from vlmhyperbench.reports.sections.progress import progress_figures, progress_of
from vlmhyperbench.reports.sections.resources import resources_table
from vlmhyperbench.reports.sections.sharing import sharing_tables
from vlmhyperbench.reports.sections.slo import slo_table
from vlmhyperbench.reports.sections.times import adjusted_table, times_table, why_no_measure
from vlmhyperbench.reports.sections.validity import INVALID, marked, say_validity, validity_table
from vlmhyperbench.reports.sections.wording import listed, milliseconds, path_of, plural, upper_first
from vlmhyperbench.summaries.evidence import RunEvidence
from vlmhyperbench.summaries.headline import target_of
from vlmhyperbench.summaries.performance import times_of
from vlmhyperbench.summaries.speeds import Performance
from vlmhyperbench.summaries.summary import RunSummary
from vlmhyperbench.summaries.tokens import gaps_ms

_LATENCY = Axis(title="latency, scheduled to last token", unit="ms")
_TTFT = Axis(title="time to first token, as the user waits", unit="ms")
_TPOT = Axis(title="time per output token, after the first", unit="ms")
_ITL = Axis(title="gap before a token", unit="ms")
_OF_LOADS = (
    ("latency", "latency_ms", "latency"),
    ("ttft", "ttft_user_ms", "time to first token"),
    ("tpot", "tpot_ms", "time per output token"),
)
_LOOPS = {False: "closed loop", True: "open loop"}


def run_speed(summary: RunSummary, run: RunEvidence) -> Section:
    """Return the section of a run; its evidence gives the figures of single requests."""
    performance = summary.performance
    if not performance.times:
        return _untimed("No request of this run was timed.")
    scenario, progress = summary.spec.scenario, progress_of(run)
    window = f"{performance.window_s:.1f} s" if performance.window_s is not None else "an unknown time"
    warm = f", after {plural(scenario.warmup_requests, 'warm-up request')}" if scenario.warmup_requests else ""
    sentences = [
        say_validity(performance),
        why_no_measure(performance),
        f"Scenario {scenario.name}: {scenario.in_words} over {window}{warm}. All times are taken at the client.",
        *_not_drawn(performance, is_drawn_over_time=progress is not None),
    ]
    loads = load_figures([summary]) if scenario.slo.limits_ms else []
    of_speed = [
        *_distributions([(summary.name, run)]),
        *(progress_figures(progress) if progress is not None else []),
        *loads,
    ]
    drawn = [replace(figure, title=marked(figure.title, performance)) for figure in of_speed]
    shared = [replace(table, title=marked(table.title, performance)) for table in sharing_tables(run)]
    lead = " ".join(sentence for sentence in sentences if sentence)
    return _section(lead, [summary], [*shared, *drawn, *length_figures(run)])


def compared_speeds(runs: Sequence[RunSummary], *, drawn: Sequence[ReportedRun], cut: str) -> Section:
    """Return the section of several runs.

    Args:
        runs: the timed runs.
        drawn: the runs whose distributions are drawn.
        cut: the sentence on runs that are not drawn, or an empty text.
    """
    if not runs:
        return _untimed("No request was timed.")
    invalid = [run.name for run in runs if run.performance.is_invalid]
    lead = f"All times are taken at the client, over the answered requests of each run.{cut}"
    if invalid:
        lead = f"{INVALID} as measurements are the speeds of {listed(invalid)}. {lead}"
    named = [(marked(run.name, run.summary.performance), run.evidence) for run in drawn]
    return _section(lead, runs, [*load_figures(runs), *_distributions(named)])


def load_figures(runs: Sequence[RunSummary]) -> list[FigureSpec]:
    """Draw throughput against the p99 of latency, and of other times that an SLO limits.

    The lines of the SLO are drawn if all runs with an SLO have the same. A run without a rate or such a time has no
    point.
    """
    limits = [dict(run.spec.scenario.slo.limits_ms) for run in runs if run.spec.scenario.slo.limits_ms]
    shared = limits[0] if limits and all(of_run == limits[0] for of_run in limits) else {}
    bounded = {slo_metric(name) for of_run in limits for name in of_run}
    asked = len({(run.spec.dataset.name, run.spec.task) for run in runs})
    figures = []
    for metric, key, words in _OF_LOADS:
        loads = [load for run in runs if (load := _load(run, key, asked)) is not None]
        if loads and (metric == "latency" or metric in bounded):
            figures.append(
                load_figure(
                    f"throughput-and-{metric}",
                    f"Throughput against {words}",
                    y=Axis(title=f"{words}, p99", unit="ms"),
                    loads=loads,
                    limits=_lines(shared, metric),
                    note=_how_to_read(loads),
                )
            )
    return figures


def _section(lead: str, runs: Sequence[RunSummary], drawn: Sequence[Block]) -> Section:
    named = [(run.name, run.performance) for run in runs]
    slo = slo_table([(marked(name, speeds), speeds.goodput, speeds.slo) for name, speeds in named])
    adjusted = adjusted_table(named)
    if len(named) == 1:
        speeds = named[0][1]
        slo, adjusted = (table and replace(table, title=marked(table.title, speeds)) for table in (slo, adjusted))
    harnesses = [(name, speeds.harness) for name, speeds in named]
    resources = resources_table([(name, speeds.resources) for name, speeds in named])
    blocks: list[Block] = [
        validity_table(named),
        *([slo] if slo is not None else []),
        times_table(named),
        *([adjusted] if adjusted is not None else []),
        *drawn,
        *([resources] if resources is not None else []),
        cost_table(named),
        *([harness_table(harnesses)] if any(harness is not None for _, harness in harnesses) else []),
    ]
    return Section(name="performance", title="Performance", lead=lead, blocks=tuple(blocks))


def _untimed(lead: str) -> Section:
    return Section(name="performance", title="Performance", lead=lead, blocks=())


def _not_drawn(performance: Performance, *, is_drawn_over_time: bool) -> list[str]:
    """Say which figures and tables are missing, and why."""
    missing = []
    if performance.gaps_ms is None:
        missing.append(
            "Gaps between tokens are not drawn: no answer came in several events, or they were not recorded."
        )
    if not is_drawn_over_time:
        missing.append("Requests over time are not drawn: the clocks of the claims have no common origin.")
    if performance.harness is None:
        missing.append("The cost of measuring was not recorded.")
    return missing


def _distributions(runs: Sequence[tuple[str, RunEvidence]]) -> list[FigureSpec]:
    """Draw the distributions of all times that at least one run has."""
    figures: list[FigureSpec] = []
    times = [(name, times_of(run)) for name, run in runs]
    latency, ttft, tpot = (_series(times, key) for key in ("latency_ms", "ttft_user_ms", "tpot_ms"))
    gaps = {name: gaps_ms(run.events) for name, run in runs if run.events is not None and run.events.gap_counts.any()}
    if latency:
        figures.append(
            cdf_figure(
                "latency",
                "Latency of answered requests",
                axis=_LATENCY,
                series=latency,
                note="The curve is the share of requests with at most this latency; further left is faster.",
            )
        )
    if ttft:
        figures.append(log_histogram_figure("ttft", "Time to first token", axis=_TTFT, series=ttft))
    if tpot:
        note = "Answers of a single token have no time per output token."
        figures.append(log_histogram_figure("tpot", "Time per output token", axis=_TPOT, series=tpot, note=note))
    if gaps:
        figures.append(
            cdf_figure(
                "gaps",
                "Gaps between tokens",
                axis=_ITL,
                series=gaps,
                of="tokens",
                note=(
                    f"Gaps of {_tokens(gaps)} after the first, in buckets 1 % wide. Tokens that arrive together share "
                    "the gap before them."
                ),
            )
        )
    return figures


def _series(times: Sequence[tuple[str, Mapping[str, Ordered]]], key: str) -> dict[str, Ordered]:
    return {name: of_run[key] for name, of_run in times if key in of_run}


def _tokens(gaps: Mapping[str, Ordered]) -> str:
    return plural(sum(of_run.n for of_run in gaps.values()), "token")


def _load(run: RunSummary, key: str, asked: int) -> Load | None:
    """Make the point of a run; `asked` is the number of tasks and data sets, which are named if there are several."""
    performance = run.performance
    times, rate = performance.times.get(key), performance.samples_per_s
    if times is None or times.p99 is None or rate is None or performance.is_no_measure:
        return None
    goodput, spec = performance.goodput, run.spec
    of = f", {spec.task} on {spec.dataset.name}" if asked > 1 else ""
    return Load(
        group=f"{target_of(spec)} through {path_of(spec)}, {_LOOPS[spec.scenario.arrivals is not None]}{of}",
        label=marked(run.name, performance),
        rate_per_s=rate,
        value=times.p99,
        goodput_per_s=goodput.per_s if goodput is not None else None,
    )


def _lines(limits: Mapping[str, float], metric: str) -> dict[str, float]:
    """Return the limits of the SLO on the p99 of a time."""
    return {
        f"SLO: {name} ≤ {milliseconds(limit)}": limit
        for name, limit in limits.items()
        if slo_metric(name) == metric and slo_percent(name) == 99
    }


def _how_to_read(loads: Sequence[Load]) -> str:
    lines = len({load.group for load in loads}) < len(loads)
    parts = ["further right and further down is better"]
    if lines:
        parts.append("a line joins the loads of one kind on one target")
    if any(load.goodput_per_s is not None for load in loads):
        parts.append("the distance from a point to its goodput on the left is the rate that missed the SLO")
    return f"{upper_first('; '.join(parts))}."
