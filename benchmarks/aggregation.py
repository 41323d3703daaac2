"""Measure time and memory of the aggregation of 10,000,000 per-sample scores by each usual grouping.

Usage: python -m benchmarks.aggregation [SAMPLES]    2,000,000 samples by default, with five metrics. Each grouping runs
in its own process, together with a baseline on the same frames: a mean by group, by polars.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import datetime

import numpy as np
import polars
from rich.console import Console
from rich.table import Table

from vlmhyperbench.analysis.aggregation import aggregate, describe, number_documents
from vlmhyperbench.analysis.combining import Combining
from vlmhyperbench.domain.aggregators import AGGREGATORS
from vlmhyperbench_sdk.memory import peak_rss_bytes
from vlmhyperbench_text_metrics.anls import Anls
from vlmhyperbench_text_metrics.cer import Cer
from vlmhyperbench_text_metrics.exact_match import ExactMatch
from vlmhyperbench_text_metrics.token_f1 import TokenF1
from vlmhyperbench_text_metrics.wer import Wer

GROUPINGS = {**AGGREGATORS, "by_id": ("id",)}
METRICS: tuple[Combining, ...] = (ExactMatch(), Anls(), TokenF1(), Cer(), Wer())
DOC_CLASSES, QUESTION_TYPES, FIELDS = 20, 10, 50
SAMPLES_PER_DOCUMENT = 4
MISSING = 0.02
AIM_S, AIM_BYTES = 10.0, 4e9
SHARE = {"exact_match": "correct", "anls": "similarity", "token_f1": "f1"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """Time and memory of one grouping of all metrics."""

    groups: int
    ours_s: float
    cpu_s: float
    """CPU time of all cores: more than `ours_s` if several cores worked, less if other processes ran meanwhile."""
    plain_s: float
    """Time of a mean by group of the same frames, by polars."""
    methods: list[str]
    peak_bytes: int
    input_bytes: int
    """Peak memory before the aggregation: of making the frames."""


def main(samples: int) -> None:
    """Run each grouping in a child process and print its time and memory."""
    aim = f"≤ {AIM_S * samples / 2e6:.0f} s, ≤ {AIM_BYTES / 1e9:.0f} GB"
    table = Table(
        *("grouping", "groups", "ours", "CPU", "polars mean", "ratio", "intervals", "peak memory (input)"),
        title=f"{samples * len(METRICS):,} scores of {len(METRICS)} metrics, aim {aim}",
    )
    for name in GROUPINGS:
        measured = in_child(samples, name)
        table.add_row(
            name,
            f"{measured.groups:,}",
            f"{measured.ours_s:.2f} s",
            f"{measured.cpu_s:.2f} s",
            f"{measured.plain_s:.2f} s",
            f"{measured.ours_s / measured.plain_s:.1f}",
            ", ".join(measured.methods) or "none",
            f"{measured.peak_bytes / 1e9:.2f} GB ({measured.input_bytes / 1e9:.2f} GB)",
        )
    Console().print(table)


def in_child(samples: int, name: str) -> Measured:
    """Aggregate every metric by one grouping in a new process."""
    argv = [sys.executable, "-m", "benchmarks.aggregation", str(samples), name]
    return Measured(**json.loads(subprocess.run(argv, check=True, stdout=subprocess.PIPE).stdout))


def measure(samples: int, name: str) -> Measured:
    """Aggregate every metric by one grouping in this process."""
    frames = dict(_frames(samples))
    columns = GROUPINGS[name]
    input_bytes = peak_rss_bytes()
    start, cpu_start = time.perf_counter(), time.process_time()
    methods: set[str] = set()
    groups = 0
    numbers = number_documents(next(iter(frames.values()))["cluster"]) if name != "by_id" else None
    for metric, named in frames.items():
        frame = named if numbers is None else named.with_columns(numbers)
        if name == "by_id":
            groups = describe(frame, group_by=columns).height
        else:
            aggregated = aggregate(frame, metric, group_by=columns)
            groups = aggregated.height
            methods.update(aggregated["ci_method"].drop_nulls())
    ours_s, cpu_s = time.perf_counter() - start, time.process_time() - cpu_start
    peak_bytes = peak_rss_bytes()
    start = time.perf_counter()
    for frame in frames.values():
        mean = polars.col("value").mean()
        frame.group_by(columns).agg(mean) if columns else frame.select(mean)
    plain_s = time.perf_counter() - start
    return Measured(
        groups=groups,
        ours_s=ours_s,
        cpu_s=cpu_s,
        plain_s=plain_s,
        methods=sorted(methods),
        peak_bytes=peak_bytes,
        input_bytes=input_bytes,
    )


def _frames(samples: int) -> Iterator[tuple[Combining, polars.DataFrame]]:
    """Make one frame per metric; shared columns are in memory once."""
    chance = np.random.default_rng(10)
    documents = np.arange(samples) // SAMPLES_PER_DOCUMENT
    hashes = chance.integers(0, 2**63, size=(documents[-1] + 1, 4)).tolist()
    shared = polars.DataFrame(
        {
            "id": polars.int_range(samples, eager=True).cast(polars.String),
            "cluster": polars.Series(["".join(f"{part:016x}" for part in parts) for parts in hashes])[documents],
            "doc_class": _named("class", documents % DOC_CLASSES),
            "question_type": _named("question", chance.integers(0, QUESTION_TYPES, samples)),
            "field": _named("field", chance.integers(0, FIELDS, samples)),
        }
    )
    del hashes
    for metric in METRICS:
        is_missing = polars.Series(chance.random(samples) < MISSING)
        edits, length = chance.integers(0, 8, samples), chance.integers(4, 41, samples)
        share = (edits == 0) if metric.description.proportion else np.round(1 - edits / length, 4).clip(0)
        name = metric.description.name
        sums = {SHARE[name]: share} if name in SHARE else {"edits": edits, "length": length}
        value = share if name in SHARE else edits / length
        outcome = polars.when(is_missing).then(polars.lit("infrastructure_failure")).otherwise(polars.lit("scored"))
        known = {**{f"stat.{key}": column for key, column in sums.items()}, "stat.count": np.ones(samples)}
        yield (
            metric,
            shared.with_columns(
                outcome.alias("outcome"),
                polars.when(~is_missing).then(polars.Series(value, dtype=polars.Float64)).alias("value"),
                *(
                    polars.when(is_missing).then(0.0).otherwise(polars.Series(column, dtype=polars.Float64)).alias(key)
                    for key, column in known.items()
                ),
                *(
                    polars.when(is_missing).then(polars.Series(length, dtype=polars.Float64)).alias(f"{end}.{key}")
                    for end in ("wrong", "right")
                    for key in ("edits", "length", "count")
                    if metric.description.aggregation == "pooled"
                ),
            ),
        )


def _named(kind: str, numbers: np.ndarray[tuple[int], np.dtype[np.int64]]) -> polars.Series:
    names = polars.Series([f"{kind}-{number:02}" for number in range(int(numbers.max()) + 1)])
    return names[numbers]


if __name__ == "__main__":
    wanted = int(sys.argv[1]) if len(sys.argv) > 1 else 2_000_000
    if len(sys.argv) > 2:
        print(json.dumps(asdict(measure(wanted, sys.argv[2]))))
    else:
        print(f"{datetime.now().astimezone():%Y-%m-%d %H:%M}, {os.cpu_count()} CPUs")
        main(wanted)
