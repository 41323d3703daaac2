"""Measure how long the report of a million timed requests takes, and the folding of their tokens.

Usage: python -m benchmarks.report_speed [REQUESTS]    The run has no metric, so the time is that of the chapter on
performance and of writing the report. Tokens are folded as in the reporter: in batches of 4,096 answers of 32 tokens.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime

import numpy
import polars
from rich.console import Console
from rich.table import Table

from benchmarks.report_scale import CLAIM, MS, run_bundle
from vlmhyperbench.db.fact_rows import FACT_COLUMNS
from vlmhyperbench.facts.schema import polars_schema
from vlmhyperbench.reports.bundles import RunBundle
from vlmhyperbench.reports.composing import compose_run, render
from vlmhyperbench.summaries.records import TokenEvents
from vlmhyperbench.summaries.spans import grid_over, on_one_clock
from vlmhyperbench.summaries.tokens import COLUMNS, fold, no_events
from vlmhyperbench_sdk.memory import peak_rss_bytes

BATCH, TOKENS = 4096, 32
AIM_S = 30.0


def main(requests: int) -> None:
    """Make a run, report it and print time and memory."""
    facts = _facts(requests)
    events, folded_s = _folded(facts)
    bundle = _bundle(facts, events)
    before, cpu = time.perf_counter(), time.process_time()
    draft = compose_run(bundle)
    composed = time.perf_counter()
    files = render(draft, {}, formats=("markdown", "html", "json"))
    ended = time.perf_counter()
    table = Table("figure", "measured", "aim", title=f"report of {requests:,} timed requests")
    table.add_row("composing", f"{composed - before:.1f} s", "")
    table.add_row("rendering", f"{ended - composed:.1f} s", "")
    table.add_row("together", f"{ended - before:.1f} s ({time.process_time() - cpu:.1f} s CPU)", f"≤ {AIM_S:.0f} s")
    table.add_row(f"folding {requests * TOKENS:,} tokens", f"{folded_s:.1f} s", "")
    for file in files:
        if file.name in {"report.html", "report.json"}:
            table.add_row(file.name, f"{len(file.content) / 1e6:.1f} MB", "")
    table.add_row("peak memory", f"{peak_rss_bytes() / 1e6:,.0f} MB", "")
    Console().print(table)


def _bundle(facts: polars.DataFrame, events: TokenEvents) -> RunBundle:
    small = run_bundle(1)
    texts = {name: kind for name, kind in small.facts.schema.items() if name not in facts.columns}
    filled = facts.with_columns(polars.lit(None, dtype=kind).alias(name) for name, kind in texts.items())
    spec = {**small.spec, "metrics": [], "reports": ["markdown", "html", "json"]}
    return replace(small, spec=spec, total=facts.height, samples=facts.height, facts=filled, measures=(), events=events)


def _facts(requests: int) -> polars.DataFrame:
    chance = numpy.random.default_rng(30)
    due = numpy.cumsum(chance.exponential(5 * MS, requests)).astype(numpy.int64)
    first = (chance.lognormal(4.5, 0.4, requests) * MS).astype(numpy.int64)
    gap = (chance.lognormal(2.5, 0.3, requests) * MS).astype(numpy.int64)
    late = (chance.exponential(0.05, requests) * MS).astype(numpy.int64)
    is_ok = chance.random(requests) > 0.0005
    ordinal = numpy.arange(requests)
    latency = first + gap * (TOKENS - 1)
    values = {
        "phase": 1,
        "phase_kind": "server",
        "ordinal": ordinal,
        "sample": ordinal,
        "is_reused": False,
        "run_id": "r",
        "source_phase": 1,
        "status": numpy.where(is_ok, "ok", "error"),
        "origin": "live",
        "finish_reason": "stop",
        "tries": 1,
        "prompt_tokens": 1200,
        "completion_tokens": TOKENS,
        "token_source": "usage",
        "scheduled_ns": due,
        "sent_ns": due + late,
        "queue_ns": late,
        "ttft_user_ns": first,
        "ttft_service_ns": first - late,
        "tpot_ns": gap.astype(numpy.float64),
        "latency_ns": latency,
        "stream_end_ns": due + latency,
        "claim_id": CLAIM,
        "chunk": ordinal // 256,
        "row": ordinal % 256,
    }
    schema = polars_schema(FACT_COLUMNS)
    columns = {
        name: polars.Series(value) if isinstance(value := values.get(name), numpy.ndarray) else polars.lit(value)
        for name in schema
    }
    return polars.DataFrame({"ordinal": ordinal}).with_columns(**columns).select(list(schema)).cast(schema)


def _folded(facts: polars.DataFrame) -> tuple[TokenEvents, float]:
    """Fold the tokens of all answers; also return the seconds that the folding took."""
    shared = on_one_clock(facts, {})
    assert shared is not None
    grid = grid_over(shared)
    assert grid is not None
    events, took_s = no_events(grid), 0.0
    for batch in _events(facts.filter(polars.col("status") == "ok")):
        start = time.perf_counter()
        events, _ = fold(events, batch, {})
        took_s += time.perf_counter() - start
    return events, took_s


def _events(facts: polars.DataFrame) -> Iterator[polars.DataFrame]:
    """Spread the tokens of each answer evenly, as its TPOT says, batch by batch."""
    for start in range(0, facts.height, BATCH):
        rows = facts.slice(start, BATCH)
        first = (rows["scheduled_ns"] + rows["ttft_user_ns"]).to_numpy()
        at = first[:, None] + rows["tpot_ns"].to_numpy()[:, None].astype(numpy.int64) * numpy.arange(TOKENS)
        yield rows.select(
            "claim_id",
            *(name for name in COLUMNS if name in rows.columns),
            last_event_ns=polars.Series(at[:, -1]),
            event_ns=polars.Series(at.tolist(), dtype=polars.List(polars.Int64)),
            event_tokens=polars.Series([[1] * TOKENS] * rows.height, dtype=polars.List(polars.Int32)),
            event_kind=polars.Series([["content"] * TOKENS] * rows.height, dtype=polars.List(polars.String)),
        )


if __name__ == "__main__":
    print(f"{datetime.now().astimezone():%Y-%m-%d %H:%M}, {os.cpu_count()} CPUs")
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000)
