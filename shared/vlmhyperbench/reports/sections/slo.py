"""The SLO of a run as a table: each limit, whether it is met for certain, and the goodput."""

from __future__ import annotations

from collections.abc import Sequence

from vlmhyperbench.analysis.results import Goodput, LimitVerdict
from vlmhyperbench.reports.document import Column, Estimate, Table
from vlmhyperbench.reports.sections.wording import milliseconds, percent


def slo_table(judged: Sequence[tuple[str, Goodput | None, Sequence[LimitVerdict]]]) -> Table | None:
    """Return limits and goodput of one or several runs; None if no run has an SLO."""
    several = len(judged) > 1
    rows = []
    for run, goodput, limits in judged:
        named = (run,) if several else ()
        for limit in limits:
            verdict = "met" if limit.is_certain else "met, not for certain" if limit.is_kept else "exceeded"
            what = f"{limit.name} ≤ {milliseconds(limit.limit_ms)}"
            rows.append((*named, what, milliseconds(limit.value_ms), limit.n, limit.over, verdict))
        if goodput is not None:
            share = f"{percent(goodput.share)} of the requests"
            rate = Estimate(value=goodput.per_s, low=goodput.low_per_s, high=goodput.high_per_s, digits=2)
            rows.append(
                (*named, "goodput, requests/s", rate, goodput.scheduled, goodput.scheduled - goodput.met, share)
            )
    if not rows:
        return None
    return Table(
        name="slo",
        title="SLO",
        columns=(
            *((Column(title="run"),) if several else ()),
            Column(title="limit"),
            Column(title="value", kind="estimate"),
            Column(title="requests", kind="number"),
            Column(title="over the limit", kind="number"),
            Column(title="verdict"),
        ),
        rows=tuple(rows),
        note=(
            "A failed request exceeds every limit; a percentile among the failures is infinite, shown as a dash. "
            "Certain means that the true percentile is within the limit with 99 % confidence. The goodput has a 95 % "
            "interval by Wilson."
        ),
    )
