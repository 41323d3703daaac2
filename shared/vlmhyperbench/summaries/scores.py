"""Scores of one metric over the answers of a run, and over groups of them."""

from __future__ import annotations

from dataclasses import dataclass

from vlmhyperbench.analysis.results import Aggregate, perfect_of
from vlmhyperbench_sdk.protocols import MetricDescription

NO_GROUP = "(none)"
"""Value of a group column for samples that have none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricIdentity:
    """Names of a metric that are unique within a run, and everything that its numbers depend on."""

    key: str
    """Name in machine-readable results; it has the profile where the run has the metric twice."""
    label: str
    """Name for people."""
    name: str
    profile: str
    version: str
    extractor: str
    """Extractor that parsed the answers."""
    environment: str
    """Digest of the packages that computed the measures."""
    evaluation_id: str
    """Short id of everything that its numbers depend on."""
    definition: str
    """Digest of what its numbers depend on besides its description."""
    description: MetricDescription

    def is_same(self, other: MetricIdentity | None) -> bool:
        """Return whether another run's metric gives the same value to the same answer."""
        return other is not None and (self.definition, self.description) == (other.definition, other.description)

    @property
    def perfect(self) -> float | None:
        """Value of a right answer; None where that end of the range is open, or the metric has no direction."""
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
