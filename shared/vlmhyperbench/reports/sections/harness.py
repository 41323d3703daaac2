"""The cost of measuring: what the load generator used, as a table."""

from __future__ import annotations

from collections.abc import Sequence

from vlmhyperbench.analysis.labels import short
from vlmhyperbench.reports.document import Cell, Column, Table
from vlmhyperbench.reports.sections.wording import listed, percent, size
from vlmhyperbench.summaries.speeds import Harness


def harness_table(runs: Sequence[tuple[str, Harness | None]]) -> Table:
    """Return the cost of measuring one or several runs, a column each."""
    several = len(runs) > 1
    columns = [_cells(harness) for _, harness in runs]
    labels = max(columns, key=len, default={})
    partly = [run for run, harness in runs if harness is None or harness.recorded < harness.claims]
    note = "Used by the load generator, with start-up and warm-up; the worker that stores its record is not included."
    if partly:
        note += f" Not every claim recorded it{f': {listed(partly)}' if several else ''}."
    return Table(
        name="harness-cost",
        title="Cost of measuring",
        columns=(
            Column(title=""),
            *(Column(title=run if several else "load generator", kind="number") for run, _ in runs),
        ),
        rows=tuple((label, *(cells.get(label) for cells in columns)) for label in labels),
        note=note,
        is_collapsed=True,
    )


def _cells(harness: Harness | None) -> dict[str, Cell]:
    """Return the cells of a run's column by label, without what was not recorded."""
    if harness is None:
        return {}
    values: dict[str, tuple[float | None, str]] = {
        "processor time, all processes": (harness.cpu_s, "s"),
        "processor time, measuring processes": (harness.measuring_cpu_s, "s"),
        "processor time per 100 000 output tokens": (harness.cpu_s_per_100k_tokens, "s"),
        "processor time per 1 000 requests": (harness.cpu_s_per_1k_requests, "s"),
        "share of a core, all processes": (harness.core_share, "%"),
        "share of a core, busiest measuring process": (harness.busy_share, "%"),
        "peak memory, all processes": (harness.peak_rss_bytes, "B"),
        "peak memory, largest measuring process": (harness.measuring_rss_bytes, "B"),
        "start-up, until requests can be sent": (harness.startup_s, "s"),
        "measuring processes": (harness.processes, ""),
    }
    return {label: _written(value, unit) for label, (value, unit) in values.items() if value is not None}


def _written(value: float, unit: str) -> Cell:
    match unit:
        case "%":
            return percent(value)
        case "B":
            return size(value)
        case "":
            return int(value)
        case _:
            return f"{short(value)}\u00a0{unit}"
