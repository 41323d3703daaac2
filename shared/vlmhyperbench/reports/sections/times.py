"""The times of runs as tables: percentiles with intervals, and percentiles that count failures as the slowest."""

from __future__ import annotations

from collections.abc import Sequence

from vlmhyperbench.analysis.results import Percentile
from vlmhyperbench.reports.document import Cell, Column, Estimate, Table
from vlmhyperbench.reports.sections.validity import INVALID, marked
from vlmhyperbench.summaries.performance import OF_THE_CLIENT
from vlmhyperbench.summaries.speeds import Performance

INTERRUPTED = "The run was interrupted: its times and rates mix those before and after a restart."
RETUNED = "The requests in flight were changed while the run was measured: its times and rates mix concurrencies."
PARTIAL = "Speeds are those of a part of the run: it reuses answers of another run, or its rule stopped it."
_SHOWN = (
    ("latency_ms", "latency, scheduled to last token"),
    ("ttft_user_ms", "TTFT from scheduled (the user's)"),
    ("ttft_service_ms", "TTFT from sent (the service's)"),
    ("tpot_ms", "TPOT, after the first token"),
    ("queue_ms", "client queue, scheduled to sent"),
)


def why_no_measure(performance: Performance) -> str:
    """Say why the speeds do not measure the whole run; empty if they do, or are invalid anyway."""
    if performance.is_invalid or not performance.is_no_measure:
        return ""
    if performance.is_interrupted:
        return INTERRUPTED
    return RETUNED if performance.is_retuned else PARTIAL


def times_table(performances: Sequence[tuple[str, Performance]]) -> Table:
    """Return the percentiles of one or several runs, a row for each kind of time."""
    several = len(performances) > 1
    rows: list[tuple[Cell, ...]] = []
    for key, label in _SHOWN:
        for run, performance in performances:
            times = performance.times.get(key)
            if times is None:
                continue
            percentiles = [_percentile(percentile) for percentile in performance.percentiles[key]]
            cells = (_estimate(times.mean), *percentiles, _estimate(times.max))
            rows.append((label, *((marked(run, performance),) if several else ()), *cells, times.n))
    titles = ("mean, ms", "p50, ms", "p90, ms", "p99, ms", "max, ms")
    is_void = any(performance.is_invalid for _, performance in performances)
    return Table(
        name="times",
        title=f"Times\u00a0· {INVALID}" if is_void and not several else "Times",
        columns=(
            Column(title=""),
            *((Column(title="run"),) if several else ()),
            *(Column(title=title, kind="estimate") for title in titles),
            Column(title="requests", kind="number"),
        ),
        rows=tuple(rows),
        note=(
            "Percentiles are by the nearest rank over answered requests, by the clock of the client. If no request "
            "failed, their 95 % intervals are below them; an interval lies between two measured values and is missing "
            "if there are too few requests."
        ),
        is_collapsed=several,
    )


def adjusted_table(performances: Sequence[tuple[str, Performance]]) -> Table | None:
    """Return percentiles with failures as the slowest, and their certified bounds; None if no request failed."""
    several = len(performances) > 1
    rows = [
        (
            label,
            *((marked(run, performance),) if several else ()),
            f"p{percentile.percent:g}",
            _estimate(percentile.plain),
            _adjusted(percentile),
            _estimate(percentile.certified),
            percentile.failed,
        )
        for key, label in _SHOWN
        for run, performance in performances
        if key not in OF_THE_CLIENT
        for percentile in performance.percentiles.get(key, ())
        if percentile.failed
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
            "A request that failed, or got an answer without a token, counts as infinitely slow. A dash is infinite, "
            "or cannot be certified with so few requests. Certified means that the true percentile is not higher with "
            "99 % confidence (MLPerf's early stopping)."
        ),
        is_collapsed=True,
    )


def _percentile(percentile: Percentile) -> Estimate:
    """Return a percentile of answered requests; its interval is that of all requests, so failures exclude it."""
    low, high = (percentile.low, percentile.high) if not percentile.failed else (None, None)
    return Estimate(value=percentile.plain, low=low, high=high, digits=_digits(percentile.plain))


def _adjusted(percentile: Percentile) -> Estimate:
    """Return a percentile of all requests, with failures as the slowest."""
    value = percentile.adjusted
    return Estimate(value=value, low=percentile.low, high=percentile.high, digits=_digits(value))


def _estimate(value: float | None) -> Estimate:
    return Estimate(value=value, digits=_digits(value))


def _digits(value: float | None) -> int:
    return 2 if value is None or value < 10 else 1 if value < 100 else 0
