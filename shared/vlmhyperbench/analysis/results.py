"""The results of analyses as plain values: storing or showing them imports neither numpy nor scipy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from vlmhyperbench_sdk.protocols import MetricDescription

CONFIDENCE = 0.95
"""Of intervals."""
CERTAINTY = 0.99
"""Confidence of what is certified: MLPerf's."""

Method = Literal["wilson", "bca", "cluster_normal", "cluster_t"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Distribution:
    """What a set of times looks like, in milliseconds; None where there is none."""

    n: int
    mean: float | None
    p50: float | None
    p90: float | None
    p99: float | None
    max: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """One condition that a valid measurement meets."""

    name: str
    ok: bool
    value: float | None
    limit: float
    """The largest allowed value, or with `is_least` the smallest."""
    is_least: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """A confidence interval, and how it was made."""

    low: float
    high: float
    method: Method
    units: int
    confidence: float = CONFIDENCE

    def excludes(self, value: float) -> bool:
        """Say whether a value lies outside."""
        return value < self.low or value > self.high


@dataclass(frozen=True, slots=True, kw_only=True)
class Aggregate:
    """One metric over a group of answers. Numbers are None where they are undefined."""

    n: int
    """Number of answers that were requested and have a row."""
    n_scored: int
    """Number of answers that have a value, including model failures under the policy `zero`."""
    n_unscored: int
    """Number of answers without a value, for any reason."""
    n_invalid: int
    """Number of answers that could not be parsed, with a value by policy or without."""
    unscored: int
    """Number of answers with the outcome `unscored`."""
    model_failures: int
    infrastructure_failures: int
    value: float | None
    """The metric's own aggregate: `pooled` where it is pooled, else `mean`."""
    mean: float | None
    pooled: float | None
    """`combine` of the summed statistics."""
    median: float | None
    p95: float | None
    p99: float | None
    minimum: float | None
    maximum: float | None
    interval: Interval | None
    """Confidence interval of `value`; its units are documents."""
    lower: float | None
    """Smallest possible `value` over all values that the answers without one could have; None where unknown."""
    upper: float | None
    """Largest possible `value`. A pooled metric with missing answers has one bound only: that of right answers."""

    @property
    def low(self) -> float | None:
        """Lower end of the interval."""
        return self.interval.low if self.interval else None

    @property
    def high(self) -> float | None:
        """Upper end of the interval."""
        return self.interval.high if self.interval else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Percentile:
    """One percentile, in the unit of the values."""

    percent: float
    n: int
    """Requests, failed ones among them."""
    failed: int
    plain: float | None
    """Of the requests that succeeded, by nearest rank."""
    adjusted: float | None
    """Of all requests, failed ones counting as infinite; None where it is infinite."""
    low: float | None
    """Lower end of the interval of `adjusted`, a measured value; None where there are too few values, or where so many
    failed that it is infinite."""
    high: float | None
    """Upper end; None where no measured value bounds it: too few requests, or too many failures."""
    certified: float | None
    """What the true percentile does not exceed, at `certainty`: MLPerf's early-stopping estimate."""
    reason: str | None = None
    """Why `adjusted` or `certified` is None."""
    confidence: float = CONFIDENCE
    certainty: float = CERTAINTY


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitVerdict:
    """One limit and what the requests say of it, in milliseconds."""

    name: str
    limit_ms: float
    percent: int
    n: int
    """Requests with such a time, and those that failed."""
    over: int
    """How many exceeded it; a failed request exceeds every limit."""
    value_ms: float | None
    """The percentile, failures counting as infinite; None where it is infinite."""
    is_kept: bool
    """The percentile is within the limit."""
    is_certain: bool
    """So few requests are over it that the true percentile is within the limit, at `certainty`."""
    certainty: float = CERTAINTY


@dataclass(frozen=True, slots=True, kw_only=True)
class Goodput:
    """Requests that kept every limit, over all that were scheduled."""

    met: int
    scheduled: int
    share: float | None
    low: float | None
    """Wilson's interval of the share, over requests; `high` too."""
    high: float | None
    per_s: float | None
    low_per_s: float | None
    """The share's interval times the rate at which requests were scheduled; `high_per_s` too."""
    high_per_s: float | None
    confidence: float = CONFIDENCE


def perfect_of(description: MetricDescription) -> float | None:
    """Return the value of a right answer; None where the range has no such end, or nobody says which end is good."""
    low, high = description.range
    return {"higher": high, "lower": low, None: None}[description.direction]
