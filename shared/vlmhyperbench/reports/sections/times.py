"""The times of runs as tables: percentiles with intervals, and with failures as the slowest."""

from __future__ import annotations

from collections.abc import Sequence

from vlmhyperbench.analysis.results import Percentile
from vlmhyperbench.reports.document import Cell, Column, Estimate, Table
from vlmhyperbench.reports.sections.validity import INVALID, marked
from vlmhyperbench.summaries.performance import OF_THE_CLIENT
from vlmhyperbench.summaries.speeds import Performance

INTERRUPTED = "The run was interrupted: times before and after a restart are mixed, and its rates with them."
PARTIAL = "Speeds are those of a part of the run: it keeps answers of another, or its rule stopped it."
_SHOWN = (
    ("latency_ms", "latency, scheduled to last token"),
    ("ttft_user_ms", "TTFT from scheduled (the user's)"),
    ("ttft_service_ms", "TTFT from sent (the service's)"),
    ("tpot_ms", "TPOT, after the first token"),
    ("queue_ms", "client queue, scheduled to sent"),
)


def why_no_measure(performance: Performance) -> str:
    """Say in a sentence why the speeds are no measure of the run; empty where they are one, or void anyway."""
    if performance.is_invalid or not performance.is_no_measure:
        return ""
    return INTERRUPTED if performance.is_interrupted else PARTIAL


def times_table(performances: Sequence[tuple[str, Performance]], *, name: str = "times") -> Table:
    """Lay the percentiles of one or several runs out, kind of time by kind of time."""
    several = len(performances) > 1
    rows: list[tuple[Cell, ...]] = []
    for key, label in _SHOWN:
        for run, performance in performances:
            times = performance.times.get(key)
            if times is None:
                continue
            percentiles = [_percentile(found) for found in performance.percentiles[key]]
            cells = (_estimate(times.mean), *percentiles, _estimate(times.max))
            rows.append((label, *((marked(run, performance),) if several else ()), *cells, times.n))
    titles = ("mean, ms", "p50, ms", "p90, ms", "p99, ms", "max, ms")
    is_void = any(performance.is_invalid for _, performance in performances)
    return Table(
        name=name,
        title=f"Times\u00a0· {INVALID}" if is_void and not several else "Times",
        columns=(
            Column(title=""),
            *((Column(title="run"),) if several else ()),
            *(Column(title=title, kind="estimate") for title in titles),
            Column(title="requests", kind="number"),
        ),
        rows=tuple(rows),
        note=(
            "Percentiles are nearest rank on exact records of answered requests, by the client's one clock. Below "
            "them, where no request failed, their 95 % intervals: they lie between two measured values, and without "
            "one there are too few requests."
        ),
        is_collapsed=several,
    )


def adjusted_table(performances: Sequence[tuple[str, Performance]]) -> Table | None:
    """Lay percentiles in which failures are the slowest out, and what is certain of them; None where nothing failed."""
    several = len(performances) > 1
    rows = [
        (
            label,
            *((marked(run, performance),) if several else ()),
            f"p{found.percent:g}",
            _estimate(found.plain),
            Estimate(value=found.adjusted, low=found.low, high=found.high, digits=_digits(found.adjusted)),
            _estimate(found.certified),
            found.failed,
        )
        for key, label in _SHOWN
        for run, performance in performances
        if key not in OF_THE_CLIENT
        for found in performance.percentiles.get(key, ())
        if found.failed
    ]
    if not rows:
        return None
    return Table(
        name="adjusted-times",
        title="Times, failures as the slowest",
        columns=(
            Column(title=""),
            *((Column(title="run"),) if several else ()),
            Column(title="percentile"),
            *(Column(title=title, kind="estimate") for title in ("answered, ms", "all requests, ms", "certified, ms")),
            Column(title="failed", kind="number"),
        ),
        rows=tuple(rows),
        note=(
            "A request that failed, or got an answer without a token, takes for ever; a dash is infinite, or what too "
            "few requests cannot certify. Certified: with 99 % confidence the true percentile is not above it "
            "(MLPerf's early stopping)."
        ),
        is_collapsed=True,
    )


def _percentile(found: Percentile) -> Estimate:
    """A percentile of answered requests; its interval is that of all, so failures leave none to show beside it."""
    low, high = (found.low, found.high) if not found.failed else (None, None)
    return Estimate(value=found.plain, low=low, high=high, digits=_digits(found.plain))


def _estimate(value: float | None) -> Estimate:
    return Estimate(value=value, digits=_digits(value))


def _digits(value: float | None) -> int:
    return 2 if value is None or value < 10 else 1 if value < 100 else 0
