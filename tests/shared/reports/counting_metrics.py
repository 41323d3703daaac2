"""Metrics that count inside their statistics, as small as they can be: labels, and fields written `name=value;…`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Mapping, Sequence

from vlmhyperbench_sdk.protocols import MetricDescription
from vlmhyperbench_sdk.types import JsonObject, Measures


class _Counting(ABC):
    name = ""

    def __init__(self, profile: str = "v1") -> None:
        self.profile = profile

    @property
    def description(self) -> MetricDescription:
        return MetricDescription(
            name=self.name,
            profile=self.profile,
            version="1.0.0",
            title=self.name.capitalize(),
            kind="classification",
            unit="1",
            range=(0.0, 1.0),
            direction="higher",
            aggregation="pooled",
            proportion=False,
            normaliser="none",
            formula="right / expected",
            source="made up",
        )

    def measure(
        self,
        predictions: Sequence[str],
        references: Sequence[Sequence[str]],
        *,
        metadata: Sequence[JsonObject] | None = None,
    ) -> Measures:
        rows = [self.count(answer, right[0]) for answer, right in zip(predictions, references, strict=True)]
        names = sorted({name for row in rows for name in row})
        return Measures(
            values=[row["right"] / row["expected"] for row in rows],
            reasons=[None] * len(rows),
            statistics={name: [float(row[name]) for row in rows] for name in names},
        )

    @abstractmethod
    def count(self, answer: str, right: str) -> Counter[str]: ...

    def combine(self, sums: Mapping[str, float]) -> float | None:
        return sums["right"] / sums["expected"] if sums.get("expected") else None


class Labels(_Counting):
    """Counts `cell:<right>|<answer>`."""

    name = "labels"

    def count(self, answer: str, right: str) -> Counter[str]:
        return Counter({"right": int(answer == right), "expected": 1, f"cell:{right}|{answer}": 1})


class Fields(_Counting):
    """Counts `right:<path>` of `expected:<path>`."""

    name = "fields"

    def count(self, answer: str, right: str) -> Counter[str]:
        counts: Counter[str] = Counter()
        answered = set(answer.split(";"))
        for field in right.split(";"):
            path = field.partition("=")[0]
            for name, number in (("right", int(field in answered)), ("expected", 1)):
                counts[name] += number
                counts[f"{name}:{path}"] += number
        return counts
