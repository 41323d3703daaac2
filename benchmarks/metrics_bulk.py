"""Compare the speed of bulk scoring with loops over the packages that define the metrics, on the same pairs of texts.

Usage: python -m benchmarks.metrics_bulk [PAIRS]    The loops run on at most 100,000 pairs, and their time is scaled up.
"""

from __future__ import annotations

import os
import random
import sys
import time
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import NamedTuple

import jiwer
from anls.metrics import anls_score  # type: ignore[import-untyped]  # it brings no types
from rich.console import Console
from rich.table import Table

from vlmhyperbench_sdk.memory import peak_rss_bytes
from vlmhyperbench_sdk.protocols import Metric
from vlmhyperbench_text_metrics.anls import Anls
from vlmhyperbench_text_metrics.cer import Cer
from vlmhyperbench_text_metrics.exact_match import ExactMatch
from vlmhyperbench_text_metrics.normalise import NormaliserV1
from vlmhyperbench_text_metrics.wer import Wer

LOOPED = 100_000
TOLERANCE = 1e-12
ALPHABET = "abcdefghijklmnopqrstuvwxyz0123456789"


class Case(NamedTuple):
    """A metric, and the loop that it is compared with."""

    metric: Metric
    aim_s: float
    """For 1,000,000 pairs on 2 cores."""
    loop: str
    score: Callable[[str, str], float]
    """Scalar definition by the named package: (prediction, reference) → value."""


def main(pairs: int) -> None:
    """Measure the time of each metric and its loop, and compare every value that both computed."""
    predictions, references = _pairs(pairs)
    input_bytes = peak_rss_bytes()
    table = Table("metric", "ours", "aim", "loop", "ratio", "identical values", title=f"{pairs:,} pairs, 20-40 chars")
    accepted = [[reference] for reference in references]
    for case in _cases():
        start = time.perf_counter()
        values = case.metric.measure(predictions, accepted).values
        ours_s = time.perf_counter() - start
        looped = min(pairs, LOOPED)
        start = time.perf_counter()
        expected = list(map(case.score, predictions[:looped], references[:looped]))
        loop_s = (time.perf_counter() - start) * pairs / looped
        table.add_row(
            f"{case.metric.description.name}@{case.metric.description.profile}",
            f"{ours_s:.2f} s",
            f"≤ {case.aim_s * pairs / 1e6:.1f} s",
            f"{loop_s:.1f} s, {case.loop}",
            f"{loop_s / ours_s:.1f}",
            f"{_same(values, expected):,} of {looped:,}",
        )
    Console().print(table)
    print(f"peak memory beyond the input: {(peak_rss_bytes() - input_bytes) / 1e9:.2f} GB (aim ≤ 1 GB)")


def _cases() -> list[Case]:
    normalise = NormaliserV1()
    return [
        Case(Anls(), 2.0, "anls.metrics", lambda answer, true: anls_score(answer, [true])),
        Case(Cer(), 3.0, "jiwer.cer", lambda answer, true: jiwer.cer(true, answer)),
        Case(Wer(), 3.0, "jiwer.wer", lambda answer, true: jiwer.wer(true, answer)),
        Case(ExactMatch(), 0.5, "normaliser loop", lambda answer, true: float(normalise(answer) == normalise(true))),
    ]


def _pairs(count: int) -> tuple[list[str], list[str]]:
    """Make references of 20 to 40 characters, and answers: a third the same, a third in capitals, a third misread."""
    chance = random.Random(20)
    vocabulary = ["".join(chance.choices(ALPHABET, k=chance.randint(2, 9))) for _ in range(20_000)]
    references = [" ".join(chance.choices(vocabulary, k=7))[: chance.randint(20, 40)].strip() for _ in range(count)]
    changes = (lambda text: text, str.upper, lambda text: _misread(text, chance))
    return [changes[no % 3](text) for no, text in enumerate(references)], references


def _misread(text: str, chance: random.Random) -> str:
    first, second = chance.randrange(len(text)), chance.randrange(len(text))
    changed = text[:first] + chance.choice(ALPHABET) + text[first + 1 :]
    return changed[:second] + changed[second + 1 :]


def _same(values: Sequence[float | None], expected: Sequence[float]) -> int:
    return sum(own is not None and abs(own - other) <= TOLERANCE for own, other in zip(values, expected, strict=False))


if __name__ == "__main__":
    print(f"{datetime.now().astimezone():%Y-%m-%d %H:%M}, {os.cpu_count()} CPUs")
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000)
