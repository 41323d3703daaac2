"""The metric `reported`: the score of an answer that an imported file reports, next to our own scores.

It has no entry in the registry: an import adds a metric for every score that its file reports.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from vlmhyperbench.domain.specs import MetricSpec
from vlmhyperbench.errors import InvalidInput
from vlmhyperbench_sdk.protocols import MetricDescription
from vlmhyperbench_sdk.types import JsonObject, Measures

CLASS_PATH = "vlmhyperbench.scoring.reported:Reported"
PROFILE = "file"
VERSION = "1.0.0"
KEY = "reported"
"""Key of the scores in a sample's metadata: `{name: number}`."""
NOT_REPORTED = "not_reported"


def is_reported(metric: MetricSpec) -> bool:
    """Return whether a metric's numbers come from a file."""
    return metric.class_path == CLASS_PATH


def reported_metric(score: str) -> MetricSpec:
    """Pin the metric of a score that a file reports."""
    return MetricSpec(
        name=f"reported {score}",
        profile=PROFILE,
        version=VERSION,
        class_path=CLASS_PATH,
        params={"score": score},
    )


class Reported:
    """The number that a file reports for an answer; an answer without one is unscored."""

    def __init__(self, *, score: str, profile: str = PROFILE) -> None:
        if profile != PROFILE:
            raise InvalidInput(f"The metric 'reported' has no profile {profile!r}.", cure=f"Write {PROFILE}.")
        self._score = score

    @property
    def description(self) -> MetricDescription:
        return MetricDescription(
            name=f"reported {self._score}",
            profile=PROFILE,
            version=VERSION,
            title=f"{self._score}, as the file reports it",
            kind="text",
            unit="as in the file",
            range=(None, None),
            direction=None,
            aggregation="mean",
            proportion=False,
            normaliser="unknown",
            formula="the number in the file; whether more of it is better, the file does not say",
            source="the imported file",
        )

    def measure(
        self,
        predictions: Sequence[str],
        references: Sequence[Sequence[str]],  # noqa: ARG002 (part of the contract)
        *,
        metadata: Sequence[JsonObject] | None = None,
    ) -> Measures:
        values = [self._read(entry) for entry in metadata or [{}] * len(predictions)]
        return Measures(
            values=values,
            reasons=[NOT_REPORTED if value is None else None for value in values],
            statistics={
                "score": [value or 0.0 for value in values],
                "count": [0.0 if value is None else 1.0 for value in values],
            },
        )

    def combine(self, sums: Mapping[str, float]) -> float | None:
        return sums["score"] / sums["count"] if sums.get("count") else None

    def _read(self, metadata: JsonObject) -> float | None:
        scores = metadata.get(KEY)
        value = scores.get(self._score) if isinstance(scores, Mapping) else None
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            return None
        return float(value)
