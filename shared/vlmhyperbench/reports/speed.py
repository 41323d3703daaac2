"""The chapter on performance, of one run and of several: what it says, draws and lays out, and what is void of it."""

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
from vlmhyperbench.reports.cost import cost_table
from vlmhyperbench.reports.document import Block, Section
from vlmhyperbench.reports.evidence import RunEvidence
from vlmhyperbench.reports.lengths import length_figures
from vlmhyperbench.reports.performance import Performance, adjusted_table, times_table
from vlmhyperbench.reports.progress import progress_figures
from vlmhyperbench.reports.resources import resources_table
from vlmhyperbench.reports.sharing import sharing_tables
from vlmhyperbench.reports.slo import slo_table
from vlmhyperbench.reports.target_cost import cost_table as prices_table
from vlmhyperbench.reports.validity import INVALID, marked, say_validity, validity_table
from vlmhyperbench.reports.wording import listed, milliseconds, path_of, plural, target_of, upper_first

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
Timed = tuple[RunEvidence, Performance]


def run_speed(run: RunEvidence, performance: Performance) -> Section:
    """Return the chapter of one run."""
    if not performance.times:
        return _nothing("No request of this run was timed.")
    scenario = run.spec.scenario
    window = f"{performance.window_s:.1f} s" if performance.window_s is not None else "an unknown time"
    warm = f", after {plural(scenario.warmup_requests, 'warm-up request')}" if scenario.warmup_requests else ""
    said = [
        say_validity(performance.validity),
        performance.why_no_measure,
        f"Scenario {scenario.name}: {scenario.in_words} over {window}{warm}. Timed at the client only.",
        *_not_drawn(performance),
    ]
    named = [(run.name, performance)]
    loads = load_figures([(run, performance)]) if scenario.slo.limits_ms else []
    progress = performance.progress
    of_speed = [
        *_distributions(named),
        *(progress_figures(progress) if progress is not None else []),
        *loads,
    ]
    void = performance.validity
    drawn = [replace(figure, title=marked(figure.title, void)) for figure in of_speed]
    shared = [replace(table, title=marked(table.title, void)) for table in sharing_tables(run)]
    lead = " ".join(sentence for sentence in said if sentence)
    return _chapter(lead, [(run, performance)], [*shared, *drawn, *length_figures(run)])


def compared_speeds(runs: Sequence[Timed], *, drawn: Sequence[Timed], cut: str) -> Section:
    """Return the chapter of several runs.

    Args:
        runs: all that were timed.
        drawn: those whose distributions are drawn.
        cut: says which ones figures leave out, or nothing.
    """
    if not runs:
        return _nothing("No request was timed.")
    void = [run.name for run, one in runs if one.validity.is_invalid]
    lead = f"Timed at the client only, over each run's own answered requests.{cut}"
    if void:
        lead = f"{INVALID} as measurements of speed are those of {listed(void)}. {lead}"
    named = [(marked(run.name, performance.validity), performance) for run, performance in drawn]
    return _chapter(lead, runs, [*load_figures(runs), *_distributions(named)])


def load_figures(runs: Sequence[Timed]) -> list[FigureSpec]:
    """Draw throughput against the p99 of latency, and of whatever else an SLO bounds.

    A line of the SLO is drawn where all that have one have the same; a run without a rate or such a time has no point.
    """
    limits = [dict(run.spec.scenario.slo.limits_ms) for run, _ in runs if run.spec.scenario.slo.limits_ms]
    shared = limits[0] if limits and all(one == limits[0] for one in limits) else {}
    bounded = {slo_metric(name) for one in limits for name in one}
    asked = len({(run.spec.dataset.name, run.spec.task) for run, _ in runs})
    figures = []
    for metric, key, words in _OF_LOADS:
        loads = [load for run, performance in runs if (load := _load(run, performance, key, asked)) is not None]
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


