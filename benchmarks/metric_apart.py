"""What it costs to run a metric in a process of its own: the same metric on the same answers, here and there.

Usage: python -m benchmarks.metric_apart [ANSWERS]    The process has this interpreter, so that only the way differs.
"""

from __future__ import annotations

import platform
import random
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from uuid import uuid4

from rich.console import Console
from rich.table import Table

from vlmhyperbench.metric_process import MetricHost, end_processes
from vlmhyperbench.processes import child_environment
from vlmhyperbench.scoring.apart import open_apart
from vlmhyperbench.scoring.measuring import measure_all
from vlmhyperbench_sdk.discovery import construct_metric
from vlmhyperbench_sdk.protocols import Metric

ANSWERS = 10_000
RESAMPLES = 2_000
ROUNDS = 7
METRICS = ("exact_match", "anls", "cer")
_WORDS = ("total", "of", "the", "invoice", "is", "12.50", "EUR", "and", "paid", "in", "May", "by", "card")


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """Medians of rounds in turn."""

    opened_s: float
    """Starting the process and opening the metric."""
    here_s: float
    apart_s: float
    combined_here_s: float
    """Combining the sums of `RESAMPLES` resamples."""
    combined_apart_s: float


def main(answers: int) -> None:
    """Measure several metrics and print a table."""
    table = Table("metric", "to open", "here", "apart", "added per answer", f"{RESAMPLES:,} sums here", "apart")
    for name in METRICS:
        cost = cost_of(name, answers)
        added_us = (cost.apart_s - cost.here_s) / answers * 1e6
        combined = (f"{cost.combined_here_s * 1e3:.1f} ms", f"{cost.combined_apart_s * 1e3:.1f} ms")
        times = (f"{cost.opened_s:.2f} s", f"{cost.here_s:.3f} s", f"{cost.apart_s:.3f} s", f"{added_us:.1f} µs")
        table.add_row(name, *times, *combined)
    table.title = f"{answers:,} answers, Python {platform.python_version()}, medians of {ROUNDS}"
    Console().print(table)


def cost_of(name: str, answers: int) -> Cost:
    """Measure one metric; exit if any value differs."""
    draw = random.Random(0)
    texts = [" ".join(draw.choices(_WORDS, k=6)) for _ in range(answers)]
    accepted = [(" ".join(draw.choices(_WORDS, k=6)), "12.50") for _ in range(answers)]
    metadata = [{"question": "What is the total?"}] * answers
    host = MetricHost(
        python=sys.executable,
        packages={},
        mark=uuid4().hex,
        variables=child_environment(),
        memory_bytes=4 * 1024**3,
        reply_s=600,
    )
    own = construct_metric(name, {}, name=name)
    start = time.perf_counter()
    metric = open_apart(name, {}, optional={}, name=name, host=host)
    opened_s = time.perf_counter() - start
    try:

        def measure(measured: Metric) -> Callable[[], object]:
            return lambda: measure_all(measured, texts, accepted, metadata)

        if measure(own)() != measure(metric)():
            raise SystemExit(f"{name} has other measures in its process.")
        names = tuple(own.measure(texts[:1], accepted[:1]).statistics)
        rows = [tuple(draw.random() + 1 for _ in names) for _ in range(RESAMPLES)]
        here_s, apart_s = _medians(measure(own), measure(metric))
        combined_here_s, combined_apart_s = _medians(
            lambda: [own.combine(dict(zip(names, row, strict=True))) for row in rows],
            lambda: metric.combine.of_rows(names, rows),
        )
    finally:
        end_processes(host.mark)
    return Cost(
        opened_s=opened_s,
        here_s=here_s,
        apart_s=apart_s,
        combined_here_s=combined_here_s,
        combined_apart_s=combined_apart_s,
    )


def _medians(first: Callable[[], object], second: Callable[[], object]) -> tuple[float, float]:
    """Return the median times of two calls, measured in turn."""
    times: list[tuple[float, float]] = []
    for _ in range(ROUNDS):
        started = time.perf_counter()
        first()
        between = time.perf_counter()
        second()
        times.append((between - started, time.perf_counter() - between))
    return statistics.median(time_s for time_s, _ in times), statistics.median(time_s for _, time_s in times)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else ANSWERS)
