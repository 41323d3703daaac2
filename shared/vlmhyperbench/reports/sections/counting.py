"""The denominators of a report: how many requests were made, answered and scored, and why the others were not."""

from __future__ import annotations

from collections.abc import Sequence

from vlmhyperbench.reports.document import Column, Estimate, Table
from vlmhyperbench.summaries.summary import Counts


def counts_table(counted: Sequence[tuple[str, Counts]]) -> Table:
    """Show the denominators of one or several runs."""
    several = len(counted) > 1
    titles = ("requested", "answered", "scored", "model failures", "infrastructure failures", "unscored", "no row")
    rows = tuple(
        (
            *((name,) if several else ()),
            counts.requested,
            counts.answered,
            counts.scored,
            counts.model_failures,
            counts.infrastructure_failures,
            counts.unscored,
            counts.missing,
            Estimate(
                value=None if counts.truncation_rate is None else 100 * counts.truncation_rate, digits=1, suffix=" %"
            ),
        )
        for name, counts in counted
    )
    return Table(
        name="denominators",
        title="Denominators",
        columns=(
            *((Column(title="run"),) if several else ()),
            *(Column(title=title, kind="number") for title in titles),
            Column(title="cut off at the limit", kind="number"),
        ),
        rows=rows,
        note=(
            "A model failure counts against the model by the run's policy; an infrastructure failure never does. "
            "Scored rows include model failures that count as wrong."
        ),
        is_collapsed=all(counts.scored == counts.requested == counts.answered for _, counts in counted),
    )
