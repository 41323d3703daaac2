"""Results of analyses as plain values; this module imports neither numpy nor scipy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from vlmhyperbench_sdk.protocols import MetricDescription

CONFIDENCE = 0.95
"""Confidence of intervals."""
CERTAINTY = 0.99
"""Confidence of certified values, as in MLPerf."""

Method = Literal["wilson", "bca", "cluster_normal", "cluster_t"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Distribution:
    """Summary of times in milliseconds; numbers are None where there are no times."""

    n: int
    mean: float | None
    p50: float | None
    p90: float | None
    p99: float | None
    max: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """A condition that a valid measurement meets."""

    name: str
    ok: bool
    value: float | None
    """Measured value; None where it was not recorded."""
    limit: float
    """Largest allowed value, or smallest where `is_least`."""
    is_least: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """A confidence interval and the method that computed it."""

    low: float
    high: float
    method: Method
    units: int
    confidence: float = CONFIDENCE

    def excludes(self, value: float) -> bool:
        """Return whether a value lies outside."""
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
    """`combine` of the summed statistics; of a metric that is averaged, the mean."""
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
    """A percentile, in the unit of the values."""

    percent: float
    n: int
    """Number of requests, including failed ones."""
    failed: int
    plain: float | None
    """Percentile of the requests that succeeded, by nearest rank."""
    adjusted: float | None
    """Percentile of all requests, with failed ones as infinite; None where it is infinite."""
    low: float | None
    """Lower end of the interval of `adjusted`, a measured value; None with too few values or too many failures."""
    high: float | None
    """Upper end of the interval; None where no measured value bounds it: too few requests, or too many failures."""
    certified: float | None
    """Upper bound of the true percentile with confidence `certainty`: MLPerf's early-stopping estimate."""
    reason: str | None = None
    """Why `adjusted` or `certified` is None."""
    confidence: float = CONFIDENCE
    certainty: float = CERTAINTY


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitVerdict:
    """Whether a percentile of a time meets its limit."""

    name: str
    limit_ms: float
    percent: int
    n: int
    """Number of requests that have the time, plus those that failed."""
    over: int
    """Number of requests that exceed the limit; a failed request exceeds every limit."""
    value_ms: float | None
    """The percentile, with failures as infinite; None where it is infinite."""
    is_kept: bool
    """Whether the percentile is within the limit."""
    is_certain: bool
    """Whether the true percentile is within the limit with confidence `certainty`."""
    certainty: float = CERTAINTY


@dataclass(frozen=True, slots=True, kw_only=True)
class Goodput:
    """Requests that met every limit, as a share of all scheduled requests and as a rate."""

    met: int
    scheduled: int
    share: float | None
    low: float | None
    """Lower end of Wilson's interval of the share."""
    high: float | None
    per_s: float | None
    low_per_s: float | None
    """`low` times the rate at which requests were scheduled."""
    high_per_s: float | None
    confidence: float = CONFIDENCE


def perfect_of(description: MetricDescription) -> float | None:
    """Return the value of a right answer; None where that end of the range is open, or the metric has no direction."""
    low, high = description.range
    return {"higher": high, "lower": low, None: None}[description.direction]
