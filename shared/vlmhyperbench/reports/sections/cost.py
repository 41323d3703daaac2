"""The cost of the answers of runs, as a table."""

from __future__ import annotations

from collections.abc import Sequence

from vlmhyperbench.analysis.costs import Cost
from vlmhyperbench.domain.specs import RunSpec
from vlmhyperbench.reports.document import Cell, Column, Table
from vlmhyperbench.reports.sections.validity import marked
from vlmhyperbench.reports.sections.wording import write_money
from vlmhyperbench.summaries.speeds import Performance

_COUNTED = (
    "The cost covers the answers to the run's own requests, without warm-up, the probe, failed requests and answers "
    "that are reused from other runs."
)
_HOURS = " A price per hour is multiplied by the time from the first request to the last answer, without loading."


def prices_in_words(spec: RunSpec) -> str:
    """Return the prices with their source and date, or the reason why there are none."""
    if spec.prices is None:
        return f"unknown: {spec.unpriced or 'none were recorded'}"
    return f"{spec.prices.in_words} ({spec.prices.origin})"


def marked_cost(text: str, performance: Performance) -> str:
    """Mark the title of a cost as invalid: a cost by the hour is, if the speeds are."""
    return marked(text, performance) if performance.cost.basis == "hours" else text


def cost_table(runs: Sequence[tuple[str, Performance]]) -> Table:
    """Return the cost of one or several runs, a row each."""
    costs = [performance.cost for _, performance in runs]
    currencies = {cost.currency for cost in costs if cost.total is not None}
    note = _COUNTED + (_HOURS if any(cost.basis == "hours" for cost in costs) else "")
    if len(currencies) > 1:
        note += " Amounts of different currencies are not compared."
    several = len(runs) > 1
    return Table(
        name="cost",
        title="Cost" if several else marked_cost("Cost", runs[0][1]),
        columns=(
            *((Column(title="run"),) if several else ()),
            *(
                Column(title=title, kind="number")
                for title in ("per answer", "per million tokens", "per million completion tokens", "total")
            ),
            Column(title="computed from"),
        ),
        rows=tuple(
            (*((marked_cost(name, performance),) if several else ()), *_cells(performance.cost))
            for name, performance in runs
        ),
        note=note,
        is_collapsed=not currencies,
    )


def _cells(cost: Cost) -> tuple[Cell, ...]:
    if cost.total is None:
        return (*["unknown"] * 4, cost.unknown)
    basis = "tokens" if cost.hours is None else f"{cost.hours:.4g} hours"
    parts = (cost.per_answer, cost.per_million_tokens, cost.per_million_completion_tokens, cost.total)
    return (*("–" if part is None else write_money(cost, part) for part in parts), basis)
