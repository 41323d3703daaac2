"""How much longer requests take under load than one at a time: ratios of medians with intervals. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from vlmhyperbench.analysis.percentiles import percentiles_of
from vlmhyperbench.analysis.results import CONFIDENCE


@dataclass(frozen=True, slots=True, kw_only=True)
class MedianRatio:
    """Ratio of a median to a baseline's median; 2 means twice as long."""

    value: float | None
    """None where a median is missing or the baseline's is 0."""
    low: float | None
    """Lower end of the interval; like `high` None where there are too few values to bound a median."""
    high: float | None
    confidence: float = CONFIDENCE


@dataclass(frozen=True, slots=True, kw_only=True)
class Interference:
    """How streams slow each other down: times under load over times of one request at a time."""

    baseline_requests: int
    """Number of baseline requests that succeeded."""
    ttft: MedianRatio
    tpot: MedianRatio
    latency: MedianRatio


def median_ratio(values: Sequence[float], baseline: Sequence[float], *, confidence: float = CONFIDENCE) -> MedianRatio:
    """Divide the median of values by that of an independently measured baseline.

    Each median has an order-statistic interval that misses with a probability of at most (1 - confidence) / 2. The
    ratio's interval goes from low / high to high / low of these, and so misses with at most 1 - confidence.
    """
    each = (1 + confidence) / 2
    (numerator,) = percentiles_of(values, percents=[50], confidence=each)
    (denominator,) = percentiles_of(baseline, percents=[50], confidence=each)
    return MedianRatio(
        value=_ratio(numerator.plain, denominator.plain),
        low=_ratio(numerator.low, denominator.high),
        high=_ratio(numerator.high, denominator.low),
        confidence=confidence,
    )


def _ratio(numerator: float | None, denominator: float | None) -> float | None:
    return numerator / denominator if numerator is not None and denominator else None
