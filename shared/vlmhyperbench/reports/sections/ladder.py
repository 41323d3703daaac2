"""The ladder of structural fidelity as a table: the share of answers on each level, unchanged and after repair.

A metric takes part by the names of its additive statistics: `l0` to `l6`, and their denominators.
"""

from __future__ import annotations

from collections.abc import Mapping

from vlmhyperbench.analysis.labels import slug
from vlmhyperbench.reports.document import Cell, Column, Table
from vlmhyperbench.reports.sections.wording import percent, plural
from vlmhyperbench.summaries.evidence import RunEvidence, ScoredMetric

_NAMES = frozenset({"l0", "l1", "l2_repaired", "l3", "l3_repaired", "count", "has_reference", "has_schema"})
LEVELS: tuple[tuple[str, tuple[str, str], tuple[str, str] | None], ...] = (
    ("L0 not empty", ("l0", "count"), None),
    ("L1 strict JSON; L2 after repair", ("l1", "count"), ("l2_repaired", "count")),
    ("L3 valid by its schema", ("l3", "count"), ("l3_repaired", "count")),
    ("L4 precision of keys", ("l4_tp", "l4_predicted"), ("l4_tp_repaired", "l4_predicted_repaired")),
    ("L4 recall of keys", ("l4_tp", "l4_expected"), ("l4_tp_repaired", "l4_expected")),
    ("L5 closeness of values", ("l5_sum", "l5_count"), ("l5_sum_repaired", "l5_count_repaired")),
    ("L6 whole document exact", ("l6", "has_reference"), ("l6_repaired", "has_reference")),
)
"""Level, and (part, whole) of the unchanged and of the repaired answers."""


def ladders(run: RunEvidence) -> list[Table]:
    """Return the ladder of every metric that counts its levels."""
    return [table for scored in run.scored if (table := _ladder(scored)) is not None]


def counts_levels(scored: ScoredMetric) -> bool:
    """Return whether a metric counts the levels of its answers."""
    return {name.removeprefix("stat.") for name in scored.measures.columns} >= _NAMES


def _ladder(scored: ScoredMetric) -> Table | None:
    frame = scored.measures
    sums = {
        name.removeprefix("stat."): float(frame[name].sum() or 0.0)
        for name in frame.columns
        if name.startswith("stat.")
    }
    if not counts_levels(scored) or not sums["count"]:
        return None
    rows: list[tuple[Cell, ...]] = [
        (title, percent(_share(sums, *unchanged)), percent(_share(sums, *repaired)) if repaired else "")
        for title, unchanged, repaired in LEVELS
    ]
    return Table(
        name=f"ladder-{slug(scored.key)}",
        title=f"{scored.label}: the ladder",
        columns=(
            Column(title="level"),
            Column(title="unchanged", kind="number"),
            Column(title="after repair", kind="number"),
        ),
        rows=tuple(rows),
        note=(
            f"Over {plural(round(sums['count']), 'answer')}, {round(sums['has_schema'])} with a schema; L4 to L6 over "
            f"the {round(sums['has_reference'])} whose reference is JSON. Repair cuts out the first code fence or "
            "balanced object, and changes nothing inside; it does not count towards the score."
        ),
    )


def _share(sums: Mapping[str, float], part: str, whole: str) -> float | None:
    return sums.get(part, 0.0) / sums[whole] if sums.get(whole) else None
