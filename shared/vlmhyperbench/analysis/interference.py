"""How much longer requests take under load than one at a time: ratios of medians with their intervals. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from vlmhyperbench.analysis.percentiles import percentiles_of
from vlmhyperbench.analysis.results import CONFIDENCE


@dataclass(frozen=True, slots=True, kw_only=True)
class MedianRatio:
    """A median over another one; 2 is twice as long."""

    value: float | None
    """None where either median is not there or the lower one is 0."""
    low: float | None
    """None where so few values do not bound a median; `high` too."""
    high: float | None
    confidence: float = CONFIDENCE


@dataclass(frozen=True, slots=True, kw_only=True)
class Interference:
    """What the streams cost each other: times with all of them over those of one request at a time."""

    baseline_requests: int
    """That succeeded."""
    ttft: MedianRatio
    tpot: MedianRatio
    latency: MedianRatio


def median_ratio(values: Sequence[float], baseline: Sequence[float], *, confidence: float = CONFIDENCE) -> MedianRatio:
    """Divide the median of values by that of a baseline measured apart from it.

    The interval divides the ends of both medians' order-statistic intervals crosswise. Each of them misses with
    (1 - confidence) / 2 at most, so the ratio's does with 1 - confidence.
    """
    each = (1 + confidence) / 2
    (above,) = percentiles_of(values, percents=[50], confidence=each)
    (below,) = percentiles_of(baseline, percents=[50], confidence=each)
    return MedianRatio(
        value=_ratio(above.plain, below.plain),
        low=_ratio(above.low, below.high),
        high=_ratio(above.high, below.low),
        confidence=confidence,
    )


def _ratio(above: float | None, below: float | None) -> float | None:
    return above / below if above is not None and below else None
