"""What the answers of runs cost, as a table."""

from __future__ import annotations

from collections.abc import Sequence

from vlmhyperbench.analysis.costs import Cost
from vlmhyperbench.domain.specs import RunSpec
from vlmhyperbench.reports.document import Cell, Column, Table
from vlmhyperbench.reports.sections.validity import marked
from vlmhyperbench.reports.sections.wording import write_money
from vlmhyperbench.summaries.speeds import Performance

_COUNTED = (
    "Of the answers that this run asked for itself. Warm-up, the probe, failed requests and what is kept of other runs "
    "are not in it."
)
_HOURS = " A price by the hour is multiplied with the time from the first request to the last answer, loading excluded."


def prices_in_words(spec: RunSpec) -> str:
    """Say the prices with their source and date, or why there are none."""
    if spec.prices is None:
        return f"unknown: {spec.unpriced or 'none were recorded'}"
    return f"{spec.prices.in_words} ({spec.prices.origin})"


def marked_cost(text: str, performance: Performance) -> str:
    """Write beside the title of a cost that it is void: one by the hour is void where the speeds are."""
    return marked(text, performance) if performance.cost.basis == "hours" else text


def cost_table(runs: Sequence[tuple[str, Performance]]) -> Table:
    """Lay the cost of one or several runs out, a row each."""
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
                for title in ("per answer", "per million tokens", "per million completion tokens", "in all")
            ),
            Column(title="how it is known"),
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
    hours = "" if cost.hours is None else f"{cost.hours:.4g} hours"
    parts = (cost.per_answer, cost.per_million_tokens, cost.per_million_completion_tokens, cost.total)
    return (*("–" if part is None else write_money(cost, part) for part in parts), hours or "by the token")
