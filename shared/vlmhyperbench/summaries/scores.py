"""What one metric says of the answers of a run, and of groups of them."""

from __future__ import annotations

from dataclasses import dataclass

from vlmhyperbench.analysis.results import Interval, perfect_of
from vlmhyperbench_sdk.protocols import MetricDescription

NO_GROUP = "(none)"
"""Stands for a sample without a value in a group column."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricIdentity:
    """A metric under the names that keep it apart within a run, and what decides its numbers."""

    key: str
    """How machines name it: with its profile where the run has the metric twice."""
    label: str
    """How people do."""
    name: str
    profile: str
    version: str
    extractor: str
    """What read the answers for it."""
    environment: str
    """Digest of the packages that computed it."""
    evaluation_id: str
    """Short id of everything that decides its numbers."""
    definition: str
    """Digest of what decides its numbers beside its description."""
    description: MetricDescription

    def is_same(self, other: MetricIdentity | None) -> bool:
        """Whether another run's metric gives the same number to the same answer."""
        return other is not None and (self.definition, self.description) == (other.definition, other.description)

    @property
    def perfect(self) -> float | None:
        """The value of a right answer, where the range has such an end."""
        return perfect_of(self.description)


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """One metric over all answers of a run, or over one group of them."""

    key: str
    """Of its `MetricIdentity`."""
    metric: str
    profile: str
    version: str
    environment: str
    evaluation_id: str
    group: tuple[str, ...]
    """Values of the group columns; empty for all answers."""
    n: int
    """Answers that were requested and have a row."""
    n_scored: int
    """Answers that have a value, model failures under the policy `zero` among them."""
    n_unscored: int
    """Answers without a value, whatever the reason."""
    n_invalid: int
    """Answers out of which nothing could be read, with a value by policy or without."""
    unscored: int
    """Answers that the metric gives no number."""
    model_failures: int
    infrastructure_failures: int
    value: float | None
    """The metric's own aggregate: `pooled` where it is pooled, else `mean`."""
    mean: float | None
    pooled: float | None
    median: float | None
    p95: float | None
    p99: float | None
    minimum: float | None
    maximum: float | None
    interval: Interval | None
    """Of `value`; documents are its units."""
    lower: float | None
    """The lowest that `value` could be, whatever the answers without a value were; None where nobody can say."""
    upper: float | None
    """The highest."""

    @property
    def low(self) -> float | None:
        return self.interval.low if self.interval else None

    @property
    def high(self) -> float | None:
        return self.interval.high if self.interval else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Crossing:
    """Scores by two group columns at once."""

    columns: tuple[str, str]
    scores: tuple[Score, ...]
