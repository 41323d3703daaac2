"""The numbers at the top of a run's report, and its section on results."""

from __future__ import annotations

from vlmhyperbench.reports.document import Section, Tile, write_estimate, write_interval, write_number
from vlmhyperbench.reports.sections.cost import marked_cost
from vlmhyperbench.reports.sections.counting import counts_table
from vlmhyperbench.reports.sections.quality import headline_table, overall
from vlmhyperbench.reports.sections.validity import marked, tone_of_speed
from vlmhyperbench.reports.sections.wording import milliseconds, percent, plural, size, write_money
from vlmhyperbench.summaries.summary import RunSummary


def tiles_of(summary: RunSummary) -> tuple[Tile, ...]:
    """Return the few numbers at the top."""
    performance, counts = summary.performance, summary.counts
    tiles = [
        Tile(
            label=quality.label,
            value=write_estimate(quality.estimate),
            detail=write_interval(quality.estimate) or f"{quality.n} scored",
        )
        for quality in overall(summary)[:2]
    ]
    latency, first = performance.times.get("latency_ms"), performance.times.get("ttft_user_ms")
    if latency is not None:
        detail = f"p99 {milliseconds(latency.p99)}"
        if first is not None:
            detail += f", first token {milliseconds(first.p50)}"
        label = marked("latency, p50", performance)
        tiles.append(Tile(label=label, value=milliseconds(latency.p50), detail=detail, tone=tone_of_speed(performance)))
    if performance.samples_per_s is not None:
        tokens = performance.output_tokens_per_s
        detail = f"{write_number(tokens, 0)} output tokens/s" if tokens is not None else "tokens unknown"
        label, value = marked("answers/s", performance), f"{performance.samples_per_s:.1f}"
        tiles.append(Tile(label=label, value=value, detail=detail, tone=tone_of_speed(performance)))
    if performance.peak_memory_bytes is not None:
        of = "of all accelerators" if performance.peak_memory_of == "accelerators" else "of the engine"
        tiles.append(Tile(label="peak memory", value=size(performance.peak_memory_bytes), detail=of))
    cost = performance.cost
    if cost.per_answer is not None:
        detail = f"{write_money(cost)} in total"
        if cost.per_million_tokens is not None:
            detail += f", {write_money(cost, cost.per_million_tokens)} per million tokens"
        label, value = marked_cost("cost per answer", performance), write_money(cost, cost.per_answer)
        tone = tone_of_speed(performance) if cost.basis == "hours" else "neutral"
        tiles.append(Tile(label=label, value=value, detail=detail, tone=tone))
    failures = counts.model_failures + counts.infrastructure_failures + counts.missing
    stopped = ", then it stopped" if summary.is_stopped else ""
    tiles.append(
        Tile(
            label="answered",
            value=percent(counts.answered / counts.requested if counts.requested else None),
            detail=f"of {plural(counts.requested, 'request')}, {failures} failed{stopped}",
        )
    )
    return tuple(tiles)


def results_section(summary: RunSummary) -> Section:
    """Return the section on results: every metric, and the denominators."""
    return Section(
        name="results",
        title="Results",
        lead="Every metric over all samples, and the denominators.",
        blocks=(headline_table(overall(summary)), counts_table([("", summary.counts)])),
    )
