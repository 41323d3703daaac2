"""What the metrics' tests share: one sample at a time, and strategies for samples."""

from __future__ import annotations

import math
from collections.abc import Sequence

from hypothesis import strategies as st

from vlmhyperbench_sdk.protocols import Metric
from vlmhyperbench_sdk.types import JsonValue, Measures

WORDS = st.lists(st.sampled_from(["the", "The", "cat", "sat", "on", "mat", "12,50", "ё", "é", "-", " "]), max_size=6)
TEXT = WORDS.map(" ".join) | st.text(max_size=12)
SAMPLES = st.lists(st.tuples(TEXT, st.lists(TEXT, max_size=3)), max_size=8)


def value_of(metric: Metric, prediction: str, *references: str) -> float | None:
    """Score one sample."""
    return metric.measure([prediction], [references]).values[0]


def combined(metric: Metric, measures: Measures) -> float | None:
    """Value of the whole batch from its statistics."""
    return metric.combine({name: math.fsum(column) for name, column in measures.statistics.items()})


def measure(metric: Metric, samples: Sequence[tuple[str, Sequence[str]]]) -> Measures:
    """Score samples in one batch."""
    return metric.measure([prediction for prediction, _ in samples], [references for _, references in samples])


def judged(metric: Metric, prediction: str, reference: str, **metadata: JsonValue) -> float | None:
    """Score one sample that has metadata."""
    return metric.measure([prediction], [[reference]], metadata=[metadata]).values[0]
