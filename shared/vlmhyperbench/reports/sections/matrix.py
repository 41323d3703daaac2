"""The table of models by tasks of an experiment: each cell has the run's primary metric with its interval."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from vlmhyperbench.domain.response_formats import format_name
from vlmhyperbench.reports.document import Cell, Column, Table
from vlmhyperbench.reports.sections.quality import overall
from vlmhyperbench.summaries.headline import target_of
from vlmhyperbench.summaries.summary import RunSummary


def matrix_table(runs: Sequence[RunSummary]) -> Table | None:
    """Return the table; None if there is a single model with a single task and response format.

    A column is a task and a primary metric, so that a column never mixes metrics. A row is a model, and where runs have
    different response formats, a model with one of them. If several runs share a cell, their rows have their names.
    """
    targets, tasks = {target_of(run.spec) for run in runs}, {run.spec.task for run in runs}
    formats = {_format(run) for run in runs}
    if len(targets) < 2 and len(tasks) < 2 and len(formats) < 2:
        return None
    rows: dict[tuple[str, str], dict[tuple[str, str], Cell]] = {}
    named = _labels(runs)
    several = len(formats) > 1
    columns = list(dict.fromkeys((run.spec.task, run.primary.label) for run in runs if run.primary is not None))
    for run in runs:
        row = rows.setdefault((named[run.id], _format(run)), {})
        for quality in overall(run)[:1]:
            row[run.spec.task, quality.label] = quality.estimate
    return Table(
        name="matrix",
        title="Models × tasks",
        columns=(
            Column(title="model"),
            *([Column(title="response format")] if several else []),
            *(Column(title=f"{task} · {metric}", kind="estimate") for task, metric in columns),
        ),
        rows=tuple(
            (*(key if several else key[:1]), *(cells.get(column) for column in columns)) for key, cells in rows.items()
        ),
        note="The primary metric of each task with the 95 % interval of each run; a dash is a run without a score.",
    )


def _labels(runs: Sequence[RunSummary]) -> Mapping[str, str]:
    """Return run id → name of its row: the model, or the name of the run if several runs would share a cell."""
    counts = Counter((target_of(run.spec), run.spec.task, _format(run)) for run in runs)
    several = {target for (target, _, _), count in counts.items() if count > 1}
    return {run.id: run.name if target_of(run.spec) in several else target_of(run.spec) for run in runs}


def _format(run: RunSummary) -> str:
    return format_name(run.spec.response_format)
