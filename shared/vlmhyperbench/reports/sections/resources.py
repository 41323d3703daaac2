"""Memory, utilisation and energy of the engine, as a table."""

from __future__ import annotations

from collections.abc import Sequence

from vlmhyperbench.analysis.labels import short
from vlmhyperbench.reports.document import Cell, Column, Table
from vlmhyperbench.reports.sections.wording import percent, size
from vlmhyperbench.summaries.speeds import Resources


def resources_table(runs: Sequence[tuple[str, Resources | None]]) -> Table | None:
    """Return the resources of one or several runs, a column each; None if nothing is known."""
    columns = [_cells(resources) for _, resources in runs]
    labels = list(dict.fromkeys(label for cells in columns for label in cells))
    if not labels:
        return None
    several = len(runs) > 1
    return Table(
        name="resources",
        title="Resources of the engine",
        columns=(Column(title=""), *(Column(title=run if several else "run", kind="number") for run, _ in runs)),
        rows=tuple((label, *(cells.get(label) for cells in columns)) for label in labels),
        note=(
            "Sampled ten times per second from the first sent request to the end of the last. Values of accelerators "
            "cover all accelerators of the machine, also if other processes use them; energy is their sampled power, "
            "integrated by the trapezoidal rule."
        ),
        is_collapsed=several,
    )


def _cells(resources: Resources | None) -> dict[str, Cell]:
    """Return the cells of a run's column by label, without unknown values."""
    if resources is None:
        return {}
    cells = (
        ("peak memory of the engine", resources.engine_memory_bytes, size),
        ("memory of the accelerators before the load", resources.accelerator_before_bytes, size),
        ("peak memory of the accelerators", resources.accelerator_memory_bytes, size),
        ("rise of the accelerators' memory by load and requests", resources.accelerator_delta_bytes, size),
        ("largest rise of the accelerators' memory during a request", resources.request_delta_bytes, size),
        ("utilisation of the accelerators, mean", resources.accelerator_share, percent),
        ("utilisation of the processor, mean", resources.cpu_share, percent),
        ("power of the accelerators, mean", resources.power_w, _watts),
        ("energy of the accelerators", resources.energy_j, _joules),
        ("energy per answer", resources.energy_j_per_answer, _joules),
        ("energy per 1 000 output tokens", resources.energy_j_per_1k_tokens, _joules),
        ("share of expected device samples", resources.coverage, percent),
    )
    return {label: write(value) for label, value, write in cells if value is not None}


def _watts(value: float) -> str:
    return f"{short(value)}\u00a0W"


def _joules(value: float) -> str:
    return f"{short(value)}\u00a0J"
