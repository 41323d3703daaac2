"""Ratio of two targets measured in pairs: conditions that a pair shares, such as hour and seed, cancel out. Pure."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass

from vlmhyperbench.analysis.repeats import mean_of_repeats
from vlmhyperbench.analysis.results import CONFIDENCE
from vlmhyperbench_sdk.errors import InvalidInput


@dataclass(frozen=True, slots=True, kw_only=True)
class PairedRatio:
    """Ratio of the second target to the first: geometric mean over pairs, with its interval; 1.1 is a tenth more."""

    pairs: int
    ratio: float | None
    low: float | None
    high: float | None
    confidence: float = CONFIDENCE
    reason: str | None = None
    """Why there is no ratio or no interval."""

    @property
    def differs(self) -> bool:
        """Whether the interval excludes 1."""
        return self.low is not None and self.high is not None and not self.low <= 1 <= self.high


def ratio_of_pairs(
    first: Sequence[float | None], second: Sequence[float | None], *, confidence: float = CONFIDENCE
) -> PairedRatio:
    """Compare values pair by pair, with Student's t interval of the mean difference of their logarithms.

    The differences are assumed to be normally distributed.

    Args:
        first: First value of each pair. Shape: (pairs,).
        second: Second value of each pair, in the same order. Shape: (pairs,).
        confidence: Confidence of the interval.

    Raises:
        InvalidInput: the lengths differ, or the confidence is out of range.
    """
    if len(first) != len(second):
        raise InvalidInput(f"{len(first)} and {len(second)} values make no pairs.")
    logs = [math.log(b / a) if a and b and a > 0 and b > 0 else None for a, b in zip(first, second, strict=True)]
    log_mean = mean_of_repeats(logs, confidence=confidence)
    ratio = PairedRatio(pairs=log_mean.n, ratio=None, low=None, high=None, confidence=confidence)
    if log_mean.mean is None:
        reason = f"{len(logs) - log_mean.n} of {len(logs)} pairs lack a value" if logs else "nothing was measured"
        return dataclasses.replace(ratio, reason=reason)
    ratio = dataclasses.replace(ratio, ratio=math.exp(log_mean.mean))
    if log_mean.low is None or log_mean.high is None:
        return dataclasses.replace(ratio, reason="one pair has no interval")
    return dataclasses.replace(ratio, low=math.exp(log_mean.low), high=math.exp(log_mean.high))