def _chapter(lead: str, runs: Sequence[Timed], drawn: Sequence[Block]) -> Section:
    named = [(run.name, performance) for run, performance in runs]
    slo = slo_table([(marked(name, one.validity), one.goodput, one.limits) for name, one in named])
    adjusted = adjusted_table(named)
    if len(named) == 1:
        validity = named[0][1].validity
        slo, adjusted = (table and replace(table, title=marked(table.title, validity)) for table in (slo, adjusted))
    costs = [(name, one.cost) for name, one in named]
    taken = resources_table([(name, one.resources) for name, one in named])
    blocks: list[Block] = [
        validity_table([(name, one.validity) for name, one in named]),
        *([slo] if slo is not None else []),
        times_table(named),
        *([adjusted] if adjusted is not None else []),
        *drawn,
        *([taken] if taken is not None else []),
        prices_table([(name, one.price) for name, one in named]),
        *([cost_table(costs)] if any(cost is not None for _, cost in costs) else []),
    ]
    return Section(name="performance", title="Performance", lead=lead, blocks=tuple(blocks))


def _nothing(lead: str) -> Section:
    return Section(name="performance", title="Performance", lead=lead, blocks=())


def _not_drawn(performance: Performance) -> list[str]:
    """Say which figures are not there, and why."""
    found = []
    if performance.gaps is None:
        found.append("Gaps between tokens are not drawn: no answer came in more than one piece, or nobody kept when.")
    if performance.progress is None:
        found.append("Its course over time is not drawn: the claims' clocks cannot be tied together.")
    if performance.cost is None:
        found.append("What measuring took was not recorded.")
    return found


def _distributions(runs: Sequence[tuple[str, Performance]]) -> list[FigureSpec]:
    """Draw the times that somebody has."""
    found: list[FigureSpec] = []
    latency, ttft, tpot = (_series(runs, key) for key in ("latency_ms", "ttft_user_ms", "tpot_ms"))
    gaps = {name: one.gaps for name, one in runs if one.gaps is not None}
    if latency:
        found.append(
            cdf_figure(
                "latency",
                "Latency of answered requests",
                axis=_LATENCY,
                series=latency,
                note="A point says what share of the requests was at least so fast: further left is faster.",
            )
        )
    if ttft:
        found.append(log_histogram_figure("ttft", "Time to first token", axis=_TTFT, series=ttft))
    if tpot:
        note = "Answers of one token have none."
        found.append(log_histogram_figure("tpot", "Time per output token", axis=_TPOT, series=tpot, note=note))
    if gaps:
        found.append(
            cdf_figure(
                "gaps",
                "Gaps between tokens",
                axis=_ITL,
                series=gaps,
                of="tokens",
                note=(
                    f"Of {_tokens(gaps)} after the first ones, in buckets 1 % wide. Tokens that came together share "
                    "the gap before them."
                ),
            )
        )
    return found


def _series(runs: Sequence[tuple[str, Performance]], key: str) -> dict[str, Ordered]:
    return {name: one.values[key] for name, one in runs if key in one.values}


def _tokens(gaps: Mapping[str, Ordered]) -> str:
    return plural(sum(found.n for found in gaps.values()), "token")


def _load(run: RunEvidence, performance: Performance, key: str, asked: int) -> Load | None:
    """Make a point; `asked` is how many things all runs were asked: what differs in that is no load of one kind."""
    times, rate = performance.times.get(key), performance.samples_per_s
    if times is None or times.p99 is None or rate is None or performance.is_no_measure:
        return None
    goodput, spec = performance.goodput, run.spec
    of = f", {spec.task} on {spec.dataset.name}" if asked > 1 else ""
    return Load(
        group=f"{target_of(spec)} through {path_of(spec)}, {_LOOPS[spec.scenario.arrivals is not None]}{of}",
        label=marked(run.name, performance.validity),
        rate_per_s=rate,
        value=times.p99,
        goodput_per_s=goodput.per_s if goodput is not None else None,
    )


def _lines(limits: Mapping[str, float], metric: str) -> dict[str, float]:
    """The SLO's lines that can be held against a p99."""
    return {
        f"SLO: {name} ≤ {milliseconds(limit)}": limit
        for name, limit in limits.items()
        if slo_metric(name) == metric and slo_percent(name) == 99
    }


def _how_to_read(loads: Sequence[Load]) -> str:
    lines = len({load.group for load in loads}) < len(loads)
    parts = ["further right and further down is better"]
    if lines:
        parts.append("loads of one kind on one target are joined")
    if any(load.goodput_per_s is not None for load in loads):
        parts.append("how far the goodput lies to the left of its point is what broke the SLO")
    return f"{upper_first('; '.join(parts))}."
