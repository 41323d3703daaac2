"""What one metric says of the answers of a run, and of groups of them."""

from __future__ import annotations

from dataclasses import dataclass

from vlmhyperbench.analysis.results import Aggregate, perfect_of
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
class Score(Aggregate):
    """Aggregate of one metric over all answers of a run, or over one group of them."""

    key: str
    """Key of its `MetricIdentity`."""
    metric: str
    profile: str
    version: str
    environment: str
    evaluation_id: str
    group: tuple[str, ...]
    """Values of the group columns; empty for all answers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Crossing:
    """Scores by two group columns at once."""

    columns: tuple[str, str]
    scores: tuple[Score, ...]
