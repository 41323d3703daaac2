"""Who is in the denominator: what was requested, answered, scored, and who is to blame for the rest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import polars

from vlmhyperbench.reports.document import Column, Estimate, Table
from vlmhyperbench.reports.evidence import RunEvidence


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """Requests of the phases that count."""

    requested: int
    answered: int
    scored: int
    """Rows for which the primary metric has a value."""
    model_failures: int
    infrastructure_failures: int
    unscored: int
    """Answered, but the primary metric gives no number."""
    truncated: int
    """Answers that ended at the token limit."""
    missing: int
    """Requested, but without any row: the run ended early."""

    @property
    def truncation_rate(self) -> float | None:
        return self.truncated / self.answered if self.answered else None


def count(run: RunEvidence) -> Counts:
    """Count a run's rows."""
    facts = run.facts
    failed = facts.filter(polars.col("status") != "ok")
    model = failed.filter((polars.col("status") == "error") & (polars.col("failure") == "model")).height
    answered = facts.height - failed.height
    truncated = facts.filter((polars.col("status") == "ok") & (polars.col("finish_reason") == "length")).height
    scored = unscored = 0
    if run.primary is not None:
        measures = run.primary.measures.filter(polars.col("field").is_null())
        scored = measures.filter(polars.col("value").is_not_null()).height
        unscored = measures.filter(polars.col("outcome") == "unscored").height
    requested = facts.height if run.is_stopped else max(run.total or 0, facts.height)
    return Counts(
        requested=requested,
        answered=answered,
        scored=scored,
        model_failures=model,
        infrastructure_failures=failed.height - model,
        unscored=unscored,
        truncated=truncated,
        missing=requested - facts.height,
    )


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
