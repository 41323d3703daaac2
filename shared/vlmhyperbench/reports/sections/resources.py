"""What the engine took, as a table."""

from __future__ import annotations

from collections.abc import Sequence

from vlmhyperbench.analysis.labels import short
from vlmhyperbench.reports.document import Cell, Column, Table
from vlmhyperbench.reports.sections.wording import percent, size
from vlmhyperbench.summaries.speeds import Resources


def resources_table(runs: Sequence[tuple[str, Resources | None]]) -> Table | None:
    """Lay out what one or several runs took, a column each; None where nobody knows anything."""
    columns = [_cells(found) for _, found in runs]
    labels = list(dict.fromkeys(label for cells in columns for label in cells))
    if not labels:
        return None
    several = len(runs) > 1
    return Table(
        name="resources",
        title="What the engine took",
        columns=(Column(title=""), *(Column(title=run if several else "run", kind="number") for run, _ in runs)),
        rows=tuple((label, *(cells.get(label) for cells in columns)) for label in labels),
        note=(
            "Sampled ten times a second between the first request sent and the last one's end. Accelerators are all "
            "those of the machine, whoever uses them; energy is the trapezoid of their sampled power."
        ),
        is_collapsed=several,
    )


def _cells(found: Resources | None) -> dict[str, Cell]:
    """What stands in a run's column, by label; what nobody knows is missing."""
    if found is None:
        return {}
    cells = (
        ("peak memory of the engine", found.engine_memory_bytes, size),
        ("peak memory of the accelerators", found.accelerator_memory_bytes, size),
        ("utilisation of the accelerators, mean", found.accelerator_share, percent),
        ("utilisation of the processor, mean", found.cpu_share, percent),
        ("power of the accelerators, mean", found.power_w, _watts),
        ("energy of the accelerators", found.energy_j, _joules),
        ("energy per answer", found.energy_j_per_answer, _joules),
        ("energy per 1 000 output tokens", found.energy_j_per_1k_tokens, _joules),
        ("samples that exist of those expected", found.coverage, percent),
    )
    return {label: write(value) for label, value, write in cells if value is not None}


def _watts(value: float) -> str:
    return f"{short(value)}\u00a0W"


def _joules(value: float) -> str:
    return f"{short(value)}\u00a0J"
